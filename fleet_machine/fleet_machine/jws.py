"""fleetd's signed answers: compact JWS (RFC 7515), EdDSA with Ed25519 (RFC 8037), by a pinned set of keys."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from hashlib import sha256
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fleet_machine.failure import FleetError, NotAuthenticError


class Typ(Enum):
    """What a signed answer is."""

    CHALLENGE = "fleet-challenge+jwt"
    RESULT = "fleet-result+jwt"
    LEAVE = "fleet-leave+jwt"
    SEED = "fleet-seed+jwt"


@dataclass(frozen=True, slots=True)
class ServiceKeys:
    """The pinned public keys of fleetd, by `kid`."""

    keys: Mapping[str, Ed25519PublicKey]

    @classmethod
    def from_jwks(cls, text: bytes) -> "ServiceKeys":
        """Read a JWKS (RFC 7517). Keys of other kinds are passed over.

        Raises FleetError when the text is no JWKS or holds no Ed25519 key.
        """
        keys = {}
        try:
            for jwk in json.loads(text)["keys"]:
                if jwk.get("kty") == "OKP" and jwk.get("crv") == "Ed25519":
                    keys[thumbprint(jwk)] = Ed25519PublicKey.from_public_bytes(unpadded(jwk["x"]))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise FleetError(f"FLEET_KEYS is not a JWKS: {error}") from error
        if not keys:
            raise FleetError("FLEET_KEYS holds no Ed25519 key: nothing that fleetd says could be believed.")
        return cls(keys)

    def kids(self) -> tuple[str, ...]:
        """Return the thumbprints of the keys, ascending."""
        return tuple(sorted(self.keys))

    def verify(self, compact: str, typ: Typ) -> dict[str, Any]:
        """Return the payload of a JWS that one of the keys made for this purpose.

        Raises NotAuthenticError.
        """
        try:
            head, body, signature = compact.split(".")
            header = json.loads(unpadded(head))
            raw_signature = unpadded(signature)
        except (ValueError, AttributeError, UnicodeError) as error:
            raise NotAuthenticError("The answer is no signed answer of fleetd.") from error
        if not isinstance(header, dict) or header.get("alg") != "EdDSA" or "crit" in header:
            raise NotAuthenticError("The answer is signed in another way than fleetd signs.")
        if header.get("typ") != typ.value:
            raise NotAuthenticError(f"The answer is of another kind than {typ.value}.")
        key = self.keys.get(str(header.get("kid")))
        if key is None:
            raise NotAuthenticError("The answer is signed by a key that is not pinned on this machine (FLEET_KEYS).")
        try:
            key.verify(raw_signature, f"{head}.{body}".encode("ascii"))
            payload = json.loads(unpadded(body))
        except (InvalidSignature, ValueError) as error:
            raise NotAuthenticError("The signature of the answer is wrong.") from error
        if not isinstance(payload, dict):
            raise NotAuthenticError("The signed answer is no JSON object.")
        return payload


def thumbprint(jwk: Mapping[str, Any]) -> str:
    """Return the `kid` of an Ed25519 key (RFC 7638 with the members of RFC 8037, section 2)."""
    members = {"crv": jwk["crv"], "kty": jwk["kty"], "x": jwk["x"]}
    canonical = json.dumps(members, separators=(",", ":"), sort_keys=True)
    return base64.urlsafe_b64encode(sha256(canonical.encode()).digest()).rstrip(b"=").decode()


def unpadded(text: str) -> bytes:
    """Decode base64url without padding. Raises ValueError."""
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, TypeError) as error:
        raise ValueError("not base64url") from error
