"""Certification of the LDevID by the LAK, and the forms of both keys."""

import dataclasses
import hashlib
import hmac

import pytest

from fleetd.core.attestation.attest import parse_attest, parse_certify_info
from fleetd.core.attestation.banks import Bank, PcrSelection
from fleetd.core.attestation.device_keys import LAK_ATTRIBUTES, LDEVID_ATTRIBUTES, judge_lak, judge_ldevid
from fleetd.core.attestation.quote import RawCertify, RawQuote, VerifiedCertify, verify_certify, verify_quote
from fleetd.core.attestation.signature import is_hmac_by
from fleetd.core.attestation.structures import Algorithm, Attribute, Curve, Scheme, SymmetricParameters, parse_public
from fleetd.core.findings import quote as findings
from fleetd.core.findings.quote import Attested, KeyForm
from tests.unit.attestation.evidence import QuoteParts, certify, ecc_key, ldevid_key, rsa_key, sized

CERTIFY = Attested.CERTIFY
NONCE = b"c" * 32


@pytest.fixture(scope="module")
def lak():
    return ecc_key()


@pytest.fixture(scope="module")
def ldevid():
    return ldevid_key()


def test_the_lak_certifies_the_ldevid(lak, ldevid):
    raw, signature = certify(lak, ldevid.public, NONCE)

    verdict = verify_certify(RawCertify(raw), signature, lak.public, NONCE, ldevid.public)

    assert isinstance(verdict, VerifiedCertify)
    assert verdict.name == ldevid.public.name()
    assert (verdict.clock.clock, verdict.clock.reset_count) == (1_000_000, 5)
    assert parse_certify_info(parse_attest(raw).body).qualified_name == b"\x00\x0b" + bytes(32)


def test_a_certification_of_another_key_is_refused(lak, ldevid):
    raw, signature = certify(lak, ldevid_key().public, NONCE)

    assert verify_certify(RawCertify(raw), signature, lak.public, NONCE, ldevid.public) == (
        findings.CertifiedAnotherKey(),
    )


def test_a_certification_by_a_swapped_lak_is_refused(lak, ldevid):
    raw, signature = certify(ecc_key(), ldevid.public, NONCE)

    assert verify_certify(RawCertify(raw), signature, lak.public, NONCE, ldevid.public) == (
        findings.SignerMismatch(CERTIFY),
        findings.SignatureInvalid(CERTIFY),
    )


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        ({"magic": 0}, findings.NotMadeByTpm(CERTIFY)),
        ({"kind": 0x8018}, findings.WrongAttestType(CERTIFY, 0x8018)),
        ({"kind": 0x801A}, findings.WrongAttestType(CERTIFY, 0x801A)),
        ({"signer": b""}, findings.SignerMismatch(CERTIFY)),
        ({"tail": b"\0"}, findings.AttestMalformed(CERTIFY, "1 bytes follow the certification")),
    ],
)
def test_a_certification_that_is_wrong_in_one_way_is_refused_for_it(lak, ldevid, changes, finding):
    raw, signature = certify(lak, ldevid.public, NONCE, **changes)

    assert verify_certify(RawCertify(raw), signature, lak.public, NONCE, ldevid.public) == (finding,)


def test_a_quote_is_refused_as_a_certification_for_its_type_alone(lak, ldevid):
    raw, signature = QuoteParts(lak, {Bank.SHA256: {0: bytes(32)}}, PcrSelection.of(Bank.SHA256, 0), NONCE).signed()

    assert verify_certify(RawCertify(raw), signature, lak.public, NONCE, ldevid.public) == (
        findings.WrongAttestType(CERTIFY, 0x8018),
    )


def test_a_certification_is_refused_as_a_quote_for_its_type_alone(lak, ldevid):
    raw, signature = certify(lak, ldevid.public, NONCE)

    assert verify_quote(RawQuote(raw), signature, lak.public, NONCE, PcrSelection(()), {}) == (
        findings.WrongAttestType(Attested.QUOTE, 0x8017),
    )


def test_a_certification_for_another_nonce_is_refused(lak, ldevid):
    raw, signature = certify(lak, ldevid.public, b"d" * 32)

    assert verify_certify(RawCertify(raw), signature, lak.public, NONCE, ldevid.public) == (
        findings.NonceMismatch(CERTIFY),
    )


def test_a_certification_without_its_end_is_refused_though_the_key_signed_it(lak, ldevid):
    raw = certify(lak, ldevid.public, NONCE)[0][:60]
    cut = findings.AttestMalformed(CERTIFY, "the attestation is truncated")

    def verdict(signature):
        return verify_certify(RawCertify(raw), signature, lak.public, NONCE, ldevid.public)

    assert verdict(lak.sign(raw)) == (cut,)
    assert verdict(lak.sign(b"other")) == (cut, findings.SignatureInvalid(CERTIFY))
    assert verdict(b"") == (cut, findings.SignatureMalformed(CERTIFY, "the signature is truncated"))


@pytest.mark.parametrize("length", range(0, 150, 11))
def test_a_truncated_certification_is_refused(lak, ldevid, length):
    raw, signature = certify(lak, ldevid.public, NONCE)

    verdict = verify_certify(RawCertify(raw[:length]), signature, lak.public, NONCE, ldevid.public)

    assert isinstance(verdict, tuple)


def test_keys_of_every_allowed_kind_are_accepted():
    for key in (ecc_key(), ecc_key(Curve.P384, hashed=Bank.SHA384), rsa_key(), rsa_key(Algorithm.RSAPSS)):
        assert judge_lak(key.public) == ()
    for key in (ldevid_key(), rsa_key(attributes=LDEVID_ATTRIBUTES)):
        assert judge_ldevid(key.public) == ()


@pytest.mark.parametrize("bit", list(Attribute), ids=lambda bit: bit.name)
def test_a_lak_with_any_attribute_more_or_less_is_refused(bit):
    key = ecc_key(attributes=LAK_ATTRIBUTES ^ bit)

    assert [finding.code for finding in judge_lak(key.public)] == ["key-form"]


@pytest.mark.parametrize("bit", list(Attribute), ids=lambda bit: bit.name)
def test_an_ldevid_with_any_attribute_more_or_less_is_refused(bit):
    key = ecc_key(attributes=LDEVID_ATTRIBUTES ^ bit)

    assert [finding.code for finding in judge_ldevid(key.public)] == ["key-form"]


def test_a_quoting_key_that_is_not_restricted_is_refused():
    assert judge_lak(ldevid_key().public)


def test_a_lak_on_p521_is_refused():
    assert "P-256 nor P-384" in judge_lak(ecc_key(Curve.P521).public)[0].sentence()


def test_a_lak_that_signs_with_sha1_is_refused():
    assert "not a strong signature" in judge_lak(ecc_key(hashed=Bank.SHA1).public)[0].sentence()


def bent(key, **parameters):
    """The public area of the key with other parameters."""
    return dataclasses.replace(key.public, parameters=dataclasses.replace(key.public.parameters, **parameters))


def off_its_curve(key):
    return parse_public(key.public.raw[:-1] + bytes((key.public.raw[-1] ^ 1,)))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda: ecc_key(auth_policy=bytes(32)).public, "it has an authorization policy"),
        (
            lambda: bent(ecc_key(), symmetric=SymmetricParameters(Algorithm.AES, 128, Algorithm.CFB)),
            "it has symmetric parameters",
        ),
        (lambda: bent(ecc_key(), scheme=Scheme(Algorithm.NULL)), "it is not bound to a signature scheme"),
        (lambda: bent(ecc_key(), curve=Curve.P521), "curve 0x0005 is neither P-256 nor P-384"),
        (lambda: bent(rsa_key(), key_bits=3072), "RSA with 3072 bits"),
        (
            lambda: ecc_key(hashed=Bank.SHA1).public,
            "its scheme 0x0018 with hash 0x0004 is not a strong signature",
        ),
        (lambda: ldevid_key().public, "its attributes are 0x00040472, not 0x00050472"),
        (lambda: off_its_curve(ecc_key()), "the point is not on its curve"),
    ],
    ids=["policy", "symmetric", "no scheme", "curve", "RSA", "SHA-1", "attributes", "point"],
)
def test_a_lak_of_another_form_is_refused_in_words(make, problem):
    assert KeyForm("LAK", problem) in judge_lak(make())


def test_an_ldevid_need_not_be_bound_to_a_scheme_as_it_signs_for_other_protocols():
    assert judge_ldevid(bent(ldevid_key(), scheme=Scheme(Algorithm.NULL))) == ()


def test_an_ldevid_off_its_curve_is_refused_in_words():
    assert judge_ldevid(off_its_curve(ldevid_key())) == (KeyForm("LDevID", "the point is not on its curve"),)


def test_quirk_41_a_keyed_hash_certifies_with_the_hmac_of_the_digest():
    attest, key = b"\xff\x54\x43\x47 some attestation", b"k" * 32
    made = hmac.digest(key, hashlib.sha256(attest).digest(), "sha256")

    assert is_hmac_by(key, attest, b"\x00\x05\x00\x0b" + made)
    assert not is_hmac_by(key, attest, b"\x00\x05\x00\x0b" + hmac.digest(key, attest, "sha256"))
    assert not is_hmac_by(key, attest + b"\0", b"\x00\x05\x00\x0b" + made)
    assert not is_hmac_by(key, attest, b"\x00\x05\x00\x04" + made[:20])
    assert not is_hmac_by(key, attest, b"\x00\x14\x00\x0b" + sized(made))
    assert not is_hmac_by(key, attest, b"\x00\x14\x00\x0b" + made)
