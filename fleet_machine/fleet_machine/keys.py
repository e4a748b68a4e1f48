"""Keys and envelopes between a machine and fleetd (docs/reference/machine-api.md, "Bytes")."""

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import NewType

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from fleet_machine.transcript import Transcript, lp

SessionKey = NewType("SessionKey", bytes)
"""32 bytes that authenticate the calls of one enrollment."""

NONCE_SIZE = 12


class Purpose(Enum):
    """What an envelope holds."""

    RESULT = "result"
    SEED = "seed"
    TICKET = "ticket"
    REDEEM = "redeem"


class EnvelopeError(Exception):
    """An envelope does not open: it is damaged, or was made for another purpose, enrollment or run."""


def hkdf(secret: bytes, *, salt: bytes | None, info: bytes) -> bytes:
    """Return 32 bytes of HKDF-SHA256 (RFC 5869)."""
    return HKDF(algorithm=SHA256(), length=32, salt=salt, info=info).derive(secret)


def secrets_in_order(secrets: Mapping[bytes, bytes]) -> bytes:
    """Return the activated secrets, one after the other in ascending order of EK Name."""
    return b"".join(secrets[name] for name in sorted(secrets))


def activation_proof(secrets: Mapping[bytes, bytes], transcript: Transcript) -> bytes:
    """Return the HMAC that shows that this TPM holds every challenged EK; `secrets` by EK Name."""
    key = hkdf(secrets_in_order(secrets), salt=transcript, info=b"fleetd activation")
    return hmac.new(key, transcript, sha256).digest()


def seal_key(secrets: Mapping[bytes, bytes], transcript: Transcript) -> bytes:
    """Return the key of an enrollment's result."""
    return hkdf(secrets_in_order(secrets), salt=transcript, info=b"fleetd seal")


def redeem_key(secret: bytes, transcript: Transcript) -> bytes:
    """Return the key of a redeemed seed."""
    return hkdf(secret, salt=transcript, info=b"fleetd redeem")


def seed_key(session: SessionKey, path: str, counter: int) -> bytes:
    """Return the key of a seed or ticket given in HookOS; path and counter are those of the call."""
    return hkdf(session, salt=None, info=f"fleetd seed/{path} {counter}".encode("ascii"))


def call_mac(session: SessionKey, method: str, path: str, body: bytes, counter: int) -> str:
    """Return the `Fleet-MAC` header of one call of a run, in hex."""
    message = lp(method.encode()) + lp(path.encode()) + lp(body) + lp(str(counter).encode())
    return hmac.new(session, message, sha256).hexdigest()


@dataclass(frozen=True, slots=True)
class Binding:
    """What an envelope is bound to; the run is "" where there is none."""

    purpose: Purpose
    enrollment: str
    run: str

    def bytes(self) -> bytes:
        """Return the associated data of the AES-GCM envelope."""
        return lp(self.purpose.value.encode()) + lp(self.enrollment.encode("ascii")) + lp(self.run.encode("ascii"))


def open_envelope(key: bytes, sealed: bytes, binding: Binding) -> bytes:
    """Return what fleetd sealed (12 random bytes, AES-256-GCM ciphertext and tag).

    Raises EnvelopeError.
    """
    if len(sealed) < NONCE_SIZE + 16:
        raise EnvelopeError("the sealed answer is too short")
    try:
        return AESGCM(key).decrypt(sealed[:NONCE_SIZE], sealed[NONCE_SIZE:], binding.bytes())
    except InvalidTag:
        raise EnvelopeError(
            f"the sealed {binding.purpose.value} was not made for this TPM, enrollment and run"
        ) from None


def seal_envelope(key: bytes, nonce: bytes, plain: bytes, binding: Binding) -> bytes:
    """Return an envelope; `nonce` is 12 random bytes, never used twice with this key."""
    return nonce + AESGCM(key).encrypt(nonce, plain, binding.bytes())
