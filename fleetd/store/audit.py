"""The audit: append-only rows, written in the transaction of the change that they describe.

The sweep chains and signs them afterwards in the order in which they became visible, so that writers never wait for one
another and a removed row shows.
"""

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import BigInteger, Text, func, select, text
from sqlalchemy.orm import Mapped, Session, mapped_column

from fleetd.core.names import MachineId, RunId
from fleetd.store.schema import Base

_CHAIN_LOCK = 0x666C_6175


class AuditRow(Base):
    """One change, who asked for it, and its place in the chain once the sweep has given it one."""

    __tablename__ = "audit"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=True)
    at: Mapped[datetime] = mapped_column(index=True)
    machine_id: Mapped[int | None] = mapped_column(BigInteger, index=True)
    run_id: Mapped[UUID | None] = mapped_column(index=True)
    who: Mapped[str] = mapped_column(Text)
    what: Mapped[str] = mapped_column(Text)
    detail: Mapped[dict[str, Any]] = mapped_column(default=dict)
    position: Mapped[int | None] = mapped_column(BigInteger, unique=True)
    digest: Mapped[str] = mapped_column(Text, default="")
    """SHA-256 over the previous digest and this row, hex."""
    signature: Mapped[str] = mapped_column(Text, default="")


def record(
    session: Session,
    at: datetime,
    what: str,
    *,
    who: str = "fleetd",
    machine: MachineId | None = None,
    run: RunId | None = None,
    **detail: Any,
) -> None:
    """Add an audit row to the session's transaction."""
    session.add(AuditRow(at=at, machine_id=machine, run_id=run, who=who, what=what, detail=detail))


def chain(session: Session, sign: Callable[[bytes], str], limit: int = 1000) -> int:
    """Give rows without a place their place, digest and signature; return how many. The caller commits.

    Another process that chains already holds the lock: then nothing is done here.
    """
    if not session.scalar(select(func.pg_try_advisory_xact_lock(_CHAIN_LOCK))):
        return 0
    last = session.execute(
        select(AuditRow.position, AuditRow.digest)
        .where(AuditRow.position.is_not(None))
        .order_by(AuditRow.position.desc())
        .limit(1)
    ).one_or_none()
    position, digest = (last.position or 0, last.digest) if last else (0, "")
    loose = session.scalars(select(AuditRow).where(AuditRow.position.is_(None)).order_by(AuditRow.id).limit(limit))
    count = 0
    for row in loose:
        position, digest = position + 1, chained_digest(digest, position + 1, row)
        row.position, row.digest, row.signature = position, digest, sign(digest.encode())
        count += 1
    return count


def chained_digest(previous: str, position: int, row: AuditRow) -> str:
    """Return the digest of a row at a position after the row with digest `previous`."""
    content = [previous, position, row.at.isoformat(), row.machine_id, str(row.run_id), row.who, row.what, row.detail]
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Verified:
    """What a chain turned out to be."""

    rows: int
    head: str
    """Digest of the last row, empty where there is none."""
    broken_at: int | None = None
    """The first position that does not hold."""
    found_expected: bool = True
    """Whether the head that was noted earlier is still in the chain."""


def verified(rows: Iterable[AuditRow], verify: Callable[[bytes, str], bool], expected: str = "") -> Verified:
    """Go through the chain from its beginning: positions without a gap, digests over each row, signatures.

    `expected` is a digest that was a head once. A cut-off end shows only by such a one: note it elsewhere.
    """
    digest, count, found = "", 0, not expected
    for row in rows:
        digest = chained_digest(digest, count + 1, row)
        if row.position != count + 1 or row.digest != digest or not verify(digest.encode(), row.signature):
            return Verified(count, digest, broken_at=count + 1, found_expected=found)
        count += 1
        found = found or digest == expected
    return Verified(count, digest, found_expected=found)


def in_order(session: Session) -> Iterable[AuditRow]:
    """Return the chained rows, oldest first."""
    statement = select(AuditRow).where(AuditRow.position.is_not(None)).order_by(AuditRow.position)
    return session.scalars(statement.execution_options(yield_per=1000))


def unchained(session: Session) -> int:
    """Count rows that wait for their place."""
    return session.scalar(text("SELECT count(*) FROM audit WHERE position IS NULL")) or 0
