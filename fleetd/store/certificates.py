"""Certificates: every serial that was ever taken, what was signed under it, and what became of it."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Final
from uuid import UUID

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Identity,
    Index,
    LargeBinary,
    String,
    case,
    false,
    func,
    null,
    select,
    update,
)
from sqlalchemy.orm import Mapped, Session, mapped_column

from fleetd.core.names import MachineId
from fleetd.store.machines import MachineRow
from fleetd.store.schema import Base


class CertificateState(StrEnum):
    """How far the issuance of a serial got."""

    TAKEN = "taken"
    """The serial is used up; nothing was signed."""
    INTENDED = "intended"
    """Signing may have happened; a start that finds it marks it unissued and revokes it."""
    ISSUED = "issued"
    UNISSUED = "unissued"
    """A crash or a revocation cut the issuance off; revoked where something may have been signed."""


class CertificateRow(Base):
    """One serial number."""

    __tablename__ = "certificate"
    __table_args__ = (
        Index("ix_certificate_machine_id_kind", "machine_id", "kind"),
        Index(
            "uq_certificate_enrollment_id_key_hash",
            "enrollment_id",
            "key_hash",
            unique=True,
            postgresql_where="state = 'issued'",
        ),
    )

    serial: Mapped[str] = mapped_column(String(40), primary_key=True)
    """Lower-case hex without leading zeros."""
    number: Mapped[int] = mapped_column(BigInteger, Identity())
    """In which order serials were taken, whatever the clock said."""
    kind: Mapped[str] = mapped_column(String(10))
    issuer: Mapped[str] = mapped_column(String(64))
    """SHA-256 of the issuing CA's certificate."""
    machine_id: Mapped[int] = mapped_column(BigInteger)
    enrollment_id: Mapped[UUID]
    key_hash: Mapped[str] = mapped_column(String(64))
    """SHA-256 of the certified TPMT_PUBLIC."""
    state: Mapped[CertificateState] = mapped_column(String(10), default=CertificateState.TAKEN)
    taken_at: Mapped[datetime]
    der: Mapped[bytes | None] = mapped_column(LargeBinary)
    not_before: Mapped[datetime | None]
    not_after: Mapped[datetime | None] = mapped_column(index=True)
    installed_at: Mapped[datetime | None]
    """When a check first named it."""
    reissue: Mapped[bool] = mapped_column(default=False, server_default=false())
    """An owner wants the machine to get another one at its next check."""
    revoked_at: Mapped[datetime | None] = mapped_column(index=True)
    reason: Mapped[str] = mapped_column(String(30), default="")
    """RFC 5280, 5.3.1; `certificateHold` is lifted by setting revoked_at back to null."""


class RevocationListRow(Base):
    """The newest revocation list of a CA."""

    __tablename__ = "revocation_list"

    issuer: Mapped[str] = mapped_column(String(64), primary_key=True)
    number: Mapped[int] = mapped_column(BigInteger)
    der: Mapped[bytes] = mapped_column(LargeBinary)
    this_update: Mapped[datetime]
    next_update: Mapped[datetime]


class PauseRow(Base):
    """The kill switch of issuance: a row means that nothing is issued."""

    __tablename__ = "issuance_pause"

    id: Mapped[int] = mapped_column(primary_key=True, default=1)
    since: Mapped[datetime]
    by: Mapped[str] = mapped_column(String(100))
    reason: Mapped[str] = mapped_column(String(300))


RENEW_AT: Final = 2 / 3
"""Share of a certificate's life after which it is renewed."""
_CLOCKS_DIFFER: Final = timedelta(minutes=5)


def to_be_renewed(row: CertificateRow, now: datetime) -> bool:
    """Tell whether a certificate is past two thirds of its life, unwanted, or of a time when the clock was ahead."""
    assert row.not_before is not None
    assert row.not_after is not None
    past = now >= row.not_before + (row.not_after - row.not_before) * RENEW_AT
    return past or row.reissue or row.not_before > now + _CLOCKS_DIFFER


def issued_to(session: Session, machine: int, now: datetime) -> list[CertificateRow]:
    """Return the certificates of a machine that are neither revoked nor expired, the last issued first.

    Those of a time when the clock was ahead come last: they are not in force yet.
    """
    return list(
        session.scalars(
            select(CertificateRow)
            .where(
                CertificateRow.machine_id == machine,
                CertificateRow.state == CertificateState.ISSUED,
                CertificateRow.revoked_at.is_(None),
                CertificateRow.not_after > now,
            )
            .order_by(CertificateRow.not_before > now + _CLOCKS_DIFFER, CertificateRow.number.desc())
        )
    )


def issued_for(session: Session, enrollment: UUID, key_hash: str) -> CertificateRow | None:
    """Return what was issued for this enrollment and key, or None."""
    return session.scalar(
        select(CertificateRow).where(
            CertificateRow.enrollment_id == enrollment,
            CertificateRow.key_hash == key_hash,
            CertificateRow.state == CertificateState.ISSUED,
        )
    )


def certificates_of(session: Session, machine: int) -> list[CertificateRow]:
    """Return every certificate that a machine was ever issued, the last issued first."""
    return list(
        session.scalars(
            select(CertificateRow)
            .where(CertificateRow.machine_id == machine, CertificateRow.state == CertificateState.ISSUED)
            .order_by(CertificateRow.number.desc())
        )
    )


def withdrawn(rows: Sequence[CertificateRow], key_hashes: Collection[str]) -> list[CertificateRow]:
    """Return, of rows newest first, the newest one of each key where it is held, or revoked for anything but replacement.

    Its key is worth nothing then, whatever older certificates of it a machine names, or keeps silent about.
    """
    newest: dict[str, CertificateRow] = {}
    for row in rows:
        newest.setdefault(row.key_hash, row)
    return [row for key, row in newest.items() if key in key_hashes and row.reason not in {"", "superseded"}]


def revoke_of(session: Session, machine: int, now: datetime, reason: str) -> int:
    """Revoke every certificate of a machine that is not revoked for good; return how many changed.

    What is being issued to it just now is cut off.
    """
    of_machine = CertificateRow.machine_id == machine
    return cut_off(session, now, of_machine) + _count(
        session,
        update(CertificateRow)
        .where(of_machine, CertificateRow.state == CertificateState.ISSUED, _not_revoked_for_good())
        .values(revoked_at=now, reason=reason),
    )


def hold_of(session: Session, machine: int, now: datetime) -> int:
    """Put what is not revoked on hold; return how many changed. What is being issued just now is cut off."""
    of_machine = CertificateRow.machine_id == machine
    return cut_off(session, now, of_machine) + _count(
        session,
        update(CertificateRow)
        .where(of_machine, CertificateRow.state == CertificateState.ISSUED, CertificateRow.revoked_at.is_(None))
        .values(revoked_at=now, reason=HOLD),
    )


def cut_off(session: Session, now: datetime, *which: ColumnElement[bool]) -> int:
    """See that issuances under way never end; return how many changed. What may have been signed is revoked for good.

    An issuance goes on only from the state that it left its row in, so it gives no certificate after this.
    """
    signed = CertificateRow.state == CertificateState.INTENDED
    return _count(
        session,
        update(CertificateRow)
        .where(CertificateRow.state.in_((CertificateState.TAKEN, CertificateState.INTENDED)), *which)
        .values(
            state=CertificateState.UNISSUED,
            revoked_at=case((signed, now), else_=null()),
            reason=case((signed, "cessationOfOperation"), else_=""),
        ),
    )


def supersede_other_keys(session: Session, machine: int, publics: Sequence[bytes], now: datetime) -> int:
    """Supersede the machine's certificates of all keys but these (TPMT_PUBLIC); return how many."""
    kept = [sha256(public).hexdigest() for public in publics]
    return _count(
        session,
        update(CertificateRow)
        .where(
            CertificateRow.machine_id == machine,
            CertificateRow.state == CertificateState.ISSUED,
            CertificateRow.revoked_at.is_(None),
            CertificateRow.key_hash.not_in(kept),
        )
        .values(revoked_at=now, reason="superseded"),
    )


def reissue_of(session: Session, machine: int | None) -> int:
    """Let the certificates in force of a machine, or of all, be replaced at the next check; return how many."""
    wanted = update(CertificateRow).where(
        CertificateRow.state == CertificateState.ISSUED, CertificateRow.revoked_at.is_(None)
    )
    if machine is not None:
        wanted = wanted.where(CertificateRow.machine_id == machine)
    return _count(session, wanted.values(reissue=True))


def release_of(session: Session, machine: int) -> int:
    """Lift the hold; return how many changed."""
    return _count(
        session,
        update(CertificateRow)
        .where(CertificateRow.machine_id == machine, CertificateRow.reason == HOLD)
        .values(revoked_at=None, reason=""),
    )


def lock_list(session: Session, issuer: str) -> None:
    """Wait until no other transaction signs the list of this CA; held until the transaction ends."""
    session.execute(select(func.pg_advisory_xact_lock(int(issuer[:15], 16))))


def revoked_by(session: Session, issuer: str, now: datetime) -> list[CertificateRow]:
    """Return what belongs on the list of a CA: revoked and not expired, ordered by serial."""
    return list(
        session.scalars(
            select(CertificateRow)
            .where(
                CertificateRow.issuer == issuer,
                CertificateRow.revoked_at.is_not(None),
                CertificateRow.not_after.is_(None) | (CertificateRow.not_after > now),
            )
            .order_by(CertificateRow.serial)
        )
    )


@dataclass(frozen=True, slots=True)
class Holding:
    """What a machine holds of two CAs, one of which replaces the other."""

    machine: MachineId
    node_name: str
    moved: bool
    """It uses a certificate of the new one, or has none of the old."""
    active: bool
    """It is neither lost, nor quarantined, nor unknown."""


def holders_of(session: Session, kind: str, new: str, old: str, now: datetime) -> list[Holding]:
    """Return the machines with certificates of a kind in force, of the new or of the old CA, by node name."""
    uses_new = func.bool_or((CertificateRow.issuer == new) & CertificateRow.installed_at.is_not(None))
    active = (MachineRow.check_state != "lost") & MachineRow.quarantined_at.is_(None) & MachineRow.vanished.is_(False)
    rows = session.execute(
        select(
            CertificateRow.machine_id,
            func.coalesce(func.max(MachineRow.node_name), ""),
            uses_new | ~func.bool_or(CertificateRow.issuer == old),
            func.coalesce(func.bool_and(active), false()),
        )
        .outerjoin(MachineRow, MachineRow.id == CertificateRow.machine_id)
        .where(
            CertificateRow.kind == kind,
            CertificateRow.issuer.in_((new, old)),
            CertificateRow.state == CertificateState.ISSUED,
            _not_revoked_for_good(),
            CertificateRow.not_after > now,
        )
        .group_by(CertificateRow.machine_id)
        .order_by(func.max(MachineRow.node_name), CertificateRow.machine_id)
    )
    return [Holding(MachineId(machine), name, moved, live) for machine, name, moved, live in rows]


def serials_taken(session: Session, issuer: str) -> int:
    """Return how many serial numbers were taken for a CA, whatever became of them."""
    return session.scalar(select(func.count()).select_from(CertificateRow).where(CertificateRow.issuer == issuer)) or 0


def retire_issuer(session: Session, issuer: str, now: datetime) -> int:
    """Revoke what is left of a CA; return how many changed. What is being issued by it just now is cut off."""
    of_issuer = CertificateRow.issuer == issuer
    return cut_off(session, now, of_issuer) + _count(
        session,
        update(CertificateRow)
        .where(of_issuer, CertificateRow.state == CertificateState.ISSUED, _not_revoked_for_good())
        .values(revoked_at=now, reason="cessationOfOperation"),
    )


HOLD = "certificateHold"


def _not_revoked_for_good() -> ColumnElement[bool]:
    return CertificateRow.revoked_at.is_(None) | (CertificateRow.reason == HOLD)


def _count(session: Session, statement: object) -> int:
    return int(session.execute(statement).rowcount)  # type: ignore[call-overload]
