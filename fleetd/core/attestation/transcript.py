"""The exact bytes that fleetd and a machine hash and derive alike (docs/reference/machine-api.md, "Bytes").

Names, TPMT_PUBLIC and TPM2B_PRIVATE are bytes without size prefix; tokens, tickets and serials are their ASCII text.
"""

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Final, NewType
from uuid import UUID

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

VERSION: Final = b"1"

Transcript = NewType("Transcript", bytes)
"""32 bytes: the SHA-256 of everything that a message claims."""


class Label(Enum):
    """What a signature by the LAK is for, so that none serves in another place."""

    ENROLL_QUOTE = b"fleetd/enroll-quote/1"
    ENROLL_CERTIFY = b"fleetd/enroll-certify/1"
    REDEEM = b"fleetd/redeem/1"
    CHECK = b"fleetd/check/1"


class Purpose(Enum):
    """What an envelope holds."""

    RESULT = "result"
    SEED = "seed"
    TICKET = "ticket"
    REDEEM = "redeem"


def lp(value: bytes) -> bytes:
    """Return the value behind its length, 4 bytes big-endian."""
    return len(value).to_bytes(4) + value


def lp_list(values: Iterable[bytes]) -> bytes:
    """Return the count, 4 bytes big-endian, then each value behind its length."""
    items = list(values)
    return len(items).to_bytes(4) + b"".join(map(lp, items))


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
            lp(self.token.encode()),
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
    names = sorted(serial.lower().encode() for serial in serials)
    told = b"" if pins is None else lp_list(sorted(pin.encode() for pin in pins))
    return _digest(lp(VERSION), lp(token.encode()), lp_list(names), lp(findings), lp(_log_digest(log)), told)


def redeem_transcript(token: str, ticket: str) -> Transcript:
    """Return the transcript of a redemption."""
    return _digest(lp(VERSION), lp(token.encode()), lp(ticket.encode()))


def extra_data(label: Label, nonce: bytes, transcript: Transcript) -> bytes:
    """Return the 32 bytes that the TPM signs with: always SHA-256, since TPM2B_DATA may hold no more than 34."""
    return sha256(lp(label.value) + lp(nonce) + lp(transcript)).digest()


def lak_unique(of: UUID | bytes) -> bytes:
    """Return the LAK's 32-byte `unique`, from a run id or from the Name of an EK that the ledger does not know."""
    return sha256(lp(b"fleetd/lak-unique/1") + lp(of.bytes if isinstance(of, UUID) else of)).digest()


def hkdf(secret: bytes, *, salt: bytes | None, info: bytes) -> bytes:
    """Return 32 bytes of HKDF-SHA256 (RFC 5869)."""
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(secret)


def in_order(secrets: Mapping[bytes, bytes]) -> bytes:
    """Return the activation secrets one after the other, in ascending order of EK Name."""
    return b"".join(secrets[name] for name in sorted(secrets))


def activation_proof(secrets: Mapping[bytes, bytes], transcript: Transcript) -> bytes:
    """Return the HMAC that only a TPM with every challenged EK can make; `secrets` by EK Name."""
    key = hkdf(in_order(secrets), salt=transcript, info=b"fleetd activation")
    return hmac.digest(key, transcript, sha256)


def seal_key(secrets: Mapping[bytes, bytes], transcript: Transcript) -> bytes:
    """Return the key of an enrollment's result."""
    return hkdf(in_order(secrets), salt=transcript, info=b"fleetd seal")


def redeem_key(secret: bytes, transcript: Transcript) -> bytes:
    """Return the key of a redeemed seed."""
    return hkdf(secret, salt=transcript, info=b"fleetd redeem")


def session_key(server_key: bytes, enrollment: UUID) -> bytes:
    """Return the key of the calls that follow an enrollment; never stored."""
    return hkdf(server_key, salt=None, info=f"fleetd session/{enrollment}".encode())


def seed_key(session: bytes, path: str, counter: int) -> bytes:
    """Return the key of a seed or ticket given in HookOS; path and counter are those of the call."""
    return hkdf(session, salt=None, info=f"fleetd seed/{path} {counter}".encode())


def call_mac(session: bytes, method: str, path: str, body: bytes, counter: int) -> bytes:
    """Return the MAC of one call of a run (`Fleet-MAC` carries it in hex)."""
    message = lp(method.encode()) + lp(path.encode()) + lp(body) + lp(str(counter).encode())
    return hmac.digest(session, message, sha256)


def envelope_binding(purpose: Purpose, enrollment: UUID, run: UUID | None) -> bytes:
    """Return the associated data of an AES-256-GCM envelope."""
    return lp(purpose.value.encode()) + lp(str(enrollment).encode()) + lp(str(run).encode() if run else b"")


def _log_digest(log: bytes | None) -> bytes:
    return b"" if log is None else sha256(log).digest()


def _digest(*parts: bytes) -> Transcript:
    return Transcript(sha256(b"".join(parts)).digest())
