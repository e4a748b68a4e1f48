"""Runs and what belongs to one: enrollments, archived Workflows, and the ids that must never start again."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, Text, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from fleetd.core.names import RunId
from fleetd.store.schema import Base


class RunRow(Base):
    """One run. `state` and `orders` are records (fleetd.core.records) of a State and of the Declaration it began with."""

    __tablename__ = "runs"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    machine_id: Mapped[int] = mapped_column(BigInteger, index=True)
    kind: Mapped[str] = mapped_column(Text)
    state_name: Mapped[str] = mapped_column(Text, index=True)
    state: Mapped[dict[str, Any]]
    orders: Mapped[dict[str, Any]]
    was_active: Mapped[bool] = mapped_column(default=False)
    """Whether the machine was active when the run began."""
    began_at: Mapped[datetime | None]
    """When the gate was passed."""
    opened_at: Mapped[datetime]
    ended_at: Mapped[datetime | None]
    outcome: Mapped[str] = mapped_column(Text, default="")
    code: Mapped[str] = mapped_column(Text, default="")
    message: Mapped[str] = mapped_column(Text, default="")
    findings: Mapped[list[Any]] = mapped_column(default=list)
    steps: Mapped[list[Any]] = mapped_column(default=list)
    outage_seconds: Mapped[float] = mapped_column(default=0.0)
    """Outage of outside parts during the present state."""

    first_leave_at: Mapped[datetime | None]
    leaves: Mapped[int] = mapped_column(default=0)
    """Leaves given; a decision that was made before the last one is void."""
    refusals: Mapped[int] = mapped_column(default=0)
    redeemed_at: Mapped[datetime | None]
    reboot_told_at: Mapped[datetime | None]
    lost_by: Mapped[str] = mapped_column(Text, default="")
    lost_reason: Mapped[str] = mapped_column(Text, default="")


class VerdictRow(Base):
    """The outcome of one enrollment, as the HTTP side judged it."""

    __tablename__ = "run_verdicts"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=True)
    machine_id: Mapped[int] = mapped_column(BigInteger, index=True)
    run_id: Mapped[UUID | None] = mapped_column(index=True)
    state: Mapped[str] = mapped_column(Text)
    findings: Mapped[list[Any]] = mapped_column(default=list)
    attestation: Mapped[dict[str, Any]] = mapped_column(default=dict)
    facts: Mapped[dict[str, Any]] = mapped_column(default=dict)
    at: Mapped[datetime]


class ArchivedWorkflow(Base):
    """A Workflow as it was last read before it was deleted."""

    __tablename__ = "archived_workflows"

    run_id: Mapped[UUID] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    part: Mapped[str] = mapped_column(Text, primary_key=True)
    outcome: Mapped[str] = mapped_column(Text)
    raw: Mapped[dict[str, Any]]
    at: Mapped[datetime]


class SpentIntent(Base):
    """An intent that NetBox holds as final: it never starts, whatever this store has forgotten."""

    __tablename__ = "spent_intents"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    at: Mapped[datetime]


def is_spent(session: Session, intent: RunId) -> bool:
    """Tell whether the intent has a run already, here or in NetBox's memory."""
    known = session.scalar(select(RunRow.id).where(RunRow.id == intent))
    return known is not None or session.get(SpentIntent, intent) is not None


def last_verdict(session: Session, run: RunId) -> VerdictRow | None:
    """Return the latest enrollment of the run; one that passed stays the latest."""
    passed = select(VerdictRow).where(VerdictRow.run_id == run, VerdictRow.state == "passed")
    latest = select(VerdictRow).where(VerdictRow.run_id == run)
    return (
        session.scalars(passed.order_by(VerdictRow.id).limit(1)).first()
        or session.scalars(latest.order_by(VerdictRow.id.desc()).limit(1)).first()
    )
