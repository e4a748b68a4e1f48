"""Used challenge tokens: each is used once, and identical bytes get the identical answer while the token lives."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from sqlalchemy import LargeBinary, String, delete, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, mapped_column

from fleetd.store.schema import Base


class UsedTokenRow(Base):
    """A challenge that was answered with a valid proof."""

    __tablename__ = "used_token"

    id: Mapped[UUID] = mapped_column(primary_key=True)
    body_sha256: Mapped[bytes] = mapped_column(LargeBinary(32))
    used_at: Mapped[datetime]
    expires: Mapped[datetime] = mapped_column(index=True)
    status: Mapped[int | None]
    """HTTP status of the answer; None while it is being made."""
    retry_after: Mapped[int | None]
    content_type: Mapped[str] = mapped_column(String(100), default="")
    answer: Mapped[bytes | None] = mapped_column(LargeBinary)
    """As sent: signed, and sealed to the machine's TPM where it holds secrets."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as it went over the wire."""

    status: int
    content_type: str
    body: bytes
    retry_after: int | None = None


class TokenUsedError(Exception):
    """The token was used with other bytes, or its first use is still being answered (`busy`)."""

    def __init__(self, *, busy: bool) -> None:
        super().__init__("the first use is still being answered" if busy else "the token was used with other bytes")
        self.busy = busy


def earlier_answer(session: Session, token: UUID, body_sha256: bytes) -> Answer | None:
    """Return what the same bytes were answered before, or None when the token is unused. Raises TokenUsedError."""
    row = session.get(UsedTokenRow, token)
    if row is None:
        return None
    if row.body_sha256 != body_sha256:
        raise TokenUsedError(busy=False)
    if row.status is None or row.answer is None:
        raise TokenUsedError(busy=True)
    return Answer(row.status, row.content_type, row.answer, row.retry_after)


def use_token(
    session: Session,
    token: UUID,
    body_sha256: bytes,
    now: datetime,
    expires: datetime,
    answer: Answer | None = None,
) -> bool:
    """Take the token, with its answer where it is known already; False when somebody did before.

    Without an answer the caller commits before it acts on the verdict, and calls `keep_answer` after.
    """
    statement = insert(UsedTokenRow).values(
        id=token, body_sha256=body_sha256, used_at=now, expires=expires, **_kept(answer)
    )
    taken = session.execute(statement.on_conflict_do_nothing().returning(UsedTokenRow.id)).scalar()
    return taken is not None


def keep_answer(session: Session, token: UUID, answer: Answer) -> None:
    """Keep the answer for a repetition of the same bytes."""
    session.execute(update(UsedTokenRow).where(UsedTokenRow.id == token).values(**_kept(answer)))


def _kept(answer: Answer | None) -> dict[str, Any]:
    if answer is None:
        return {"content_type": ""}
    return {
        "status": answer.status,
        "content_type": answer.content_type,
        "answer": answer.body,
        "retry_after": answer.retry_after,
    }


def forget_expired(session: Session, now: datetime) -> int:
    """Delete tokens that can no longer be sent; return how many."""
    gone = session.execute(delete(UsedTokenRow).where(UsedTokenRow.expires < now).returning(UsedTokenRow.id))
    return len(gone.all())
