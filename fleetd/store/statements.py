"""What became of the statements that people gave in NetBox."""

from collections.abc import Sequence
from datetime import datetime
from uuid import UUID

from sqlalchemy import BigInteger, Text, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from fleetd.store.schema import Base


class StatementRow(Base):
    """One statement that was answered; its id is never taken again."""

    __tablename__ = "statements"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    machine_id: Mapped[int] = mapped_column(BigInteger, index=True)
    state: Mapped[str] = mapped_column(Text)
    """taken or refused."""
    message: Mapped[str] = mapped_column(Text, default="")
    at: Mapped[datetime]


def answered(session: Session, ids: Sequence[UUID]) -> dict[UUID, StatementRow]:
    """Return the answers to these statements, by id."""
    if not ids:
        return {}
    return {row.id: row for row in session.scalars(select(StatementRow).where(StatementRow.id.in_(ids)))}
