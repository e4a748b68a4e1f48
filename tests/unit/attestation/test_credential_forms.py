"""What `make_credential` wraps opens with the EK's private key alone, for every kind of EK; opened here step by step."""

import hmac
import random
import struct
from hashlib import new as new_hash

import pytest
from cryptography.hazmat.decrepit.ciphers.modes import CFB
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES

from fleetd.core.attestation.credential import kdfa, kdfe, make_credential
from fleetd.core.attestation.endorsement import POLICIES, judge_public_area
from fleetd.core.attestation.structures import (
    HASHES,
    Algorithm,
    Attribute,
    Curve,
    MalformedStructure,
    RsaParameters,
    Scheme,
    SymmetricParameters,
    marshal_public,
    parse_public,
)
from tests.unit.attestation.maker import EK_ATTRIBUTES, ecc_ek, ecc_key, rsa_ek, rsa_key

NAME = bytes.fromhex("000b") + bytes(range(32))
SECRET = bytes(range(100, 132))
HASH_CLASSES = {Algorithm.SHA256: hashes.SHA256, Algorithm.SHA384: hashes.SHA384, Algorithm.SHA512: hashes.SHA512}


class Repeatable:
    """The same bytes in every run."""

    def __init__(self):
        self._source = random.Random(7)

    def bytes(self, count):
        return self._source.randbytes(count)


def high_rsa(bits, name_alg):
    key = rsa_key(bits)
    public = marshal_public(
        Algorithm.RSA,
        EK_ATTRIBUTES | Attribute.USER_WITH_AUTH,
        RsaParameters(SymmetricParameters(Algorithm.AES, 256, Algorithm.CFB), Scheme(Algorithm.NULL), bits, 0),
        key.public_key().public_numbers().n.to_bytes(bits // 8),
        name_alg=name_alg,
        auth_policy=next(iter(POLICIES[name_alg])),
    )
    return key, public


def an_ek(kind):
    match kind:
        case "rsa-2048":
            key = rsa_key()
            return key, rsa_ek(key.public_key().public_numbers().n)
        case "rsa-3072" | "rsa-4096":
            return high_rsa(int(kind[4:]), Algorithm.SHA384)
        case "p-256":
            key = ecc_key()
            return key, ecc_ek(key.public_key())
        case "p-384":
            key = ecc_key(Curve.P384)
            return key, ecc_ek(key.public_key(), curve=Curve.P384, name_alg=Algorithm.SHA384, bits=256)
    key = ecc_key(Curve.P521)
    return key, ecc_ek(key.public_key(), curve=Curve.P521, name_alg=Algorithm.SHA512, bits=256)


def sized(data):
    (length,) = struct.unpack_from(">H", data)
    return data[2 : 2 + length], data[2 + length :]


def opened(key, public, credential, name):
    """Recover the secret as Part 1, 24.5 says; a wrong integrity value raises."""
    area = parse_public(public)
    hash_name = HASHES[area.name_alg]
    size = new_hash(hash_name).digest_size
    shared, nothing = sized(credential.secret)
    assert nothing == b""
    if isinstance(key, rsa.RSAPrivateKey):
        algorithm = HASH_CLASSES[area.name_alg]()
        seed = key.decrypt(shared, padding.OAEP(padding.MGF1(algorithm), algorithm, b"IDENTITY\0"))
    else:
        x, rest = sized(shared)
        y, nothing = sized(rest)
        assert nothing == b""
        theirs = ec.EllipticCurvePublicNumbers(int.from_bytes(x), int.from_bytes(y), key.curve).public_key()
        own = key.public_key().public_numbers().x.to_bytes(len(x))
        seed = kdfe(hash_name, key.exchange(ec.ECDH(), theirs), b"IDENTITY", x, own, size * 8)
    inner, nothing = sized(credential.blob)
    assert nothing == b""
    integrity, hidden = sized(inner)
    wanted = hmac.digest(kdfa(hash_name, seed, b"INTEGRITY", b"", b"", size * 8), hidden + name, hash_name)
    if not hmac.compare_digest(integrity, wanted):
        raise ValueError("integrity")
    bits = area.parameters.symmetric.key_bits
    decryptor = Cipher(AES(kdfa(hash_name, seed, b"STORAGE", name, b"", bits)), CFB(b"\0" * 16)).decryptor()
    secret, nothing = sized(decryptor.update(hidden) + decryptor.finalize())
    assert nothing == b""
    return secret


@pytest.mark.parametrize("kind", ["rsa-2048", "rsa-3072", "rsa-4096", "p-256", "p-384", "p-521"])
def test_the_private_key_of_the_ek_opens_the_secret_for_this_name_only(kind):
    key, public = an_ek(kind)
    assert judge_public_area(parse_public(public)) == ()

    credential = make_credential(parse_public(public), NAME, SECRET, Repeatable())

    assert opened(key, public, credential, NAME) == SECRET
    with pytest.raises(ValueError, match="integrity"):
        opened(key, public, credential, NAME[:-1] + b"\0")


def test_no_two_credentials_are_alike():
    _, public = an_ek("p-256")
    source = Repeatable()

    first, second = (make_credential(parse_public(public), NAME, SECRET, source) for _ in range(2))

    assert first.blob != second.blob
    assert first.secret != second.secret


@pytest.mark.parametrize("size", [0, 16, 31, 33, 64])
def test_a_secret_of_another_size_is_a_mistake_of_the_caller(size):
    _, public = an_ek("p-256")

    with pytest.raises(ValueError, match="32 bytes"):
        make_credential(parse_public(public), NAME, bytes(size), Repeatable())


CBC = 0x0042


@pytest.mark.parametrize(
    "symmetric",
    [None, SymmetricParameters(Algorithm.AES, 96, Algorithm.CFB), SymmetricParameters(Algorithm.AES, 128, CBC)],
    ids=["nothing", "AES-96", "CBC"],
)
def test_a_key_that_protects_no_credential_is_refused(symmetric):
    modulus = rsa_key().public_key().public_numbers().n.to_bytes(256)
    parameters = RsaParameters(symmetric, Scheme(Algorithm.NULL), 2048, 0)
    area = parse_public(marshal_public(Algorithm.RSA, EK_ATTRIBUTES, parameters, modulus))

    with pytest.raises(MalformedStructure):
        make_credential(area, NAME, SECRET, Repeatable())
