"""Rotation of an issuing CA in two phases: both are trusted until every active machine has moved to the new one.

Each call can be repeated after a crash and goes on where it stopped: what is trusted changes in one step, the
replacement of the generations' file, and everything before and after it is idempotent.
"""

from dataclasses import dataclass

from cryptography import x509
from cryptography.x509.oid import NameOID
from sqlalchemy.orm import Session, sessionmaker

from fleetd.ca.files import one_changes, replace_file
from fleetd.ca.generations import Generations, TreeError, file_name, write_generations
from fleetd.ca.revoking import FleetAuthority, sign_root_list
from fleetd.ca.tree import ISSUERS, Issuer, Tree, make_authority, signed_by
from fleetd.core.certificates.profile import ISSUER_OF, Tier
from fleetd.core.names import MachineId
from fleetd.ports import Clock, RandomSource
from fleetd.store.certificates import holders_of, retire_issuer, serials_taken

_KINDS = {tier: kind for kind, tier in ISSUER_OF.items()}


class RotationError(RuntimeError):
    """The step is refused; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A machine that has not moved: with certificates of the leaving CA only, or without a pin of the new service key."""

    machine: MachineId
    node_name: str
    blocks: bool
    """False for a machine that is lost or quarantined: it must enroll again when it comes back."""
    why: str = ""
    """What it lacks, where that is not a certificate."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a rotation got."""

    new: str
    old: str
    machines: int
    """Machines with a certificate in force of either CA; of a service key, those that check."""
    waiting: tuple[Holder, ...]
    server_moved: bool = True
    """Whether fleetd's own TLS certificate is of the new CA; true where the rotation does not touch it."""
    runs: tuple[Holder, ...] = ()
    """Machines in a run that was told of the old service key only."""

    @property
    def moved(self) -> int:
        """Machines that use a certificate of the new CA."""
        return self.machines - len(self.waiting)

    @property
    def blocking(self) -> tuple[Holder, ...]:
        """Machines that answer and have not moved yet."""
        return tuple(holder for holder in (*self.waiting, *self.runs) if holder.blocks)


@dataclass(frozen=True, slots=True)
class Rotation:
    """The steps of a rotation, one process at a time. Raises RotationError and TreeError."""

    sessions: sessionmaker[Session]
    tree: Tree
    authority: FleetAuthority
    clock: Clock
    random: RandomSource
    crl_url: str

    def begin(self, tier: Tier) -> Issuer:
        """Make the new CA and let it issue; the old one stays trusted. Needs the root's key on this host."""
        with one_changes(self.tree.directory):
            made = self._begin(tier)
        if tier is not Tier.SERVER:
            self.authority.revocation_list(made.name)  # its first one
        return made

    def _begin(self, tier: Tier) -> Issuer:
        present = self._rotating(tier, begun=False)
        if not self.tree.root_key_file.exists():
            raise RotationError(f"the root's key signs the new CA: bring it back as {self.tree.root_key_file}")
        self._clear_up(tier)
        now = self.clock.now()
        fresh = present.begun(now)
        root = self.tree.certificate(Tier.ROOT)
        organization = str(root.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)[0].value)
        list_url = f"{self.crl_url}/v1/crl/root"
        # A pair that a crash left behind is used; a certificate without its key would never sign.
        certificate_file = self.tree.certificate_file(tier, fresh.active)
        if certificate_file.exists() and not self.tree.keys(tier).exists(file_name(tier, fresh.active)):
            certificate_file.unlink()
        make_authority(self.tree, tier, fresh.active, organization, list_url, now, self.random)
        self._try_out(tier, fresh.active)
        write_generations(self.tree.directory, tier, fresh)
        replace_file(self.tree.root_list_file, sign_root_list(self.tree, now))
        return self.tree.issuer(tier)

    def status(self, tier: Tier) -> Progress:
        """Return how far the rotation of a tier got."""
        self._rotating(tier, begun=True)
        new, old = self.tree.in_force(tier)
        if tier is Tier.SERVER:
            moved = signed_by(self.tree.server_files[0], new.certificate)
            return Progress(new.name, old.name, 0, (), moved)
        with self.sessions() as session:
            held = holders_of(session, _KINDS[tier], new.fingerprint, old.fingerprint, self.clock.now())
        waiting = tuple(Holder(each.machine, each.node_name, each.active) for each in held if not each.moved)
        return Progress(new.name, old.name, len(held), waiting)

    def complete(self, tier: Tier) -> Progress:
        """Stop trusting the old CA: revoke what is left of it, sign its last list, remove its key.

        Refused while a machine that answers still has certificates of the old one only.
        """
        with one_changes(self.tree.directory):
            return self._complete(tier)

    def _complete(self, tier: Tier) -> Progress:
        if self.tree.generations(tier).leaving is None:
            self._clear_up(tier)
        progress = self.status(tier)
        if progress.blocking:
            names = ", ".join(holder.node_name or f"machine {holder.machine}" for holder in progress.blocking[:20])
            raise RotationError(
                f"{len(progress.blocking)} active machines still have certificates of {progress.old} only: {names}; "
                "they renew at their next boot check"
            )
        if not progress.server_moved:
            raise RotationError(
                f"fleetd's own TLS certificate is still of {progress.old}; `fleetd serve` renews it at its start"
            )
        if self.tree.root_key_file.exists():
            self.tree.root_key()  # what could not sign the root's list is said before anything is changed
        write_generations(self.tree.directory, tier, self.tree.generations(tier).completed())
        self._clear_up(tier)
        return progress

    def abort(self, tier: Tier) -> None:
        """Let the old CA issue again and forget the new one; only while that has issued nothing."""
        with one_changes(self.tree.directory):
            self._abort(tier)

    def _abort(self, tier: Tier) -> None:
        if self.tree.generations(tier).leaving is None:
            self._clear_up(tier)
        present = self._rotating(tier, begun=True)
        new = self.tree.issuer(tier)
        self._refuse_used(new)
        write_generations(self.tree.directory, tier, present.aborted())
        try:
            # Whoever read the file before it was replaced may have issued meanwhile.
            self._refuse_used(new)
        except RotationError:
            write_generations(self.tree.directory, tier, present)
            raise
        self._clear_up(tier)

    def _rotating(self, tier: Tier, *, begun: bool) -> Generations:
        if tier not in ISSUERS:
            raise RotationError("the root is replaced by a new `fleetd ca init`, not by a rotation")
        present = self.tree.generations(tier)
        if begun and present.leaving is None:
            raise RotationError(f"no rotation of {tier} is under way; `fleetd ca rotate begin {tier}` starts one")
        if not begun and present.leaving is not None:
            new, old = file_name(tier, present.active), file_name(tier, present.leaving)
            raise RotationError(f"a rotation of {tier} from {old} to {new} is under way already")
        return present

    def _try_out(self, tier: Tier, generation: int) -> None:
        """Refuse a new CA whose key and certificate are no pair, before anything depends on it."""
        certificate_file, name = self.tree.certificate_file(tier, generation), file_name(tier, generation)
        made = x509.load_pem_x509_certificate(certificate_file.read_bytes())
        if made.public_key() != self.tree.keys(tier).signer(name).private_key().public_key():
            raise TreeError(f"the key {name} is not that of {certificate_file}; remove both and begin again")
        if not signed_by(certificate_file, self.tree.certificate(Tier.ROOT)):
            raise TreeError(f"{certificate_file} is not signed by the root; remove it and begin again")

    def _refuse_used(self, issuer: Issuer) -> None:
        if signed_by(self.tree.server_files[0], issuer.certificate):
            raise RotationError(f"fleetd's own TLS certificate is of {issuer.name} already: complete the rotation")
        with self.sessions() as session:
            used = serials_taken(session, issuer.fingerprint)
        if used:
            raise RotationError(f"{issuer.name} has issued {used} certificates already: complete the rotation")

    def _clear_up(self, tier: Tier) -> None:
        """Bring the retirement of an authority, or the undoing of a rotation, to its end; keys are removed last."""
        keys, present = self.tree.keys(tier), self.tree.generations(tier)
        aborted = set(range(1, present.last + 1)) - {*present.in_force, *present.retired}
        for number in aborted:
            self.tree.certificate_file(tier, number).unlink(missing_ok=True)
            keys.remove(file_name(tier, number))
        retired = self.tree.retired(tier)
        for issuer in retired if tier is not Tier.SERVER else ():
            with self.sessions.begin() as session:
                retire_issuer(session, issuer.fingerprint, self.clock.now())
            # An authority whose key was lost is retired like any other, but for the last list that nobody can sign.
            if keys.exists(issuer.name):
                self.authority.sign_last_list(issuer)
        if retired and self.tree.root_key_file.exists():
            replace_file(self.tree.root_list_file, sign_root_list(self.tree, self.clock.now()))
        for issuer in retired:
            keys.remove(issuer.name)
