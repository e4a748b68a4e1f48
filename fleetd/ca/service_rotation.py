"""Rotation of the service key in two phases: machines pin the next key before it signs anything.

`begin` makes the next key and publishes it: answers to boot checks, new Workflows and tickets carry both, signed by the old
one. `complete` lets the new one sign, once every active machine has told, under its quote, that it pins it. Each call can be
repeated after a crash: what signs changes in one step, the replacement of the generations' file.
"""

from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ed25519
from sqlalchemy.orm import Session, sessionmaker

from fleetd.ca.files import one_changes
from fleetd.ca.generations import SERVICE, Generations, file_name, read_generations, write_generations
from fleetd.ca.rotation import Holder, Progress, RotationError
from fleetd.ca.service_keys import keep_public_half
from fleetd.ca.signer import service_key, write_key
from fleetd.ca.tree import Tree
from fleetd.core.exchange.jwk import thumbprint
from fleetd.ports import Clock
from fleetd.store.pins import pin_holders, runs_begun_before

_RUN_WHY = "its run began before the rotation, so its Workflow names the old key only"
_PIN_WHY = "it has not told yet that it pins the new key"


@dataclass(frozen=True, slots=True)
class ServiceRotation:
    """The steps of a rotation, one process at a time. Raises RotationError, TreeError, KeyFileError and SecretFileError."""

    sessions: sessionmaker[Session]
    tree: Tree
    clock: Clock

    def begin(self) -> str:
        """Make the next key and publish it; the old one goes on signing. Return the name of the new one."""
        with one_changes(self.tree.directory):
            return self._begin()

    def _begin(self) -> str:
        present = self._generations()
        if present.leaving is not None:
            new, old = self._names(present)
            raise RotationError(f"a rotation of the service key from {old} to {new} is under way already")
        self._clear_up()
        # Kept now already: were the key lost before the completion, nothing would verify what it signed.
        keep_public_half(self._key_file(present.active))
        fresh = present.begun(self.clock.now())
        key_file = self._key_file(fresh.active)
        # A key that a crash left behind is used: it was never published.
        if not key_file.exists():
            write_key(key_file, ed25519.Ed25519PrivateKey.generate())
        service_key(key_file)
        write_generations(self.tree.directory, SERVICE, fresh)
        return file_name(SERVICE, fresh.active)

    def status(self) -> Progress:
        """Return how far the rotation got: a machine has moved once it told that it pins the new key."""
        present = self._rotating()
        new, old = self._names(present)
        kid = thumbprint(service_key(self._key_file(present.active)).public_key())
        assert present.since is not None
        with self.sessions() as session:
            held = pin_holders(session, kid)
            runs = runs_begun_before(session, present.since)
        waiting = [Holder(each.machine, each.node_name, each.active, _PIN_WHY) for each in held if not each.pinned]
        open_runs = [Holder(machine, name, blocks=True, why=_RUN_WHY) for machine, name in runs]
        return Progress(new, old, len(held), tuple(waiting), runs=tuple(open_runs))

    def complete(self) -> Progress:
        """Let the new key sign, publish it alone and remove the old one; its public half stays for the audit.

        Refused while a machine that answers does not pin the new key, or a run goes on that was told of the old one only.
        """
        with one_changes(self.tree.directory):
            return self._complete()

    def _complete(self) -> Progress:
        if self._generations().leaving is None:
            self._clear_up()
        progress = self.status()
        if progress.blocking:
            named = "; ".join(
                f"{each.node_name or f'machine {each.machine}'}: {each.why}" for each in progress.blocking[:20]
            )
            raise RotationError(
                f"{len(progress.blocking)} machines would not believe {progress.new}: {named}. "
                "Machines pin it at their next boot check; runs end or can be cancelled"
            )
        write_generations(self.tree.directory, SERVICE, self._generations().completed())
        self._clear_up()
        return progress

    def abort(self) -> None:
        """Forget the new key; it has signed nothing, and machines drop it at their next check."""
        with one_changes(self.tree.directory):
            present = self._rotating()
            write_generations(self.tree.directory, SERVICE, present.aborted())
            self._clear_up()

    def _rotating(self) -> Generations:
        present = self._generations()
        if present.leaving is None:
            raise RotationError(
                "no rotation of the service key is under way; `fleetd ca rotate begin service` starts one"
            )
        return present

    def _clear_up(self) -> None:
        """Bring the retirement of a key, or the undoing of a rotation, to its end."""
        present = self._generations()
        for number in set(range(1, present.last + 1)) - set(present.in_force):
            key_file = self._key_file(number)
            if key_file.exists():
                if number in present.retired:
                    keep_public_half(key_file)
                key_file.unlink()

    def _generations(self) -> Generations:
        return read_generations(self.tree.directory, SERVICE)

    def _key_file(self, number: int) -> Path:
        return self.tree.directory / f"{file_name(SERVICE, number)}.key"

    def _names(self, present: Generations) -> tuple[str, str]:
        assert present.leaving is not None
        return file_name(SERVICE, present.active), file_name(SERVICE, present.leaving)
