"""Challenge tokens: all that fleetd must remember of a challenge, sealed and carried by the machine.

An unauthenticated request thus writes nothing to the store. A token opens only with the server's key; what it says is
what fleetd said when it made it.
"""

import json
from base64 import b64decode, b64encode, urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from uuid import UUID

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fleetd.core.attestation.transcript import hkdf

_AAD = b"fleetd challenge token 1"
_NONCE = 12
MAX_TOKEN = 8192
"""Longest token accepted, in characters."""


class Purpose(StrEnum):
    """What a challenge is for."""

    ENROLL = "enroll"
    CHECK = "check"
    REDEEM = "redeem"


class TokenError(ValueError):
    """The token was not made by this service, or says nothing that it could have said."""


@dataclass(frozen=True, slots=True)
class PcrDemand:
    """Which PCRs a quote must cover."""

    bank: str
    select: tuple[int, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form of the machine API."""
        return {"bank": self.bank, "select": list(self.select)}


@dataclass(frozen=True, slots=True)
class Credential:
    """The secret that was put under one EK; 32 bytes."""

    ek_name: bytes
    secret: bytes


@dataclass(frozen=True, slots=True)
class Challenge:
    """What fleetd said in a challenge."""

    id: UUID
    purpose: Purpose
    nonce: bytes
    """32 bytes."""
    pcrs: PcrDemand
    issued: datetime
    expires: datetime
    send_log: bool
    machine: int | None = None
    """Subject of a check or a redemption; of an enrollment nothing is believed before proof."""
    run: UUID | None = None
    lak_name: bytes = b""
    """Name of the LAK that the credentials were made for."""
    lak_unique: bytes = b""
    credentials: tuple[Credential, ...] = ()

    def expired(self, now: datetime) -> bool:
        """Tell whether the challenge is over."""
        return now >= self.expires


def seal_token(key: bytes, challenge: Challenge, nonce: bytes) -> str:
    """Return the token of the challenge; `nonce` is 12 fresh random bytes."""
    if len(nonce) != _NONCE:
        raise ValueError("a token needs 12 random bytes")
    body = json.dumps(_as_dict(challenge), separators=(",", ":")).encode()
    return urlsafe_b64encode(nonce + AESGCM(_token_key(key)).encrypt(nonce, body, _AAD)).rstrip(b"=").decode()


def open_token(key: bytes, token: str, purpose: Purpose) -> Challenge:
    """Return what the token says. Expiry is the caller's question.

    Raises TokenError when it is not a token of this service for this purpose.
    """
    if len(token) > MAX_TOKEN:
        raise TokenError("not a challenge token")
    try:
        raw = urlsafe_b64decode(token + "==")
        body = AESGCM(_token_key(key)).decrypt(raw[:_NONCE], raw[_NONCE:], _AAD)
    except (ValueError, InvalidTag) as error:
        raise TokenError("not a challenge token of this service") from error
    # base64 decoders ignore stray bits, characters and padding: only the one spelling that was sent is the token.
    if urlsafe_b64encode(raw).rstrip(b"=").decode() != token:
        raise TokenError("not a challenge token of this service")
    challenge = _from_dict(json.loads(body))
    if challenge.purpose is not purpose:
        raise TokenError(f"a token for {challenge.purpose.value} does not serve for {purpose.value}")
    return challenge


def _token_key(key: bytes) -> bytes:
    return hkdf(key, salt=None, info=b"fleetd challenge tokens")


def _as_dict(challenge: Challenge) -> dict[str, Any]:
    return {
        "i": challenge.id.hex,
        "p": challenge.purpose.value,
        "n": _text(challenge.nonce),
        "b": challenge.pcrs.bank,
        "s": list(challenge.pcrs.select),
        "f": challenge.issued.timestamp(),
        "t": challenge.expires.timestamp(),
        "l": challenge.send_log,
        "m": challenge.machine,
        "r": challenge.run.hex if challenge.run else None,
        "k": _text(challenge.lak_name),
        "u": _text(challenge.lak_unique),
        "c": [[_text(item.ek_name), _text(item.secret)] for item in challenge.credentials],
    }


def _from_dict(body: dict[str, Any]) -> Challenge:
    return Challenge(
        id=UUID(body["i"]),
        purpose=Purpose(body["p"]),
        nonce=b64decode(body["n"]),
        pcrs=PcrDemand(body["b"], tuple(body["s"])),
        issued=datetime.fromtimestamp(body["f"], UTC),
        expires=datetime.fromtimestamp(body["t"], UTC),
        send_log=body["l"],
        machine=body["m"],
        run=UUID(body["r"]) if body["r"] else None,
        lak_name=b64decode(body["k"]),
        lak_unique=b64decode(body["u"]),
        credentials=tuple(Credential(b64decode(name), b64decode(secret)) for name, secret in body["c"]),
    )


def _text(raw: bytes) -> str:
    return b64encode(raw).decode()
