"""The service key speaks: what machines believe, as compact JWS (RFC 7515, RFC 8037), and the audit chain."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from fleetd.ca.service_keys import KeyRing
from fleetd.core.exchange.jwk import thumbprint, unpadded


class ServiceSpeaker:
    """Signs with the first key in force; publishes all, so that a rotation has two."""

    def __init__(self, keys: Callable[[], KeyRing]) -> None:
        self._keys = keys

    def sign(self, typ: str, payload: Mapping[str, Any]) -> str:
        """Return the payload as a compact JWS with `alg` EdDSA, this `typ` and the key's thumbprint as `kid`."""
        ring = self._keys()
        header = _coded({"alg": "EdDSA", "kid": thumbprint(ring.public[0]), "typ": typ})
        signed = f"{header}.{_coded(payload)}"
        return f"{signed}.{unpadded(ring.signing.sign(signed.encode()))}"

    def jwks(self) -> bytes:
        """Return the public keys in force as a JWKS (RFC 7517), JSON."""
        return self._keys().jwks()

    def kids(self) -> tuple[str, ...]:
        """Return the thumbprints of the keys in force, the signing one first."""
        return self._keys().kids()


class AuditSigner:
    """Signs the audit chain with the service key."""

    def __init__(self, keys: Callable[[], KeyRing]) -> None:
        self._keys = keys

    def sign(self, message: bytes) -> str:
        """Return an Ed25519 signature, base64url without padding."""
        return unpadded(self._keys().signing.sign(message))


def _coded(value: Mapping[str, Any]) -> str:
    return unpadded(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())
