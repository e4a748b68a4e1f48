"""Issuing: take a serial, lint, persist the intent, sign, compare, persist the certificate; only then answer.

The certificates of one order take each step together, in one transaction.
A crash at any point leaves nothing, or a row that `sweep_intents` marks unissued and revokes. No serial is used twice.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any, Final
from uuid import UUID

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from sqlalchemy import func, select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from fleetd.ca.signer import KeyFileError
from fleetd.ca.tree import Issuer, Tree, TreeError, new_serial
from fleetd.core.attestation.certificate import parse_certificate
from fleetd.core.attestation.endorsement import vendor
from fleetd.core.attestation.structures import parse_public
from fleetd.core.certificates.lint import compare_result, lint_request
from fleetd.core.certificates.order import Issued, IssueOrder
from fleetd.core.certificates.profile import (
    BACKDATED,
    ISSUER_OF,
    DeviceRequest,
    Kind,
    Tier,
    TpmIdentity,
    device_builder,
)
from fleetd.core.lifecycle.timing import Timing
from fleetd.core.names import MachineId
from fleetd.core.seed import DeviceCertificates
from fleetd.ports import Clock, OutageError, RandomSource, RefusedError
from fleetd.secret_files import SecretFileError
from fleetd.store.certificates import (
    CertificateRow,
    CertificateState,
    PauseRow,
    certificates_of,
    cut_off,
    issued_for,
    issued_to,
    reissue_of,
    to_be_renewed,
    withdrawn,
)
from fleetd.store.clock import clock_problem, watch_clock

SETTLES: Final = Timing().clock_settles
STALE_INTENT: Final = timedelta(minutes=5)
"""After this an issuance that did not finish never will."""
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class _Making:
    """A certificate under way."""

    kind: Kind
    public: bytes
    """The certified TPMT_PUBLIC."""
    issuer: Issuer
    signing: Any
    """The issuer's private key."""
    request: DeviceRequest

    @property
    def serial(self) -> str:
        """Lower-case hex."""
        return _hex(self.request.serial)


@dataclass(frozen=True, slots=True)
class FleetIssuer:
    """Issues LDevID and LAK certificates."""

    sessions: sessionmaker[Session]
    tree: Tree
    clock: Clock
    random: RandomSource
    crl_url: str
    """Base of the address that relying parties fetch CRLs from; `/v1/crl/<ca>` follows."""
    per_minute: int = 600
    """Certificates of one authority."""
    clock_settles: timedelta = SETTLES
    """After the clock was set, nothing is issued for so long: a clock that jumps must not date certificates."""

    def issue(self, order: IssueOrder) -> Issued:
        """Issue what the keys lack; the same enrollment and keys get the same ones again, and others what is in force.

        Raises OutageError while issuance is paused, limited or an authority is unusable; RefusedError for a request that
        its profile does not allow.
        """
        keys = {Kind.LDEVID: order.ldevid_public, Kind.LAK: order.lak_public}
        with self.sessions() as session:
            rows = issued_to(session, order.machine, self.clock.now())
            present = {kind: self._present(session, order, rows, kind, public) for kind, public in keys.items()}
        serials = {kind: row.serial for kind, row in present.items() if row is not None}
        lacking = {kind: public for kind, public in keys.items() if kind not in serials}
        if lacking:
            serials |= self._issue(order, lacking)
        with self.sessions() as session:
            return self._answer(session, serials[Kind.LDEVID], serials[Kind.LAK])

    def _present(
        self, session: Session, order: IssueOrder, rows: list[CertificateRow], kind: Kind, public: bytes
    ) -> CertificateRow | None:
        """Return what this enrollment was given, or the key's newest certificate in force where that is not due yet."""
        given = issued_for(session, order.enrollment, _hash(public))
        if given is not None:
            return given
        found = _newest(rows, kind, public)
        return found if found is not None and not self._due(found, self.clock.now()) else None

    def _due(self, row: CertificateRow, now: datetime) -> bool:
        with _unusable("the authorities cannot be read"):
            return to_be_renewed(row, now) or row.issuer != self.tree.issuer(ISSUER_OF[Kind(row.kind)]).fingerprint

    def current(
        self, machine: MachineId, ldevid_public: bytes | None = None, lak_public: bytes | None = None
    ) -> Issued | None:
        """Return the newest certificates of the machine in force; of these keys, where they are given.

        Raises OutageError where an authority cannot be read.
        """
        with self.sessions() as session:
            rows = issued_to(session, machine, self.clock.now())
            ldevid = _newest(rows, Kind.LDEVID, ldevid_public)
            lak = _newest(rows, Kind.LAK, lak_public)
            return self._answer(session, ldevid.serial, lak.serial) if ldevid and lak else None

    def renewal_due(
        self, machine: MachineId, ldevid_public: bytes | None = None, lak_public: bytes | None = None
    ) -> bool:
        """Tell whether a certificate is to be renewed, or of an authority that is leaving; of these keys, where given.

        Raises OutageError where an authority cannot be read.
        """
        now = self.clock.now()
        with self.sessions() as session:
            rows = issued_to(session, machine, now)
        wanted = ((Kind.LDEVID, ldevid_public), (Kind.LAK, lak_public))
        return any(self._due(row, now) for kind, public in wanted if (row := _newest(rows, kind, public)))

    def installed(
        self,
        machine: MachineId,
        serials: tuple[str, ...],
        ldevid_public: bytes | None = None,
        lak_public: bytes | None = None,
    ) -> None:
        """Take note that the machine uses these certificates, of these keys; all others of their kind are superseded.

        Others are older ones, and those of keys that came to nothing, as of a run that was cancelled.
        """
        now = self.clock.now()
        with self.sessions.begin() as session:
            rows = issued_to(session, machine, now)
            for kind, public in ((Kind.LDEVID, ldevid_public), (Kind.LAK, lak_public)):
                newest = _newest(rows, kind, public)
                if newest is None or newest.serial not in serials:
                    continue
                newest.installed_at = newest.installed_at or now
                for row in rows:
                    if row.kind == kind and row is not newest:
                        row.revoked_at, row.reason = now, "superseded"

    def issuing(self) -> frozenset[str]:
        """Return the fingerprints of the authorities that issue now: certificates of another one are to be renewed.

        Raises OutageError where an authority cannot be read.
        """
        with _unusable("the authorities cannot be read"):
            return frozenset(self.tree.issuer(tier).fingerprint for tier in (Tier.DEVID, Tier.AK))

    def pause(self, by: str, reason: str) -> None:
        """Stop issuing; checks go on."""
        with self.sessions.begin() as session:
            session.merge(PauseRow(id=1, since=self.clock.now(), by=by, reason=reason))

    def resume(self) -> None:
        """Issue again."""
        with self.sessions.begin() as session:
            row = session.get(PauseRow, 1)
            if row is not None:
                session.delete(row)

    def reissue(self, machine: MachineId | None = None) -> int:
        """Let a machine, or all, get other certificates at the next check; return how many will be replaced."""
        with self.sessions.begin() as session:
            return reissue_of(session, machine)

    def sweep_intents(self) -> int:
        """Mark issuances that a crash cut off as unissued and revoke them; return how many there were."""
        now = self.clock.now()
        with self.sessions.begin() as session:
            intended = CertificateRow.state == CertificateState.INTENDED
            return cut_off(session, now, intended, CertificateRow.taken_at < now - STALE_INTENT)

    def _issue(self, order: IssueOrder, keys: Mapping[Kind, bytes]) -> dict[Kind, str]:
        """Issue a certificate of each key, step by step together; return the serials."""
        self._trust_the_clock()
        now = self.clock.now().replace(microsecond=0)
        making = [self._begun(order, kind, public, now) for kind, public in keys.items()]
        self._take_serials(order, making, now)
        for each in making:
            problems = lint_request(each.request, each.issuer.certificate)
            if problems:
                raise RefusedError(f"no {each.kind} certificate for {order.node_name}: {'; '.join(problems)}")
        self._intend(order, making)
        made = [(each, self._signed(order, each)) for each in making]
        try:
            with self.sessions.begin() as session:
                for each, certificate in made:
                    _persist(session, each, certificate)
        except IntegrityError:
            # Another worker finished one of them first; the other one may still be ours.
            return {each.kind: self._persist_alone(order, each, certificate) for each, certificate in made}
        return {each.kind: each.serial for each in making}

    def _begun(self, order: IssueOrder, kind: Kind, public: bytes, now: datetime) -> _Making:
        with _unusable(_cannot(kind)):
            issuer = self.tree.issuer(ISSUER_OF[kind])
            signing = issuer.signer.private_key()
        request = DeviceRequest(
            kind=kind,
            node_name=order.node_name,
            device_serial=order.device_serial,
            tpm=tpm_identity(order),
            key=parse_public(public).to_public_key(),
            not_before=now - BACKDATED,
            not_after=now + order.machine_class.certificate_lifetime,
            serial=new_serial(self.random),
            crl_url=f"{self.crl_url}/v1/crl/{issuer.name}",
        )
        return _Making(kind, public, issuer, signing, request)

    def _signed(self, order: IssueOrder, each: _Making) -> x509.Certificate:
        with _unusable(_cannot(each.kind)):
            if each.issuer.fingerprint not in {known.fingerprint for known in self.tree.in_force(each.issuer.tier)}:
                raise OutageError(
                    f"{each.issuer.name} was taken out of force meanwhile; the machine's next try will get its own"
                )
            # A token may go away between the reading of its key's public half and this.
            made = device_builder(each.request, each.issuer.certificate).sign(each.signing, SHA256())
        parsed = x509.load_der_x509_certificate(made.public_bytes(Encoding.DER))
        differences = compare_result(each.request, each.issuer.certificate, parsed)
        if differences:
            raise OutageError(
                f"the {each.kind} certificate for {order.node_name} came out wrong: {'; '.join(differences)}"
            )
        return parsed

    def _trust_the_clock(self) -> None:
        watch_clock(self.sessions, self.clock)
        with self.sessions() as session:
            problem = clock_problem(session, self.clock.now(), self.clock_settles)
        if problem:
            raise OutageError(f"nothing is issued: {problem}")

    def _take_serials(self, order: IssueOrder, making: Sequence[_Making], now: datetime) -> None:
        with self.sessions.begin() as session:
            paused = session.get(PauseRow, 1)
            if paused is not None:
                raise OutageError(
                    f"issuing is paused since {paused.since:%Y-%m-%d %H:%M} by {paused.by}: {paused.reason}"
                )
            for each in making:
                self._within_the_rate(session, each.issuer, now)
                session.add(
                    CertificateRow(
                        serial=each.serial,
                        kind=each.kind,
                        issuer=each.issuer.fingerprint,
                        machine_id=order.machine,
                        enrollment_id=order.enrollment,
                        key_hash=_hash(each.public),
                        state=CertificateState.TAKEN,
                        taken_at=now,
                    )
                )

    def _within_the_rate(self, session: Session, issuer: Issuer, now: datetime) -> None:
        # Those of a time when the clock was ahead are no part of this minute: they would count until it comes.
        recent = session.scalar(
            select(func.count())
            .select_from(CertificateRow)
            .where(
                CertificateRow.issuer == issuer.fingerprint,
                CertificateRow.taken_at > now - _MINUTE,
                CertificateRow.taken_at < now + _MINUTE,
            )
        )
        if (recent or 0) >= self.per_minute:
            raise OutageError(
                f"more than {self.per_minute} certificates of {issuer.name} in a minute: a machine's next try will "
                "get its own"
            )

    def _intend(self, order: IssueOrder, making: Sequence[_Making]) -> None:
        with self.sessions.begin() as session:
            # A hold or revocation either sees the serial that was taken before, or is seen here.
            keys = {_hash(each.public) for each in making}
            if order.renewal and withdrawn(certificates_of(session, order.machine), keys):
                raise RefusedError(
                    f"the certificates of {order.node_name} are held or revoked: its keys are certified in a run only"
                )
            for each in making:
                row = session.get_one(CertificateRow, each.serial, with_for_update=True)
                _refuse_cut_off(row, CertificateState.TAKEN)
                row.state = CertificateState.INTENDED

    def _persist_alone(self, order: IssueOrder, each: _Making, made: x509.Certificate) -> str:
        try:
            with self.sessions.begin() as session:
                _persist(session, each, made)
        except IntegrityError:
            return self._issued_meanwhile(order.enrollment, each)
        return each.serial

    def _issued_meanwhile(self, enrollment: UUID, each: _Making) -> str:
        """Give up our serial for the one that another worker finished first."""
        with self.sessions.begin() as session:
            row = session.get_one(CertificateRow, each.serial)
            row.state, row.revoked_at, row.reason = CertificateState.UNISSUED, self.clock.now(), "cessationOfOperation"
            other = issued_for(session, enrollment, _hash(each.public))
            if other is None:
                raise OutageError(
                    f"the {each.kind} certificate could not be stored; the machine's next try will get one"
                )
            return other.serial

    def _answer(self, session: Session, ldevid: str, lak: str) -> Issued:
        rows = {serial: session.get_one(CertificateRow, serial) for serial in (ldevid, lak)}
        pem = {serial: _pem(x509.load_der_x509_certificate(row.der or b"")) for serial, row in rows.items()}
        with _unusable("the authorities cannot be read"):
            links = (
                self._maker(Tier.DEVID, rows[ldevid]),
                self._maker(Tier.AK, rows[lak]),
                self.tree.certificate(Tier.ROOT),
            )
        certificates = DeviceCertificates(ldevid=pem[ldevid], lak=pem[lak], chain=tuple(_pem(link) for link in links))
        return Issued(certificates, ldevid, lak)

    def _maker(self, tier: Tier, row: CertificateRow) -> x509.Certificate:
        """Return the certificate of the authority that issued; while one is leaving it need not be the one that issues."""
        known = (*self.tree.in_force(tier), *self.tree.retired(tier))
        return next((each.certificate for each in known if each.fingerprint == row.issuer), known[0].certificate)


def _persist(session: Session, each: _Making, made: x509.Certificate) -> None:
    row = session.get_one(CertificateRow, each.serial, with_for_update=True)
    _refuse_cut_off(row, CertificateState.INTENDED)
    row.state = CertificateState.ISSUED
    row.der = made.public_bytes(Encoding.DER)
    row.not_before, row.not_after = made.not_valid_before_utc, made.not_valid_after_utc


def _cannot(kind: Kind) -> str:
    return f"the {ISSUER_OF[kind]} authority cannot issue"


def tpm_identity(order: IssueOrder) -> TpmIdentity:
    """Return which TPM the certificates speak of: from the EK certificate, or without one from the TPM's own properties."""
    ek_hash = sha256(order.ek_public).digest()
    if order.ek_certificate:
        parsed = parse_certificate(order.ek_certificate)
        return TpmIdentity(
            _shown(vendor(parsed.tpm.get("manufacturer", ""))) or "unknown",
            _shown(parsed.tpm.get("model", "")),
            _shown(parsed.tpm.get("version", "")),
            parsed.authority_key_id or b"",
            parsed.serial,
        )
    told: Any = order.facts.get("tpm") or {}
    told = told if isinstance(told, dict) else {}
    shown = {name: _shown(told.get(name, "")) for name in ("manufacturer", "model", "version")}
    return TpmIdentity(shown["manufacturer"] or "unknown", shown["model"], shown["version"], b"", ek_hash)


def _shown(said: object) -> str:
    """Return what a TPM, or its maker, says of it as a certificate can say it."""
    return "".join(character for character in str(said)[:64] if character.isprintable()).strip()


@contextmanager
def _unusable(words: str) -> Iterator[None]:
    """Make an outage of what is wrong with an authority: its files, its key, its token."""
    try:
        yield
    except (TreeError, KeyFileError, SecretFileError) as error:
        raise OutageError(f"{words}: {error}") from error


def _refuse_cut_off(row: CertificateRow, state: CertificateState) -> None:
    if row.state != state:
        raise OutageError(
            f"the {row.kind} certificate was revoked or given up while it was made; the machine's next try may get one"
        )


def _newest(rows: list[CertificateRow], kind: Kind, public: bytes | None) -> CertificateRow | None:
    return next((row for row in rows if row.kind == kind and (public is None or row.key_hash == _hash(public))), None)


def _hash(public: bytes) -> str:
    return sha256(public).hexdigest()


def _hex(number: int) -> str:
    return f"{number:x}"


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()
