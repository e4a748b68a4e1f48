"""The EK ledger: which endorsement keys were proven, and to which machine each is bound.

The binding is fleetd's own: NetBox approves, but a second EK for a bound machine, or a bound EK for another machine, needs
`fleetd ek rebind` on the service host.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    ForeignKey,
    Index,
    LargeBinary,
    String,
    case,
    cast,
    func,
    select,
    update,
)
from sqlalchemy.dialects.postgresql import INET, JSONB, insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from fleetd.core.sources import source_of
from fleetd.store.schema import Base

_AWAY = timedelta(hours=1)
"""A machine that said nothing for so long waits anew; longer than any pause it is told to make."""


class EndorsementKeyRow(Base):
    """One endorsement key that a TPM has proven to hold."""

    __tablename__ = "endorsement_key"
    __table_args__ = (Index("ix_endorsement_key_waiting", "rank", "first_seen", postgresql_where="machine_id IS NULL"),)

    public_hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    """SHA-256 of the TPMT_PUBLIC, hex."""
    public: Mapped[bytes] = mapped_column(LargeBinary)
    name: Mapped[bytes] = mapped_column(LargeBinary)
    key_type: Mapped[str] = mapped_column(String(20))
    certificate_sha256: Mapped[str] = mapped_column(String(64), default="")
    certificate: Mapped[bytes | None] = mapped_column(LargeBinary)
    manufacturer: Mapped[str] = mapped_column(String(100), default="")
    model: Mapped[str] = mapped_column(String(100), default="")
    version: Mapped[str] = mapped_column(String(100), default="")
    chain_status: Mapped[str] = mapped_column(String(20), default="unverified")
    findings: Mapped[list[Any]] = mapped_column(JSONB, default=list)
    candidates: Mapped[list[int]] = mapped_column(JSONB, default=list)
    """Machines that wait and match what was claimed, best first."""
    rank: Mapped[int] = mapped_column(default=0)
    address: Mapped[str] = mapped_column(String(64), default="")
    first_seen: Mapped[datetime]
    last_seen: Mapped[datetime]
    waits_since: Mapped[datetime]
    """When the machine began to ask for its approval; a machine that was away for long begins again."""
    machine_id: Mapped[int | None] = mapped_column(BigInteger, index=True)
    """The machine that it is bound to; None while it waits."""
    bound_at: Mapped[datetime | None]
    settled: Mapped[bool] = mapped_column(default=False)
    """Nobody is asked about it: its TPM is known by another key of it, or a person has rejected it."""
    reported: Mapped[bool] = mapped_column(default=False, index=True)
    """Whether NetBox was told of its present state."""


class RebindRow(Base):
    """One deliberate change of a binding, by a person on the service host."""

    __tablename__ = "endorsement_key_rebind"

    id: Mapped[int] = mapped_column(primary_key=True)
    public_hash: Mapped[str] = mapped_column(ForeignKey("endorsement_key.public_hash"))
    old_machine_id: Mapped[int | None] = mapped_column(BigInteger)
    new_machine_id: Mapped[int | None] = mapped_column(BigInteger)
    reason: Mapped[str]
    by: Mapped[str]
    at: Mapped[datetime]


@dataclass(frozen=True, slots=True)
class ProvenKey:
    """What is recorded of a key that was just proven."""

    public_hash: str
    public: bytes
    name: bytes
    key_type: str
    certificate: bytes | None
    certificate_sha256: str
    manufacturer: str
    model: str
    version: str
    chain_status: str
    findings: tuple[dict[str, Any], ...]
    candidates: tuple[int, ...] = ()
    rank: int = 0
    address: str = ""


def known_keys(session: Session, hashes: Sequence[str]) -> dict[str, EndorsementKeyRow]:
    """Return the ledger's rows of these keys, by hash."""
    rows = session.scalars(select(EndorsementKeyRow).where(EndorsementKeyRow.public_hash.in_(hashes)))
    return {row.public_hash: row for row in rows}


def keys_of(session: Session, machine: int) -> list[EndorsementKeyRow]:
    """Return the keys that are bound to the machine."""
    query = select(EndorsementKeyRow).where(EndorsementKeyRow.machine_id == machine)
    return list(session.scalars(query.order_by(EndorsementKeyRow.public_hash)))


def record_proven(session: Session, key: ProvenKey, now: datetime, *, settled: bool = False) -> None:
    """Record that the key was proven now; what is known of an older sighting is refreshed, its binding is kept.

    `settled` tells that it was proven beside a key that is bound and approved, or that a person has rejected it.
    """
    fresh: dict[str, Any] = {
        "certificate": key.certificate,
        "certificate_sha256": key.certificate_sha256,
        "manufacturer": key.manufacturer[:100],
        "model": key.model[:100],
        "version": key.version[:100],
        "chain_status": key.chain_status,
        "findings": list(key.findings),
        "candidates": list(key.candidates),
        "rank": key.rank,
        "address": key.address,
        "last_seen": now,
        "reported": False,
        "settled": settled,
    }
    statement = insert(EndorsementKeyRow).values(
        public_hash=key.public_hash,
        public=key.public,
        name=key.name,
        key_type=key.key_type,
        first_seen=now,
        waits_since=now,
        **fresh,
    )
    since = case((EndorsementKeyRow.last_seen < now - _AWAY, now), else_=EndorsementKeyRow.waits_since)
    changes = {**fresh, "waits_since": since}
    session.execute(statement.on_conflict_do_update(index_elements=["public_hash"], set_=changes))


def _waits() -> ColumnElement[bool]:
    """Tell of a key whether it waits for a person."""
    return EndorsementKeyRow.machine_id.is_(None) & ~EndorsementKeyRow.settled


def waiting_count(session: Session, address: str | None = None) -> int:
    """Count the keys that wait for a person, of the source of one address or of all."""
    query = select(func.count()).where(_waits())
    if address is not None:
        source = source_of(address)
        within = cast(EndorsementKeyRow.address, INET).op("<<=")(cast(source, INET))
        # Only what is an IPv6 address can be read as one; PostgreSQL keeps to the order of a CASE.
        same = case((EndorsementKeyRow.address.contains(":"), within), else_=False)
        query = query.where(same if ":" in source else EndorsementKeyRow.address == source)
    return session.scalar(query) or 0


def evict_lowest(session: Session, below_rank: int) -> bool:
    """Forget the newest waiting key of the lowest rank below this one; return whether there was one."""
    victim = session.scalar(
        select(EndorsementKeyRow)
        .where(_waits(), EndorsementKeyRow.rank < below_rank)
        .order_by(EndorsementKeyRow.rank, EndorsementKeyRow.first_seen.desc())
        .limit(1)
    )
    if victim is None:
        return False
    session.delete(victim)
    session.flush()
    return True


def waiting_among(session: Session, hashes: Sequence[str]) -> list[str]:
    """Return those of these keys that wait for a person."""
    query = select(EndorsementKeyRow.public_hash).where(EndorsementKeyRow.public_hash.in_(hashes), _waits())
    return list(session.scalars(query))


def settle(session: Session, public_hash: str) -> None:
    """Note that nobody is asked about this key any more, as long as it is bound to no machine."""
    free = (EndorsementKeyRow.public_hash == public_hash) & EndorsementKeyRow.machine_id.is_(None)
    session.execute(update(EndorsementKeyRow).where(free).values(settled=True))


def bind(session: Session, public_hash: str, machine: int, now: datetime) -> bool:
    """Bind a free key to the machine; return whether it now is this machine's (also when it already was)."""
    session.execute(
        update(EndorsementKeyRow)
        .where(EndorsementKeyRow.public_hash == public_hash, EndorsementKeyRow.machine_id.is_(None))
        .values(machine_id=machine, bound_at=now, reported=False)
    )
    session.expire_all()
    row = session.get(EndorsementKeyRow, public_hash)
    return row is not None and row.machine_id == machine


def unreported_keys(session: Session, limit: int) -> list[EndorsementKeyRow]:
    """Return keys whose present state NetBox does not know, best first."""
    query = select(EndorsementKeyRow).where(~EndorsementKeyRow.reported)
    return list(session.scalars(query.order_by(EndorsementKeyRow.rank.desc()).limit(limit)))


def mark_reported(session: Session, hashes: Sequence[str]) -> None:
    """Note that NetBox knows the present state of these keys."""
    session.execute(update(EndorsementKeyRow).where(EndorsementKeyRow.public_hash.in_(hashes)).values(reported=True))


def rebind(session: Session, public_hash: str, machine: int | None, *, reason: str, by: str, now: datetime) -> None:
    """Move a key to another machine, or free it (None); a person's act, recorded.

    Raises LookupError when the key is not in the ledger.
    """
    row = session.get(EndorsementKeyRow, public_hash, with_for_update=True)
    if row is None:
        raise LookupError(f"the ledger knows no endorsement key {public_hash}")
    session.add(
        RebindRow(
            public_hash=public_hash, old_machine_id=row.machine_id, new_machine_id=machine, reason=reason, by=by, at=now
        )
    )
    row.machine_id, row.bound_at, row.reported = machine, (now if machine is not None else None), False
