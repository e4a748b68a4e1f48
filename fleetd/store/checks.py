"""Boot checks: one row a machine, a bit an hour, and rows for changes only."""

from datetime import date, datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Date, Index, String, null, select
from sqlalchemy.dialects.postgresql import JSONB, insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from fleetd.store.enrollments import InstallRow, current_install
from fleetd.store.machines import MachineRow
from fleetd.store.schema import Base


class CheckRow(Base):
    """What is known of the machine's boots."""

    __tablename__ = "check_state"

    machine_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    run_id: Mapped[UUID | None]
    """The run whose install is checked: another run starts anew."""
    due: Mapped[datetime] = mapped_column(index=True)
    """When the next check is expected."""
    last_at: Mapped[datetime | None]
    last_ok: Mapped[datetime | None]
    result: Mapped[str] = mapped_column(String(12), default="awaited")
    findings: Mapped[list[Any]] = mapped_column(JSONB, default=list)
    difference: Mapped[list[Any]] = mapped_column(JSONB, default=list)
    reset_count: Mapped[int | None] = mapped_column(BigInteger)
    restart_count: Mapped[int | None] = mapped_column(BigInteger)
    clock: Mapped[int | None] = mapped_column(BigInteger)
    """The TPM's clock in ms at the last check, as quoted."""
    clock_at: Mapped[datetime | None]
    """Server time of that quote; None where the clock was set back behind it since."""
    pcrs: Mapped[dict[str, Any]] = mapped_column(JSONB, default=dict)
    pcr_digest: Mapped[str] = mapped_column(String(128), default="")
    boot: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    """Summary of the last judged event log."""
    redeemed_pcrs: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    """PCRs of the quote that redeemed the seed."""
    log_demanded: Mapped[bool] = mapped_column(default=False)
    """An on-demand attest asks the next check for its log."""
    baseline: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    baseline_digest: Mapped[str] = mapped_column(String(64), default="")
    baseline_at: Mapped[datetime | None]
    offered: Mapped[dict[str, Any] | None] = mapped_column(JSONB)
    offered_digest: Mapped[str] = mapped_column(String(64), default="")
    reported: Mapped[bool] = mapped_column(default=False, index=True)
    pins: Mapped[list[Any]] = mapped_column(JSONB, default=list, server_default="[]")
    """Thumbprints of the service keys that the machine pinned at its last check; empty from clients that do not tell."""


class CheckDayRow(Base):
    """One day of a machine: bit n is set when a check of hour n (UTC) was good."""

    __tablename__ = "check_day"

    machine_id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    day: Mapped[date] = mapped_column(Date, primary_key=True)
    hours: Mapped[int]


class CheckChangeRow(Base):
    """A change of result: rows for these only, so that `fleetd machines show` can say when and why."""

    __tablename__ = "check_change"
    __table_args__ = (Index("ix_check_change_machine", "machine_id", "at"),)

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    machine_id: Mapped[int] = mapped_column(BigInteger)
    at: Mapped[datetime]
    result: Mapped[str] = mapped_column(String(12))
    """ok, drifted, failed, late or lost."""
    findings: Mapped[list[Any]] = mapped_column(JSONB, default=list)
    pcr_digest: Mapped[str] = mapped_column(String(128), default="")


def record_change(
    session: Session, machine: int, at: datetime, result: str, findings: list[Any] | None = None, pcr_digest: str = ""
) -> None:
    """Note that the machine's checks changed to this result."""
    row = CheckChangeRow(machine_id=machine, at=at, result=result, findings=findings or [], pcr_digest=pcr_digest)
    session.add(row)


def changes_of(session: Session, machine: int, limit: int = 20) -> list[CheckChangeRow]:
    """Return the machine's latest changes of result, newest first."""
    query = select(CheckChangeRow).where(CheckChangeRow.machine_id == machine)
    return list(session.scalars(query.order_by(CheckChangeRow.at.desc(), CheckChangeRow.id.desc()).limit(limit)))


def new_check_row(machine: int, run: UUID | None, due: datetime) -> CheckRow:
    """Return the state of a machine that has not been checked since its install by this run."""
    return CheckRow(
        machine_id=machine,
        run_id=run,
        due=due,
        result="awaited",
        findings=[],
        difference=[],
        pcrs={},
        pcr_digest="",
        baseline_digest="",
        offered_digest="",
        log_demanded=False,
        reported=False,
        pins=[],
    )


def check_state(session: Session, machine: int) -> CheckRow | None:
    """Return the machine's check state, locked."""
    return session.get(CheckRow, machine, with_for_update=True)


def held_for_check(session: Session, machine: int) -> tuple[MachineRow | None, InstallRow | None, CheckRow | None]:
    """Return the machine's row, its present install and its check state, locked, the machine's row first.

    One statement where all three are there, as of every machine that is checked by the hour. What is joined without a
    lock would be as it was before this transaction had to wait for another.
    """
    query = (
        select(MachineRow, InstallRow, CheckRow)
        .join(CheckRow, CheckRow.machine_id == MachineRow.id)
        .join(InstallRow, (InstallRow.machine_id == MachineRow.id) & InstallRow.staged.is_(False))
        .where(MachineRow.id == machine)
        .with_for_update()
    )
    found = session.execute(query).one_or_none()
    if found is not None:
        return found[0], found[1], found[2]
    row = session.get(MachineRow, machine, with_for_update=True)
    return row, current_install(session, machine), check_state(session, machine)


def begun_state(session: Session, machine: int, run: UUID | None, due: datetime) -> CheckRow:
    """Return the check state of the install by this run, locked; what an earlier install left is begun anew.

    Safe when several ask at once: whoever comes second gets the row of the first.
    """
    row = check_state(session, machine)
    if row is not None and row.run_id == run:
        return row
    begun = new_check_row(machine, run, due)
    values = {column.name: getattr(begun, column.name) for column in CheckRow.__table__.columns}
    statement = insert(CheckRow).values({name: null() if value is None else value for name, value in values.items()})
    fresh = {name: statement.excluded[name] for name in values if name != "machine_id"}
    session.execute(
        statement.on_conflict_do_update(
            index_elements=["machine_id"], set_=fresh, where=CheckRow.run_id.is_distinct_from(run)
        )
    )
    return session.get_one(CheckRow, machine, with_for_update=True, populate_existing=True)


def mark_hour(session: Session, machine: int, at: datetime) -> dict[str, int] | None:
    """Note a good check in the hour of `at` (UTC); None where the hour had one already.

    Return the bitmaps of that day and of the one before, by ISO date.
    """
    bit, day = 1 << at.hour, at.date()
    statement = insert(CheckDayRow).values(machine_id=machine, day=day, hours=bit)
    noted = (
        statement.on_conflict_do_update(
            index_elements=["machine_id", "day"],
            set_={"hours": CheckDayRow.hours.op("|")(statement.excluded.hours)},
            where=CheckDayRow.hours.op("&")(statement.excluded.hours) == 0,
        )
        .returning(CheckDayRow.day, CheckDayRow.hours)
        .cte("noted")
    )
    before = select(CheckDayRow.day, CheckDayRow.hours).where(
        CheckDayRow.machine_id == machine, CheckDayRow.day == day - timedelta(days=1)
    )
    query = select(noted.c.day, noted.c.hours).union_all(before)
    days = {known.isoformat(): hours for known, hours in session.execute(query)}
    return days if day.isoformat() in days else None
