"""Ed25519 keys as JWKs, held against the examples of the standard."""

from base64 import urlsafe_b64decode

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fleetd.core.exchange.jwk import jwk, thumbprint, unpadded

X = "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"
"""RFC 8037, A.2."""


@pytest.fixture
def key():
    return Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(X + "="))


def test_a_key_has_the_members_of_rfc_8037(key):
    assert jwk(key) == {"kty": "OKP", "crv": "Ed25519", "x": X}


def test_the_name_of_a_key_is_the_thumbprint_of_rfc_8037(key):
    assert thumbprint(key) == "kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"


@pytest.mark.parametrize(("data", "text"), [(b"", ""), (b"\xfb", "-w"), (b"\0\0", "AAA"), (b"\0\0\x17", "AAAX")])
def test_only_the_padding_is_left_out_of_base64url(data, text):
    assert unpadded(data) == text
