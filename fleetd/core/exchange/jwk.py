"""Ed25519 keys as JWKs (RFC 7517, RFC 8037, section 2) and their names (RFC 7638)."""

import json
from base64 import urlsafe_b64encode
from hashlib import sha256

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey


def jwk(key: Ed25519PublicKey) -> dict[str, str]:
    """Return the members that make the key what it is, in the order in which RFC 7638 hashes them."""
    return {"crv": "Ed25519", "kty": "OKP", "x": unpadded(key.public_bytes_raw())}


def thumbprint(key: Ed25519PublicKey) -> str:
    """Return the RFC 7638 thumbprint of a key: its `kid`."""
    return unpadded(sha256(json.dumps(jwk(key), separators=(",", ":")).encode()).digest())


def unpadded(data: bytes) -> str:
    """Return base64url without padding."""
    return urlsafe_b64encode(data).rstrip(b"=").decode()
