"""Checking a record offline: a compact JWS (RFC 7515) by a key of fleetd (RFC 8037), and nothing else."""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fleetd.core.evidence.records import KINDS, VERSION
from fleetd.core.exchange.jwk import thumbprint

_DEEPEST = 12


class UnreadableError(ValueError):
    """What was given is no file of records, or no JWKS."""


class NotGenuineError(ValueError):
    """A record is not what fleetd signed."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record whose signature holds; made only by `verified`."""

    kind: str
    """erase or retirement."""
    kid: str
    payload: Mapping[str, Any]
    jws: str


def keys_of(jwks: bytes) -> dict[str, Ed25519PublicKey]:
    """Return the Ed25519 keys of a JWKS (RFC 7517) by their thumbprint. Raises UnreadableError."""
    try:
        found = {
            thumbprint(key): key
            for item in json.loads(jwks)["keys"]
            if item.get("kty") == "OKP" and item.get("crv") == "Ed25519"
            for key in [Ed25519PublicKey.from_public_bytes(_decoded(item["x"]))]
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableError(f"no JWKS: {error}") from error
    if not found:
        raise UnreadableError("the JWKS holds no Ed25519 key")
    return found


def records_in(raw: bytes) -> list[str]:
    """Return every JWS in a file: one a line, or anywhere in JSON under a key `jws`. Raises UnreadableError."""
    try:
        text = raw.decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise UnreadableError("neither text nor JSON") from error
    if text[:1] in {"{", "["}:
        try:
            found = list(_search(json.loads(text), 0))
        except (ValueError, RecursionError) as error:
            raise UnreadableError(f"no JSON: {error}") from error
    else:
        found = text.split()
    if not found:
        raise UnreadableError("no record in it")
    return found


def _search(value: Any, depth: int) -> Iterator[str]:
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        for name, part in value.items():
            if name == "jws" and isinstance(part, str):
                yield part
            else:
                yield from _search(part, depth + 1)
    elif isinstance(value, list):
        for part in value:
            yield from _search(part, depth + 1)


def verified(jws: str, keys: Mapping[str, Ed25519PublicKey]) -> Record:
    """Return the record that one of the keys signed. Raises NotGenuineError, which says what does not hold."""
    try:
        head, body, signature = jws.split(".")
        header = json.loads(_decoded(head))
        raw = _decoded(signature)
    except (ValueError, UnicodeError) as error:
        raise NotGenuineError("not a compact JWS") from error
    if not isinstance(header, dict) or header.get("alg") != "EdDSA" or "crit" in header:
        raise NotGenuineError("signed in another way than fleetd signs")
    kind, key = KINDS.get(str(header.get("typ"))), keys.get(str(header.get("kid")))
    if kind is None:
        raise NotGenuineError(f"signed for another purpose: {str(header.get('typ'))[:40]}")
    if key is None:
        raise NotGenuineError(f"signed by a key that is not among those given: {str(header.get('kid'))[:50]}")
    try:
        key.verify(raw, f"{head}.{body}".encode())
        payload = json.loads(_decoded(body))
    except (InvalidSignature, ValueError) as error:
        raise NotGenuineError("the signature does not hold: it was changed after it was signed") from error
    if not isinstance(payload, dict) or payload.get("version") != VERSION or payload.get("record") != kind:
        raise NotGenuineError("of a version that this program does not know")
    return Record(kind, str(header["kid"]), payload, jws)


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, TypeError, AttributeError) as error:
        raise ValueError("not base64url") from error
