"""What the actions of a run told: one row an event, numbered by the machine."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, Text, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from fleetd.core.names import RunId
from fleetd.store.schema import Base


class EventRow(Base):
    """One event of docs/reference/machine-api.md."""

    __tablename__ = "run_events"

    run_id: Mapped[UUID] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    seq: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    action: Mapped[str] = mapped_column(Text)
    kind: Mapped[str] = mapped_column(Text)
    percent: Mapped[float | None]
    message: Mapped[str] = mapped_column(Text, default="")
    data: Mapped[dict[str, Any] | None]
    at: Mapped[datetime]


def add_event(session: Session, values: dict[str, Any]) -> bool:
    """Insert an event; False when this run has one with this seq already."""
    statement = insert(EventRow).values(**values).on_conflict_do_nothing().returning(EventRow.seq)
    return session.execute(statement).one_or_none() is not None


def events_of(session: Session, run: RunId) -> list[EventRow]:
    """List the events of a run in their order."""
    return list(session.scalars(select(EventRow).where(EventRow.run_id == run).order_by(EventRow.seq)))
