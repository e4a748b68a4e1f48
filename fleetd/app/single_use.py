"""A challenge is answered once: its token opens, is used up, and the same bytes get the same answer again."""

from uuid import UUID

from sqlalchemy.orm import Session

from fleetd.app.challenge import token_expired
from fleetd.app.exchange import Exchange
from fleetd.app.refusals import CallRefusedError
from fleetd.core.exchange import tokens
from fleetd.store.tokens import Answer, TokenUsedError, earlier_answer, use_token


def opened(exchange: Exchange, token: str, purpose: tokens.Purpose) -> tokens.Challenge:
    """Return the challenge that the token holds, still alive. Raises CallRefusedError."""
    try:
        challenge = tokens.open_token(exchange.server_key, token, purpose)
    except tokens.TokenError as error:
        raise CallRefusedError(403, "token-invalid", str(error), stop=False, retry_after=1) from error
    expired = token_expired(challenge, exchange.clock.now())
    if expired is not None:
        raise expired
    return challenge


def repeated(session: Session, token: UUID, digest: bytes) -> Answer | None:
    """Return the answer that the same bytes got before. Raises CallRefusedError 409 for other bytes."""
    try:
        return earlier_answer(session, token, digest)
    except TokenUsedError as error:
        raise CallRefusedError(409, "token-used", str(error), stop=False, retry_after=2 if error.busy else 1) from error


def answered_before(session: Session, token: UUID, digest: bytes) -> Answer:
    """Return the answer of a token that is used up already. Raises CallRefusedError 409 while it is being answered."""
    before = repeated(session, token, digest)
    if before is None:
        raise _being_answered()
    return before


def take(exchange: Exchange, challenge: tokens.Challenge, digest: bytes) -> None:
    """Use the token up, committed before anything is done about it. Raises CallRefusedError 409."""
    now = exchange.clock.now()
    with exchange.sessions.begin() as session:
        taken = use_token(session, challenge.id, digest, now, challenge.expires)
    if not taken:
        raise _being_answered()


def _being_answered() -> CallRefusedError:
    return CallRefusedError(409, "token-used", "the challenge is being answered already", stop=False, retry_after=2)
