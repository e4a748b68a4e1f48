"""The exact bytes that a machine and fleetd hash alike (docs/reference/machine-api.md, "Bytes").

Names, TPMT_PUBLIC and TPM2B_PRIVATE go in as bytes without size prefix; tokens and serials as ASCII text.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import NewType
from uuid import UUID

VERSION = b"1"

Transcript = NewType("Transcript", bytes)
"""32 bytes: the SHA-256 of everything that a message claims."""


class Label(Enum):
    """What a signature by the LAK is for, so that none can be used in another place."""

    ENROLL_QUOTE = b"fleetd/enroll-quote/1"
    ENROLL_CERTIFY = b"fleetd/enroll-certify/1"
    REDEEM = b"fleetd/redeem/1"
    CHECK = b"fleetd/check/1"


def lp(value: bytes) -> bytes:
    """Return the value behind its length, 4 bytes big-endian."""
    return len(value).to_bytes(4, "big") + value


def lp_list(values: Iterable[bytes]) -> bytes:
    """Return the count, 4 bytes big-endian, then each value behind its length."""
    items = list(values)
    return len(items).to_bytes(4, "big") + b"".join(lp(item) for item in items)


@dataclass(frozen=True, slots=True)
class EnrollmentClaims:
    """All that an enrollment claims about the machine."""

    token: str
    ek_names: tuple[bytes, ...]
    lak_public: bytes
    ldevid_public: bytes
    ldevid_private: bytes
    facts: bytes
    log: bytes | None

    def transcript(self) -> Transcript:
        """Return the enrollment transcript."""
        return _digest(
            lp(VERSION),
            lp(self.token.encode("ascii")),
            lp_list(sorted(self.ek_names)),
            lp(self.lak_public),
            lp(self.ldevid_public),
            lp(self.ldevid_private),
            lp(self.facts),
            lp(_log_digest(self.log)),
        )


def check_transcript(
    token: str, serials: Iterable[str], findings: bytes, log: bytes | None, pins: Iterable[str] | None = None
) -> Transcript:
    """Return the transcript of a boot check.

    `serials` are those of the installed certificates, in hex; `pins` the thumbprints of the service keys that the machine
    pins, None from a client that does not tell them.
    """
    names = sorted(serial.lower().encode("ascii") for serial in serials)
    told = b"" if pins is None else lp_list(sorted(pin.encode("ascii") for pin in pins))
    return _digest(lp(VERSION), lp(token.encode("ascii")), lp_list(names), lp(findings), lp(_log_digest(log)), told)


def redeem_transcript(token: str, ticket: str) -> Transcript:
    """Return the transcript of a redemption."""
    return _digest(lp(VERSION), lp(token.encode("ascii")), lp(ticket.encode("ascii")))


def extra_data(label: Label, nonce: bytes, transcript: Transcript) -> bytes:
    """Return the 32 bytes that the TPM signs with: always SHA-256, since TPM2B_DATA may hold no more than 34."""
    return sha256(lp(label.value) + lp(nonce) + lp(transcript)).digest()


def lak_unique(of: UUID | bytes) -> bytes:
    """Return the LAK's `unique`, from a run id or from the Name of an EK that fleetd does not know."""
    x = of.bytes if isinstance(of, UUID) else of
    return sha256(lp(b"fleetd/lak-unique/1") + lp(x)).digest()


def _log_digest(log: bytes | None) -> bytes:
    return b"" if log is None else sha256(log).digest()


def _digest(*parts: bytes) -> Transcript:
    return Transcript(sha256(b"".join(parts)).digest())
