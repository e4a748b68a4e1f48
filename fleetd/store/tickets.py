"""Tickets: one-shot secrets that redeem a seed; the store has only their keyed hash."""

from datetime import datetime
from enum import StrEnum
from uuid import UUID

from sqlalchemy import BigInteger, LargeBinary, String, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from fleetd.store.schema import Base


class TicketState(StrEnum):
    """What became of a ticket."""

    FRESH = "fresh"
    REDEEMED = "redeemed"
    BURNT = "burnt"


class TicketRow(Base):
    """One ticket of one run."""

    __tablename__ = "ticket"

    keyed_hash: Mapped[bytes] = mapped_column(LargeBinary(32), primary_key=True)
    run_id: Mapped[UUID] = mapped_column(index=True)
    machine_id: Mapped[int] = mapped_column(BigInteger, index=True)
    made: Mapped[datetime]
    expires: Mapped[datetime]
    state: Mapped[TicketState] = mapped_column(String(10), default=TicketState.FRESH)
    why_burnt: Mapped[str] = mapped_column(String(200), default="")
    redeemed_at: Mapped[datetime | None]
    redeemed_from: Mapped[str] = mapped_column(String(64), default="")
    seed_sha256: Mapped[str] = mapped_column(String(64), default="")
    """Of what was rendered: a repetition that would render differently is refused."""


def find_ticket(session: Session, keyed_hash: bytes) -> TicketRow | None:
    """Return the ticket's row, locked, or None."""
    return session.get(TicketRow, keyed_hash, with_for_update=True)


def tickets_of(session: Session, run: UUID) -> list[TicketRow]:
    """Return the tickets of a run, newest first."""
    return list(session.scalars(select(TicketRow).where(TicketRow.run_id == run).order_by(TicketRow.made.desc())))


def burn_tickets(session: Session, machine: int, why: str, *, only_redeemed: bool = False) -> None:
    """Void the tickets of a machine; with `only_redeemed` just those that were used and could still be repeated."""
    statement = update(TicketRow).where(TicketRow.machine_id == machine, TicketRow.state != TicketState.BURNT)
    if only_redeemed:
        statement = statement.where(TicketRow.state == TicketState.REDEEMED)
    session.execute(statement.values(state=TicketState.BURNT, why_burnt=why[:200]))
