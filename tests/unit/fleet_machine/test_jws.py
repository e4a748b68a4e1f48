"""Only what a pinned service key signed, for this purpose, is believed."""

import base64
import json

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from fleet_machine.failure import FleetError, NotAuthenticError
from fleet_machine.jws import ServiceKeys, Typ, thumbprint


def b64url(raw):
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


@pytest.fixture
def key():
    return Ed25519PrivateKey.generate()


def jwk_of(key):
    return {"kty": "OKP", "crv": "Ed25519", "x": b64url(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))}


@pytest.fixture
def keys(key):
    return ServiceKeys.from_jwks(json.dumps({"keys": [jwk_of(key)]}).encode())


def signed(key, payload=b'{"a": 1}', **header):
    head = {"alg": "EdDSA", "typ": "fleet-leave+jwt", "kid": thumbprint(jwk_of(key)), **header}
    text = f"{b64url(json.dumps(head).encode())}.{b64url(payload)}"
    return f"{text}.{b64url(key.sign(text.encode()))}"


def test_a_signed_answer_is_read(key, keys):
    assert keys.verify(signed(key), Typ.LEAVE) == {"a": 1}


def test_the_thumbprint_is_that_of_rfc_8037():
    jwk = {"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}

    assert thumbprint(jwk) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


@pytest.mark.parametrize(
    "header",
    [{"alg": "none"}, {"alg": "HS256"}, {"typ": "fleet-seed+jwt"}, {"kid": "other"}, {"crit": ["x"]}],
    ids=["no signature", "another algorithm", "another purpose", "another key", "an unknown extension"],
)
def test_another_header_is_not_believed(key, keys, header):
    with pytest.raises(NotAuthenticError):
        keys.verify(signed(key, **header), Typ.LEAVE)


@pytest.mark.parametrize("payload", [b"[]", b"nonsense", b"\xff"])
def test_a_payload_that_is_no_object_is_not_believed(key, keys, payload):
    with pytest.raises(NotAuthenticError):
        keys.verify(signed(key, payload), Typ.LEAVE)


@pytest.mark.parametrize("text", ["", "a.b", "a.b.c", "a.b.c.d", "....", "é.b.c"])
def test_what_is_no_compact_jws_is_not_believed(keys, text):
    with pytest.raises(NotAuthenticError):
        keys.verify(text, Typ.LEAVE)


def test_a_changed_payload_is_not_believed(key, keys):
    head, _body, signature = signed(key).split(".")

    with pytest.raises(NotAuthenticError):
        keys.verify(f"{head}.{b64url(b'{}')}.{signature}", Typ.LEAVE)


def test_each_key_of_a_set_is_believed_and_other_kinds_are_passed_over(key):
    other = Ed25519PrivateKey.generate()
    jwks = {"keys": [{"kty": "RSA", "n": "x", "e": "y"}, jwk_of(key), jwk_of(other)]}
    keys = ServiceKeys.from_jwks(json.dumps(jwks).encode())

    assert keys.verify(signed(key), Typ.LEAVE)
    assert keys.verify(signed(other), Typ.LEAVE)


@pytest.mark.parametrize(
    "text", [b"", b"{}", b"[]", b'{"keys": [1]}', b'{"keys": []}', b'{"keys": [{"kty": "OKP", "crv": "Ed25519"}]}']
)
def test_a_pin_that_holds_no_key_is_refused(text):
    with pytest.raises(FleetError):
        ServiceKeys.from_jwks(text)
