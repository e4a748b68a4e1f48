"""The machine rows: what NetBox last declared, what is known of the machine, and when it is looked at next."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Index, Text, case, or_, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from fleetd.core.names import MachineId
from fleetd.store.schema import Base

_LONGEST_NUMBER = 18


class MachineRow(Base):
    """One machine. `declaration` is the last record from NetBox (fleetd.core.records)."""

    __tablename__ = "machines"
    __table_args__ = (
        Index("ix_machines_due", "next_look_at", postgresql_where="next_look_at IS NOT NULL"),
        Index("ix_machines_check_due", "check_due_at", postgresql_where="check_due_at IS NOT NULL"),
        Index("ix_machines_report_due", "id", postgresql_where="report_due"),
    )

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    node_name: Mapped[str] = mapped_column(Text, default="")
    machine_class: Mapped[str] = mapped_column(Text, default="", index=True)
    disk_serial: Mapped[str] = mapped_column(Text, default="", index=True)
    declaration: Mapped[dict[str, Any] | None]
    declared_at: Mapped[datetime | None]
    vanished: Mapped[bool] = mapped_column(default=False)

    standing: Mapped[str] = mapped_column(Text, default="declared")
    """What the machine is when no run changes it: declared, attested, active, wiped or retired."""
    run_id: Mapped[UUID | None] = mapped_column(index=True)
    """The latest run, open or ended."""
    run_open: Mapped[bool] = mapped_column(default=False, index=True)
    """Whether that run is not ended."""
    installed_run: Mapped[UUID | None]
    """The provision run whose system is on the disk."""
    installed_digest: Mapped[str] = mapped_column(Text, default="")
    pxe_open: Mapped[bool] = mapped_column(default=False)
    """allowPXE may be true; set before it is, cleared after it was cleared."""
    hardware: Mapped[bool] = mapped_column(default=False)
    """Hardware may exist."""

    check_state: Mapped[str] = mapped_column(Text, default="none")
    """none, awaited, ok, drifted, failed, late or lost."""
    checked_at: Mapped[datetime | None]
    check_ok_at: Mapped[datetime | None]
    check_due_at: Mapped[datetime | None]
    """When the machine becomes late, or lost."""
    check_findings: Mapped[list[Any]] = mapped_column(default=list)
    baseline_digest: Mapped[str] = mapped_column(Text, default="")
    offered_digest: Mapped[str] = mapped_column(Text, default="")
    quarantined_at: Mapped[datetime | None]
    quarantine_reason: Mapped[str] = mapped_column(Text, default="")
    hold_wanted: Mapped[bool] = mapped_column(default=False)
    """Certificates shall be on hold; compared with `hold_done` by the look."""
    hold_done: Mapped[bool] = mapped_column(default=False)
    release_requested_at: Mapped[datetime | None]

    phase: Mapped[str] = mapped_column(Text, default="declared")
    phase_since: Mapped[datetime | None]
    last_seen: Mapped[datetime | None]
    reported: Mapped[dict[str, Any] | None]
    """The part of the last report that repeats, to report only what is new."""
    report_due: Mapped[bool] = mapped_column(default=False)
    """The time of the last check has not been reported yet."""
    report_seq: Mapped[int] = mapped_column(BigInteger, default=0)

    generation: Mapped[int] = mapped_column(BigInteger, default=0)
    lease_until: Mapped[datetime | None]
    wakes: Mapped[int] = mapped_column(BigInteger, default=0)
    next_look_at: Mapped[datetime | None]
    looked_at: Mapped[datetime | None]
    message: Mapped[str] = mapped_column(Text, default="")
    created_at: Mapped[datetime]


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to act on a machine until `until`; every persist checks the generation."""

    machine: MachineId
    generation: int
    wakes: int
    until: datetime


def machines_named(session: Session, text: str) -> list[MachineRow]:
    """Return the machines with this node name, or with this number in NetBox; those that vanished come last."""
    number = int(text) if text.isascii() and text.isdigit() and len(text) < _LONGEST_NUMBER else -1
    query = select(MachineRow).where(or_(MachineRow.node_name == text, MachineRow.id == number))
    found = list(session.scalars(query.order_by(MachineRow.vanished, MachineRow.id)))
    present = [row for row in found if not row.vanished]
    return present or found


def take_lease(session: Session, machine: MachineId, now: datetime, length: timedelta) -> Lease | None:
    """Take the machine's lease in one short UPDATE; None when somebody else holds it or no such row exists.

    The caller commits at once: acting happens with no transaction open.
    """
    row = session.execute(
        update(MachineRow)
        .where(MachineRow.id == machine, or_(MachineRow.lease_until.is_(None), MachineRow.lease_until <= now))
        .values(lease_until=now + length, generation=MachineRow.generation + 1)
        .returning(MachineRow.generation, MachineRow.wakes)
    ).one_or_none()
    return None if row is None else Lease(machine, row.generation, row.wakes, now + length)


def lock_held(session: Session, lease: Lease) -> MachineRow | None:
    """Return the row, locked for this transaction, if the lease is still this one's."""
    return session.execute(
        select(MachineRow)
        .where(MachineRow.id == lease.machine, MachineRow.generation == lease.generation)
        .with_for_update()
        .execution_options(populate_existing=True)
    ).scalar_one_or_none()


def give_back(session: Session, lease: Lease, now: datetime, look_again_at: datetime | None) -> bool:
    """End the lease; a wake that came while it was held makes the machine due at once: then True."""
    wakes = session.scalar(
        update(MachineRow)
        .where(MachineRow.id == lease.machine, MachineRow.generation == lease.generation)
        .values(
            lease_until=None,
            looked_at=now,
            next_look_at=case((MachineRow.wakes != lease.wakes, now), else_=look_again_at),
        )
        .returning(MachineRow.wakes)
        .execution_options(synchronize_session=False)
    )
    return wakes is not None and wakes != lease.wakes


def wake(session: Session, machine: MachineId, now: datetime) -> None:
    """Make the machine due now."""
    session.execute(
        update(MachineRow)
        .where(MachineRow.id == machine)
        .values(next_look_at=now, wakes=MachineRow.wakes + 1)
        .execution_options(synchronize_session=False)
    )


def due(session: Session, now: datetime, limit: int) -> list[MachineId]:
    """List machines whose time has come and that nobody holds, oldest first."""
    rows = session.scalars(
        select(MachineRow.id)
        .where(MachineRow.next_look_at <= now, or_(MachineRow.lease_until.is_(None), MachineRow.lease_until <= now))
        .order_by(MachineRow.next_look_at)
        .limit(limit)
    )
    return [MachineId(number) for number in rows]
