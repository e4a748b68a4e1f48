"""Envelopes that answers are sealed in, and the keyed hash of tickets.

Source: docs/reference/machine-api.md, "Bytes".
"""

import hmac
from hashlib import sha256
from uuid import UUID

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from fleetd.core.attestation.transcript import Purpose, envelope_binding, hkdf

NONCE = 12
"""Random bytes that an envelope needs."""


def seal(key: bytes, nonce: bytes, content: bytes, purpose: Purpose, enrollment: UUID, run: UUID | None) -> bytes:
    """Return the envelope: `nonce` (12 fresh random bytes), then AES-256-GCM."""
    if len(nonce) != NONCE:
        raise ValueError("an envelope needs 12 random bytes")
    return nonce + AESGCM(key).encrypt(nonce, content, envelope_binding(purpose, enrollment, run))


def ticket_hash(server_key: bytes, ticket: str) -> bytes:
    """Return the keyed hash under which a ticket is stored."""
    return hmac.digest(hkdf(server_key, salt=None, info=b"fleetd tickets"), ticket.encode(), sha256)
