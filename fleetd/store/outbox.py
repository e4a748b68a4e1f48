"""Reports that NetBox has not accepted yet, in their order, and small marks that outlive a restart."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Text, cast, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from fleetd.core.names import MachineId
from fleetd.store.machines import MachineRow
from fleetd.store.schema import Base


class ReportRow(Base):
    """One entry of a `reports/` body, `seq` included; machine 0 holds what belongs to no machine."""

    __tablename__ = "outbox"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=True)
    machine_id: Mapped[int] = mapped_column(BigInteger, index=True)
    body: Mapped[dict[str, Any]]
    created_at: Mapped[datetime]
    tries: Mapped[int] = mapped_column(default=0)


class Mark(Base):
    """A named value that outlives a restart: the declarations cursor, the last full read."""

    __tablename__ = "marks"

    name: Mapped[str] = mapped_column(Text, primary_key=True)
    value: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime]


def next_seq(session: Session, machine: MachineId, now: datetime, held: MachineRow | None = None) -> int:
    """Take the machine's next report number: above the last, and above any that a restored store has forgotten.

    `held` is the machine's row where this transaction has locked it: the number is then written with what else changes.
    """
    milliseconds = int(now.timestamp() * 1000)
    if held is not None:
        held.report_seq = max(held.report_seq + 1, milliseconds)
        return held.report_seq
    number = session.execute(
        update(MachineRow)
        .where(MachineRow.id == machine)
        .values(report_seq=func.greatest(MachineRow.report_seq + 1, milliseconds))
        .returning(MachineRow.report_seq)
        .execution_options(synchronize_session="fetch")
    ).scalar_one_or_none()
    return milliseconds if number is None else number


def add_report(
    session: Session, machine: MachineId, body: dict[str, Any], now: datetime, held: MachineRow | None = None
) -> None:
    """Queue a report of a machine; `held` as `next_seq` has it."""
    entry = {"machine_id": machine, "seq": next_seq(session, machine, now, held)} | body
    session.add(ReportRow(machine_id=machine, body=entry, created_at=now))


def waiting(session: Session, limit: int) -> list[ReportRow]:
    """List queued reports, oldest first."""
    return list(session.scalars(select(ReportRow).order_by(ReportRow.id).limit(limit)))


def read_mark(session: Session, name: str) -> str | None:
    """Return a mark's value."""
    return session.scalar(select(Mark.value).where(Mark.name == name))


def write_mark(session: Session, name: str, value: str, now: datetime) -> None:
    """Set a mark."""
    statement = insert(Mark).values(name=name, value=value, at=now)
    session.execute(statement.on_conflict_do_update(index_elements=["name"], set_={"value": value, "at": now}))


def count_mark(session: Session, name: str, now: datetime) -> None:
    """Add one to a mark that is a number: processes may do so at once, and none is lost."""
    statement = insert(Mark).values(name=name, value="1", at=now)
    more = cast(cast(Mark.value, BigInteger) + 1, Text)
    session.execute(statement.on_conflict_do_update(index_elements=["name"], set_={"value": more, "at": now}))
