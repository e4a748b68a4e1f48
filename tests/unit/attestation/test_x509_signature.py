"""Signatures of certificates verify under the right key and algorithm, and under nothing else."""

from dataclasses import replace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from fleetd.core.attestation.certificate import parse_certificate
from fleetd.core.attestation.x509_signature import is_signed_by, uses_sha1, verifies
from tests.unit.attestation.maker import Ca, certificate_builder, ecc_key, rsa_key

PSS, RSA_SHA256, RSA_SHA1 = "1.2.840.113549.1.1.10", "1.2.840.113549.1.1.11", "1.2.840.113549.1.1.5"
ECDSA_SHA256, ECDSA_SHA1 = "1.2.840.10045.4.3.2", "1.2.840.10045.4.1"


def signed_with_pss(issuer, algorithm):
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a leaf")])
    made = certificate_builder(name, issuer.name, ecc_key().public_key()).sign(
        issuer.key,
        algorithm,
        rsa_padding=padding.PSS(padding.MGF1(algorithm), padding.PSS.DIGEST_LENGTH),
    )
    return parse_certificate(made.public_bytes(Encoding.DER))


@pytest.mark.parametrize("algorithm", [hashes.SHA256(), hashes.SHA384(), hashes.SHA512()], ids=lambda each: each.name)
def test_a_pss_signature_verifies_with_the_hash_that_its_parameters_name(algorithm):
    issuer = Ca("root", key=rsa_key(name="pss"))
    leaf = signed_with_pss(issuer, algorithm)

    assert leaf.signature_algorithm == PSS
    assert is_signed_by(leaf, issuer.parsed)
    assert not is_signed_by(leaf, Ca("root", key=rsa_key(name="other")).parsed)
    assert not is_signed_by(replace(leaf, tbs=leaf.tbs + b"\0"), issuer.parsed)
    assert not is_signed_by(replace(leaf, signature=leaf.signature[:-1] + b"\0"), issuer.parsed)


@pytest.mark.parametrize(
    "parameters",
    [
        bytes.fromhex("3000"),  # all defaults: SHA-1
        bytes.fromhex("3004a0023000"),  # a hash without an identifier
        bytes.fromhex("300fa00d300b0609608648016503040204"),  # SHA-224
        bytes.fromhex("3003020101"),
        b"",
        b"\x05\x00",
    ],
)
def test_pss_without_a_strong_hash_is_not_verified(parameters):
    issuer = Ca("root", key=rsa_key(name="pss"))
    leaf = signed_with_pss(issuer, hashes.SHA256())

    assert not is_signed_by(replace(leaf, signature_parameters=parameters), issuer.parsed)


def test_an_algorithm_of_another_kind_of_key_verifies_nothing():
    rsa, ecc = rsa_key(name="pss"), ecc_key()
    by_rsa = rsa.sign(b"x", padding.PKCS1v15(), hashes.SHA256())

    assert verifies(rsa.public_key(), b"x", by_rsa, RSA_SHA256, b"")
    for key, algorithm in ((rsa, ECDSA_SHA256), (ecc, RSA_SHA256), (rsa, "1.2.3"), (ecc, "1.2.3"), (ecc, PSS)):
        assert verifies(key.public_key(), b"x", by_rsa, algorithm, b"") is False


def test_an_issuer_whose_key_cannot_be_read_signed_nothing():
    root = Ca("root")

    assert is_signed_by(root.parsed, root.parsed)
    assert is_signed_by(root.parsed, replace(root.parsed, spki=b"\x30\x00")) is False


@pytest.mark.parametrize(
    ("algorithm", "weak"),
    [(RSA_SHA1, True), (ECDSA_SHA1, True), (RSA_SHA256, False), (ECDSA_SHA256, False), (PSS, False)],
)
def test_sha1_is_known_by_its_identifiers(algorithm, weak):
    assert uses_sha1(replace(Ca("root").parsed, signature_algorithm=algorithm)) is weak
