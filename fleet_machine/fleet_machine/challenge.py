"""Challenges of fleetd, as read from their signed form."""

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleet_machine.clock import parse_time
from fleet_machine.failure import NotAuthenticError
from fleet_machine.tpm.keys import KeyPair


@dataclass(frozen=True, slots=True)
class Credential:
    """A secret that only the TPM with this EK and the named LAK can read."""

    ek_name: bytes
    blob: bytes
    secret: bytes


@dataclass(frozen=True, slots=True)
class Challenge:
    """What the machine has to answer, until `expires` (fleetd's time)."""

    id: str
    token: str
    nonce: bytes
    bank: str
    select: tuple[int, ...]
    issued: datetime
    expires: datetime
    send_log: bool
    lak_unique: bytes | None
    credentials: tuple[Credential, ...]
    ldevid: KeyPair | None

    @classmethod
    def from_payload(cls, payload: Mapping[str, Any]) -> "Challenge":
        """Read a verified payload. Raises NotAuthenticError when it lacks what a challenge must have."""
        try:
            pcrs, pair = payload["pcrs"], payload.get("ldevid")
            return cls(
                str(payload["challenge"]),
                str(payload["token"]),
                unbase64(payload["nonce"]),
                str(pcrs["bank"]),
                tuple(sorted({int(index) for index in pcrs["select"]})),
                parse_time(payload["issued"]),
                parse_time(payload["expires"]),
                bool(payload.get("send_log")),
                unbase64(payload["lak_unique"]) if payload.get("lak_unique") else None,
                tuple(
                    Credential(unbase64(item["ek_name"]), unbase64(item["blob"]), unbase64(item["secret"]))
                    for item in payload.get("credentials") or ()
                ),
                KeyPair(unbase64(pair["public"]), unbase64(pair["private"])) if pair else None,
            )
        except (KeyError, TypeError, ValueError) as error:
            raise NotAuthenticError(f"The challenge is not of a form that this client knows: {error!r}.") from error


def base64_text(value: bytes) -> str:
    """Return standard padded base64."""
    return base64.b64encode(value).decode("ascii")


def unbase64(text: Any) -> bytes:
    """Return the bytes of standard padded base64. Raises ValueError."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError) as error:
        raise ValueError("not base64") from error
