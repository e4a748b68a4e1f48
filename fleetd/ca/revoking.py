"""Revocation and its lists: effective at the next request, and published at once for relying parties."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy.orm import Session, sessionmaker

from fleetd.ca.signer import KeyFileError
from fleetd.ca.tree import Issuer, Tree, TreeError
from fleetd.core.certificates.profile import BACKDATED, Tier
from fleetd.core.names import MachineId
from fleetd.ports import Clock, OutageError
from fleetd.secret_files import SecretFileError
from fleetd.store.certificates import HOLD, RevocationListRow, hold_of, lock_list, release_of, revoke_of, revoked_by

LIFE: Final = timedelta(days=7)
"""A list is signed anew at half of it, so that a relying party never sees an expired one."""
_ROOT_WARNING: Final = timedelta(days=30)
_DEVICE_TIERS: Final = (Tier.DEVID, Tier.AK)
_UNUSABLE: Final = (TreeError, KeyFileError, SecretFileError)
REASONS: Final = frozenset(
    flag.value for flag in x509.ReasonFlags if flag not in {x509.ReasonFlags.remove_from_crl, x509.ReasonFlags(HOLD)}
)
"""What a certificate is revoked for (RFC 5280, 5.3.1): `removeFromCRL` takes it off a list, and a hold is no revocation."""


@dataclass(frozen=True, slots=True)
class FleetAuthority:
    """Takes certificates back. Every call is idempotent.

    What it writes counts at once. Where a list cannot be signed the others are all the same, and it raises OutageError;
    `keep_fresh` signs that one as soon as it can be.
    """

    sessions: sessionmaker[Session]
    tree: Tree
    clock: Clock

    def revoke(self, machine: MachineId, reason: str) -> None:
        """Revoke every certificate of the machine and publish the lists. Raises ValueError for a reason not of REASONS."""
        if reason not in REASONS:
            raise ValueError(f"{reason!r} is no reason of a revocation: {', '.join(sorted(REASONS))}")
        with self.sessions.begin() as session:
            changed = revoke_of(session, machine, self.clock.now(), reason)
        self._publish(changed)

    def hold(self, machine: MachineId) -> None:
        """Put every certificate of the machine on the list as certificateHold."""
        with self.sessions.begin() as session:
            changed = hold_of(session, machine, self.clock.now())
        self._publish(changed)

    def release(self, machine: MachineId) -> None:
        """Lift the hold."""
        with self.sessions.begin() as session:
            changed = release_of(session, machine)
        self._publish(changed)

    def revocation_list(self, name: str) -> bytes | None:
        """Return the list in force of an authority, DER; None where there is none of that name.

        Signed anew when half of its life is over; the last one of a retired authority and the root's stay as they are.
        """
        if name == Tier.ROOT:
            root = _root_list(self.tree)
            return None if root is None else root.public_bytes(Encoding.DER)
        issuer = self.tree.named(name)
        if issuer is None:
            return None
        row = self._row(issuer)
        if row is not None and (self._retired(issuer) or not _stale(row, self.clock.now())):
            return row.der
        if self._retired(issuer):
            return None
        try:
            return self._sign_list(issuer)
        except (KeyFileError, SecretFileError):
            # While the key cannot be used, the list before is the best there is; `keep_fresh` says what is wrong.
            if row is None:
                raise
            return row.der

    def keep_fresh(self) -> tuple[str, ...]:
        """Sign anew each list past half of its life or behind the store; return the names of their authorities.

        A crash between a revocation and its publication is made good here. Raises TreeError, KeyFileError,
        SecretFileError of the first authority that cannot sign, when all others have.
        """
        now = self.clock.now()
        return self._sign_all([issuer for issuer in self._issuers() if self._behind(issuer, now)])

    def late(self) -> tuple[str, ...]:
        """Say which lists should have been signed anew long ago: relying parties are about to see an expired one.

        Raises TreeError.
        """
        now, said = self.clock.now(), []
        for issuer in self._issuers():
            row = self._row(issuer)
            if row is not None and now >= row.this_update + LIFE * 3 / 4:
                said.append(f"the revocation list of {issuer.name} ends {row.next_update:%Y-%m-%d %H:%M}")
        end = self.root_list_end()
        if end is None:
            said.append("the root's revocation list is missing: bring root.key back and run `fleetd ca init`")
        elif now >= end - _ROOT_WARNING:
            said.append(f"the root's revocation list ends {end:%Y-%m-%d}: bring root.key back and run `fleetd ca init`")
        return tuple(said)

    def root_list_end(self) -> datetime | None:
        """Return the next update of the root's list, which is signed by hand; None where there is no list of this root.

        Raises TreeError.
        """
        listed = _root_list(self.tree)
        return None if listed is None else listed.next_update_utc

    def sign_last_list(self, issuer: Issuer) -> None:
        """Sign the last list of a retired authority: it is in force as long as a certificate of it could be."""
        # One that is retired after its end has a list like any other, for whoever still asks.
        until = max(issuer.certificate.not_valid_after_utc, self.clock.now().replace(microsecond=0) + LIFE)
        with self.sessions.begin() as session:
            self._put(session, issuer, until)

    def _publish(self, changed: int) -> None:
        try:
            if changed:
                self._sign_all(self._issuers())
        except _UNUSABLE as error:
            raise OutageError(f"a revocation list cannot be signed: {error}") from error

    def _sign_all(self, issuers: Sequence[Issuer]) -> tuple[str, ...]:
        """Sign the lists of all that can; raise the first error only then."""
        failed: list[Exception] = []
        for issuer in issuers:
            try:
                self._sign_list(issuer)
            except _UNUSABLE as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return tuple(issuer.name for issuer in issuers)

    def _issuers(self) -> tuple[Issuer, ...]:
        return tuple(issuer for tier in _DEVICE_TIERS for issuer in self.tree.in_force(tier))

    def _retired(self, issuer: Issuer) -> bool:
        return issuer.name in {other.name for other in self.tree.retired(issuer.tier)}

    def _row(self, issuer: Issuer) -> RevocationListRow | None:
        with self.sessions() as session:
            return session.get(RevocationListRow, issuer.fingerprint)

    def _behind(self, issuer: Issuer, now: datetime) -> bool:
        with self.sessions() as session:
            row = session.get(RevocationListRow, issuer.fingerprint)
            if row is None or _stale(row, now):
                return True
            wanted = {int(each.serial, 16): each.reason for each in revoked_by(session, issuer.fingerprint, now)}
        listed = {entry.serial_number: _reason(entry) for entry in x509.load_der_x509_crl(row.der)}
        lifted = any(reason == HOLD and serial not in wanted for serial, reason in listed.items())
        return lifted or not wanted.items() <= listed.items()

    def _sign_list(self, issuer: Issuer) -> bytes:
        with self.sessions.begin() as session:
            return self._put(session, issuer, None)

    def _put(self, session: Session, issuer: Issuer, until: datetime | None) -> bytes:
        """Sign and store a list; without `until` never over the last one of an authority that was retired meanwhile."""
        lock_list(session, issuer.fingerprint)
        row = session.get(RevocationListRow, issuer.fingerprint)
        if row is not None and until is None and self._retired(issuer):
            return row.der
        now = self.clock.now().replace(microsecond=0)
        # Above those of before, and above any that a restored store has forgotten (RFC 5280, 5.2.3).
        number, end = max(row.number + 1 if row else 1, int(now.timestamp())), until or now + LIFE
        der = _built(session, issuer, number, now, end)
        session.merge(
            RevocationListRow(issuer=issuer.fingerprint, number=number, der=der, this_update=now, next_update=end)
        )
        return der


def _stale(row: RevocationListRow, now: datetime) -> bool:
    """Tell whether half of a list's life is over, or whether it is of a time when the clock was ahead."""
    return now >= row.this_update + LIFE / 2 or row.this_update > now


def _reason(entry: x509.RevokedCertificate) -> str:
    try:
        return entry.extensions.get_extension_for_class(x509.CRLReason).value.reason.value
    except x509.ExtensionNotFound:
        return x509.ReasonFlags.unspecified.value


def _root_list(tree: Tree) -> x509.CertificateRevocationList | None:
    """Return the list that the root has signed; None where there is none, or what lies there is something else."""
    try:
        listed = x509.load_der_x509_crl(tree.root_list_file.read_bytes())
        return listed if listed.is_signature_valid(_ec_key(tree.certificate(Tier.ROOT))) else None
    except (OSError, ValueError, TypeError):
        return None


def _built(session: Session, issuer: Issuer, number: int, now: datetime, until: datetime) -> bytes:
    key_id = issuer.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.certificate.subject)
        .last_update(now - BACKDATED)
        .next_update(until)
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), critical=False)
    )
    for row in revoked_by(session, issuer.fingerprint, now):
        assert row.revoked_at is not None
        entry = x509.RevokedCertificateBuilder().serial_number(int(row.serial, 16)).revocation_date(row.revoked_at)
        reason = x509.ReasonFlags(row.reason)
        if reason is not x509.ReasonFlags.unspecified:  # it is said by silence (RFC 5280, 5.3.1)
            entry = entry.add_extension(x509.CRLReason(reason), critical=False)
        builder = builder.add_revoked_certificate(entry.build())
    made = builder.sign(issuer.signer.private_key(), SHA256())
    if not made.is_signature_valid(_ec_key(issuer.certificate)):
        raise KeyFileError(f"the key of {issuer.name} is not that of its certificate: restore both from the backup")
    return made.public_bytes(Encoding.DER)


def _ec_key(certificate: x509.Certificate) -> ec.EllipticCurvePublicKey:
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    return key


def sign_root_list(tree: Tree, now: datetime, life: timedelta = timedelta(days=365)) -> bytes:
    """Sign the root's list, in the ceremony where the root's key is at hand; it names the retired issuing CAs.

    Its number is greater than that of the list before, whatever the clock says, and dates of revocations stay.
    Raises TreeError, SecretFileError, and KeyFileError for the key of another root.
    """
    root, signing = tree.certificate(Tier.ROOT), tree.root_key()
    now = now.replace(microsecond=0)
    before = _root_list(tree)
    number, dates = int(now.timestamp()), {}
    if before is not None:
        number = max(number, before.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number + 1)
        dates = {entry.serial_number: entry.revocation_date_utc for entry in before}
    key_id = root.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(root.subject)
        .last_update(now - BACKDATED)
        .next_update(now + life)
        .add_extension(x509.CRLNumber(number), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(key_id), critical=False)
    )
    for issuer in (each for tier in Tier for each in tree.retired(tier)):
        entry = (
            x509.RevokedCertificateBuilder()
            .serial_number(issuer.certificate.serial_number)
            .revocation_date(dates.get(issuer.certificate.serial_number, now))
            .add_extension(x509.CRLReason(x509.ReasonFlags.superseded), critical=False)
        )
        builder = builder.add_revoked_certificate(entry.build())
    return builder.sign(signing, SHA384()).public_bytes(Encoding.DER)
