"""Signed records of runs, what people gave their word for, and what was withdrawn when."""

from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, ForeignKey, Text, UniqueConstraint, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from fleetd.core.names import RunId
from fleetd.store.schema import Base


class EvidenceRow(Base):
    """One signed record; `subject` is the disk's serial, empty for a retirement."""

    __tablename__ = "evidence"

    run_id: Mapped[UUID] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    kind: Mapped[str] = mapped_column(Text, primary_key=True)
    """erase or retirement."""
    subject: Mapped[str] = mapped_column(Text, primary_key=True)
    told: Mapped[str] = mapped_column(Text)
    """SHA-256 of what the machine told, hex: the same telling is signed once."""
    jws: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime]


class WordRow(Base):
    """A person's word in a run about something that fleetd cannot see for itself."""

    __tablename__ = "words"

    run_id: Mapped[UUID] = mapped_column(ForeignKey("runs.id"), primary_key=True)
    subject: Mapped[str] = mapped_column(Text, primary_key=True)
    """The serial of a disk, or `POWER_OFF`."""
    by: Mapped[str] = mapped_column(Text)
    reason: Mapped[str] = mapped_column(Text)
    at: Mapped[datetime]


POWER_OFF = "power-off"
"""The subject of a word that the machine is off."""


class DeedRow(Base):
    """One step of taking back what a machine held: the first time that it was done in this run."""

    __tablename__ = "deeds"
    __table_args__ = (UniqueConstraint("run_id", "step"),)

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=True)
    run_id: Mapped[UUID] = mapped_column(ForeignKey("runs.id"))
    step: Mapped[str] = mapped_column(Text)
    message: Mapped[str] = mapped_column(Text)
    detail: Mapped[dict[str, Any]] = mapped_column(default=dict)
    at: Mapped[datetime]


def records_of(session: Session, run: RunId) -> list[EvidenceRow]:
    """List the signed records of a run, the retirement last."""
    query = select(EvidenceRow).where(EvidenceRow.run_id == run).order_by(EvidenceRow.kind, EvidenceRow.subject)
    return list(session.scalars(query))


def keep_record(session: Session, run: RunId, kind: str, subject: str, told: str, jws: str, now: datetime) -> None:
    """Keep a record; a newer one of the same subject takes its place, as an erase that was repeated."""
    statement = insert(EvidenceRow).values(run_id=run, kind=kind, subject=subject, told=told, jws=jws, at=now)
    session.execute(
        statement.on_conflict_do_update(
            index_elements=["run_id", "kind", "subject"], set_={"told": told, "jws": jws, "at": now}
        )
    )


def deeds_of(session: Session, run: RunId) -> list[DeedRow]:
    """List what was taken back in a run, in the order in which it was done."""
    return list(session.scalars(select(DeedRow).where(DeedRow.run_id == run).order_by(DeedRow.id)))


def note_deed(session: Session, run: RunId, step: str, message: str, detail: dict[str, Any], now: datetime) -> None:
    """Note that a step was done; the first time counts."""
    statement = insert(DeedRow).values(run_id=run, step=step, message=message, detail=detail, at=now)
    session.execute(statement.on_conflict_do_nothing())


def words_of(session: Session, run: RunId) -> dict[str, WordRow]:
    """Return what people gave their word for in a run, by subject."""
    return {row.subject: row for row in session.scalars(select(WordRow).where(WordRow.run_id == run))}
