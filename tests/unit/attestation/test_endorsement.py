"""Endorsement keys: what real TPMs show is accepted, what forgers show is refused."""

import base64
import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID, ObjectIdentifier

from fleetd.core.attestation.certificate import extract_certificate, parse_certificate
from fleetd.core.attestation.der import only_element
from fleetd.core.attestation.endorsement import (
    CertificateRule,
    ChainStatus,
    EndorsementRules,
    OfferedKey,
    certificate_of,
    judge_certificate_alone,
    judge_endorsement_key,
    judge_public_area,
)
from fleetd.core.attestation.revocation import parse_revocation_list
from fleetd.core.attestation.roca import has_roca_fingerprint
from fleetd.core.attestation.roots import TrustStore
from fleetd.core.attestation.structures import (
    Algorithm,
    Attribute,
    Curve,
    MalformedStructure,
    Scheme,
    SymmetricParameters,
    parse_public,
)
from fleetd.core.findings import Severity
from fleetd.core.findings import endorsement as found
from tests.unit.attestation.maker import (
    EK_ATTRIBUTES,
    NOW,
    Ca,
    certificate_builder,
    ecc_ek,
    ecc_key,
    ek_certificate,
    rsa_ek,
    rsa_key,
)

OPTIONAL = EndorsementRules(CertificateRule.OPTIONAL)


@pytest.fixture(scope="module")
def maker():
    root = Ca("Maker root")
    return root, Ca("Maker CA 1", root, path_length=0)


def judged(maker, *, key=None, public=None, certificate=None, rules=None, sent=(), store=None, **shape):
    root, issuing = maker
    key = key or ecc_key()
    if certificate is None:
        certificate = ek_certificate(issuing, key.public_key(), **shape)
    public = public if public is not None else ecc_ek(key.public_key())
    store = store or TrustStore.of(manufacturers=[root.parsed], links=[issuing.parsed])
    return judge_endorsement_key(OfferedKey(public, certificate, tuple(sent)), store, rules or EndorsementRules(), NOW)


def codes(verdict):
    return {finding.code for finding in verdict.findings}


# --- what real hardware shows ------------------------------------------------------------------------------------


def test_an_ek_with_a_chain_to_a_pinned_root_is_accepted_without_remark(maker):
    verdict = judged(maker)

    assert verdict.accepted
    assert verdict.findings == ()
    assert verdict.status is ChainStatus.MANUFACTURER
    assert (verdict.manufacturer, verdict.model, verdict.version) == ("INTC", "Model", "id:0001")


@pytest.mark.parametrize(
    "tail", [b"\xff" * 500, b"\x11" * 192, b"\0" * 4000, b"j)?\xb6\x99"], ids=["ff", "11", "zeros", "few"]
)
def test_quirk_1_8_34_padding_behind_the_certificate_is_left_out(maker, tail):
    key = ecc_key()
    der = ek_certificate(maker[1], key.public_key())

    assert judged(maker, key=key, certificate=der + tail).accepted


@pytest.mark.parametrize("long", [False, True], ids=["5 bytes", "7 bytes"])
def test_quirk_2_34_a_prefix_with_length_before_the_certificate_is_left_out(maker, long):
    key = ecc_key()
    der = ek_certificate(maker[1], key.public_key())
    prefix = b"\x10\x01\x00" + (len(der) + (2 if long else 0)).to_bytes(2) + (b"\x10\x02" if long else b"")

    assert judged(maker, key=key, certificate=prefix + der).accepted


@pytest.mark.parametrize("critical", [True, False])
def test_quirk_3_the_alternative_name_may_be_critical(maker, critical):
    assert judged(maker, critical_san=critical).accepted


@pytest.mark.parametrize("one_rdn", [True, False])
def test_quirk_4_7_the_tpms_attributes_may_stand_in_one_rdn_or_in_three(maker, one_rdn):
    verdict = judged(maker, one_rdn=one_rdn)

    assert verdict.accepted
    assert verdict.manufacturer == "INTC"


def test_quirk_7_an_empty_version_is_read_as_empty(maker):
    key = ecc_key()
    name = x509.Name(
        [x509.RelativeDistinguishedName([x509.NameAttribute(ObjectIdentifier("2.23.133.2.1"), "id:53544D20")])]
    )
    builder = certificate_builder(x509.Name([]), maker[1].name, key.public_key())
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DirectoryName(name)]), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ObjectIdentifier("2.23.133.8.1")]), critical=False)
    der = builder.sign(maker[1].key, hashes.SHA256()).public_bytes(Encoding.DER)

    verdict = judged(maker, key=key, certificate=der)

    assert verdict.accepted
    assert (verdict.manufacturer, verdict.version) == ("STM", "")


def length_of(content):
    size = len(content)
    return bytes([size]) if size < 128 else b"\x81" + bytes([size]) if size < 256 else b"\x82" + size.to_bytes(2)


def spliced(der, old, new):
    """Replace bytes inside a certificate's body and repair every length around; the signature is then wrong."""

    def walk(data):
        out = b""
        at = 0
        while at < len(data):
            tag, size, head = data[at], data[at + 1], 2
            if size & 0x80:
                head = 2 + (size & 0x7F)
                size = int.from_bytes(data[at + 2 : at + head])
            content = data[at + head : at + head + size]
            whole = data[at : at + head + size]
            if whole == old:
                out += new
            else:
                if tag & 0x20 or (tag == 4 and old in content):
                    content = walk(content)
                out += bytes([tag]) + length_of(content) + content
            at += head + size
        return out

    return walk(der)


def resigned(der, key):
    """Sign a changed body again, with ECDSA and SHA-256, over the bytes as they stand."""
    tbs, algorithm, _ = only_element(der, 0x30, "certificate").children()
    return assembled(tbs.whole, algorithm.whole, key.sign(tbs.whole, ec.ECDSA(hashes.SHA256())))


def signed_with_sha_1(der, key):
    """Sign again with RSA and SHA-1, as a maker did in 2015; libraries no longer do."""
    sha256, sha1 = bytes.fromhex("300d06092a864886f70d01010b0500"), bytes.fromhex("300d06092a864886f70d0101050500")
    tbs = only_element(spliced(der, sha256, sha1), 0x30, "certificate").children()[0].whole
    return assembled(tbs, sha1, key.sign(tbs, padding.PKCS1v15(), hashes.SHA1()))


def assembled(tbs, algorithm, signature):
    bits = b"\0" + signature
    body = tbs + algorithm + b"\x03" + length_of(bits) + bits
    return b"\x30" + length_of(body) + body


def test_quirk_5_an_explicit_default_is_accepted_over_the_raw_bytes(maker):
    key = ecc_key()
    der = ek_certificate(maker[1], key.public_key())
    plain = b"\x04\x02\x30\x00"  # basicConstraints of an end entity
    odd = resigned(spliced(der, plain, b"\x04\x05\x30\x03\x01\x01\x00"), maker[1].key)

    assert odd != der
    assert judged(maker, key=key, certificate=odd).accepted


def test_quirk_6_a_key_marked_rsaes_oaep_is_an_rsa_key(maker):
    key = rsa_key()
    der = ek_certificate(maker[1], key.public_key())
    plain = bytes.fromhex("300d06092a864886f70d0101010500")
    oaep = bytes.fromhex("300d06092a864886f70d0101073000")
    odd = resigned(spliced(der, plain, oaep), maker[1].key)

    assert judged(maker, key=key, public=rsa_ek(key.public_key().public_numbers().n), certificate=odd).accepted


def test_quirk_9_a_chain_from_nv_links_and_several_certificates_may_stand_in_one_index():
    root = Ca("Maker root")
    middle = Ca("Maker middle", root)
    last = Ca("Maker last", middle)
    key = ecc_key()
    der = ek_certificate(last, key.public_key())

    verdict = judged(
        (root, last),
        key=key,
        certificate=der,
        sent=[last.der + middle.der],
        store=TrustStore.of(manufacturers=[root.parsed]),
    )

    assert verdict.accepted
    assert len(verdict.path) == 4


def test_quirk_10_intels_json_answer_holds_the_certificate(maker):
    key = ecc_key()
    der = ek_certificate(maker[1], key.public_key())
    answer = json.dumps({"pubhash": "x", "certificate": base64.urlsafe_b64encode(der).rstrip(b"=").decode()}).encode()

    assert judged(maker, key=key, certificate=answer).accepted


@pytest.mark.parametrize(
    ("curve", "name_alg", "bits"),
    [(Curve.P384, Algorithm.SHA384, 256), (Curve.P521, Algorithm.SHA512, 256)],
    ids=["p-384", "p-521"],
)
def test_quirk_11_30_high_range_keys_have_names_of_their_own_hash(maker, curve, name_alg, bits):
    key = ecc_key(curve)
    attributes = EK_ATTRIBUTES | Attribute.USER_WITH_AUTH
    public = ecc_ek(key.public_key(), curve=curve, name_alg=name_alg, bits=bits, attributes=attributes)

    verdict = judged(maker, key=key, public=public)

    assert verdict.accepted, verdict.findings
    assert verdict.name[:2] == int(name_alg).to_bytes(2)


def revocation_list(issuer, *serials, due=NOW + timedelta(days=7), key=None):
    builder = (
        x509.CertificateRevocationListBuilder()
        .issuer_name(issuer.name)
        .last_update(NOW - timedelta(days=30))
        .next_update(due)
    )
    for serial in serials:
        builder = builder.add_revoked_certificate(
            x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(NOW).build()
        )
    return parse_revocation_list(builder.sign(key or issuer.key, hashes.SHA256()).public_bytes(Encoding.DER))


def test_quirk_12_an_old_revocation_list_is_a_remark_and_no_refusal(maker):
    store = TrustStore.of(
        manufacturers=[maker[0].parsed],
        links=[maker[1].parsed],
        lists=[revocation_list(maker[1], due=NOW - timedelta(days=1))],
    )

    verdict = judged(maker, store=store)

    assert verdict.accepted
    assert codes(verdict) == {"ek-crl-stale"}


def test_quirk_14_a_ca_that_was_issued_twice_with_one_name_is_found_by_its_key():
    root, other = Ca("Maker root"), Ca("Maker root")
    issuing = Ca("CA", root)
    store = TrustStore.of(manufacturers=[other.parsed, root.parsed], links=[issuing.parsed])

    assert judged((root, issuing), store=store).accepted


def test_quirk_14_critical_certificate_policies_are_accepted(maker):
    policies = x509.CertificatePolicies([x509.PolicyInformation(ObjectIdentifier("1.2.3"), None)])

    assert judged(maker, extra=[(policies, True)]).accepted


def test_quirk_31_names_that_differ_in_spaces_and_case_are_one_name():
    root = Ca("Maker root")
    issuing = Ca("www.intel.com  TPM  EK", root)
    shown = Ca.__new__(Ca)
    shown.name, shown.key = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "WWW.intel.com TPM EK")]), issuing.key

    assert judged(
        (root, shown), aki=False, store=TrustStore.of(manufacturers=[root.parsed], links=[issuing.parsed])
    ).accepted


def test_quirk_32_issuer_and_serial_of_a_key_identifier_are_ignored(maker):
    key = ecc_key()
    known = x509.SubjectKeyIdentifier.from_public_key(maker[1].key.public_key()).digest
    old = x509.AuthorityKeyIdentifier(
        known, [x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "older")]))], 99
    )
    der = ek_certificate(maker[1], key.public_key(), aki=False, extra=[(old, False)])

    assert judged(maker, key=key, certificate=der).accepted


def test_quirk_33_another_root_certificate_of_a_pinned_key_ends_the_path():
    root = Ca("Maker root")
    again = Ca("Maker root", key=root.key)
    issuing = Ca("CA", root)

    verdict = judged((root, issuing), store=TrustStore.of(manufacturers=[again.parsed], links=[issuing.parsed]))

    assert again.der != root.der
    assert verdict.accepted


def test_quirk_35_a_serial_number_with_leading_zeros_is_read(maker):
    key = ecc_key()
    name = x509.Name([])
    builder = certificate_builder(name, maker[1].name, key.public_key(), serial=1)
    san = x509.Name([x509.NameAttribute(ObjectIdentifier("2.23.133.2.1"), "id:53544D20")])
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DirectoryName(san)]), critical=True)
    builder = builder.add_extension(x509.ExtendedKeyUsage([ObjectIdentifier("2.23.133.8.1")]), critical=False)
    der = builder.sign(maker[1].key, hashes.SHA256()).public_bytes(Encoding.DER)
    odd = resigned(spliced(der, b"\x02\x01\x01", b"\x02\x04\x00\x00\x00\x01"), maker[1].key)

    with pytest.raises(ValueError, match="ParseError"):
        x509.load_der_x509_certificate(odd)
    assert judged(maker, key=key, certificate=odd).accepted


def test_a_certificate_without_extended_key_usage_is_accepted_with_a_warning(maker):
    verdict = judged(maker, eku="")

    assert verdict.accepted
    assert codes(verdict) == {"ek-certificate-eku-absent"}


def test_an_expired_certificate_is_a_warning_since_the_key_outlives_it(maker):
    verdict = judged(maker, until=NOW - timedelta(days=1))

    assert verdict.accepted
    assert codes(verdict) == {"certificate-not-in-force"}


def test_an_owners_root_is_accepted_and_said_to_be_no_manufacturer(maker):
    verdict = judged(maker, store=TrustStore.of(owners=[maker[0].parsed], links=[maker[1].parsed]))

    assert verdict.accepted
    assert verdict.status is ChainStatus.OWNER
    assert codes(verdict) == {"ek-root-owner"}


def test_a_key_without_certificate_is_accepted_only_where_the_class_says_so():
    public = ecc_ek(ecc_key().public_key())

    without = judge_endorsement_key(OfferedKey(public), TrustStore.of(), OPTIONAL, NOW)
    demanded = judge_endorsement_key(OfferedKey(public), TrustStore.of(), EndorsementRules(), NOW)

    assert without.accepted
    assert (without.status, without.path) == (ChainStatus.NONE, ())
    assert not demanded.accepted


def test_a_certificate_whose_root_is_not_at_hand_only_warns_where_none_is_demanded(maker):
    nothing = TrustStore.of()

    tolerated = judged(maker, store=nothing, rules=OPTIONAL)
    demanded = judged(maker, store=nothing)

    assert (tolerated.accepted, demanded.accepted) == (True, False)
    assert [finding.severity for finding in tolerated.findings] == [Severity.WARNS]
    assert codes(tolerated) == codes(demanded) == {"ek-chain-incomplete"}
    assert tolerated.status is demanded.status is ChainStatus.UNVERIFIED


def test_attack_a_foreign_certificate_is_refused_even_where_none_is_demanded(maker):
    assert not judged(maker, public=ecc_ek(ecc_key().public_key()), rules=OPTIONAL).accepted


# --- what forgers show -------------------------------------------------------------------------------------------


def test_attack_a_certificate_of_another_key_is_refused(maker):
    verdict = judged(maker, public=ecc_ek(ecc_key().public_key()))

    assert codes(verdict) == {"ek-certificate-key"}
    assert verdict.status is ChainStatus.UNVERIFIED
    assert (verdict.certificate, verdict.path, verdict.manufacturer, verdict.model) == (None, (), "", "")


def test_attack_a_certificate_of_another_key_names_no_manufacturer_that_the_class_allows(maker):
    verdict = judged(maker, public=ecc_ek(ecc_key().public_key()), rules=EndorsementRules(manufacturers=("INTC",)))

    assert codes(verdict) == {"ek-certificate-key", "ek-manufacturer"}


def test_a_verdict_names_the_key_that_it_is_about(maker):
    key = ecc_key()
    public = ecc_ek(key.public_key())

    verdict = judged(maker, key=key, public=public)

    assert (verdict.public.raw, verdict.name) == (public, parse_public(public).name())
    assert (verdict.key_type, verdict.public_hash) == ("p-256", sha256(public).hexdigest())
    assert verdict.certificate is not None
    assert verdict.path[0] == verdict.certificate


def test_bytes_that_are_no_public_area_have_no_name_and_no_kind(maker):
    verdict = judged(maker, public=b"nothing")

    assert (verdict.public, verdict.name, verdict.key_type, verdict.certificate) == (None, None, "", None)
    assert verdict.path == ()
    assert found.KeyMalformed("endorsement key", "unknown algorithm 0x6e6f") in verdict.findings


def test_bytes_that_are_no_certificate_are_refused_and_stand_for_no_key(maker):
    with pytest.raises(MalformedStructure) as told:
        extract_certificate(b"\x11" * 100)

    verdict = judged(maker, certificate=b"\x11" * 100)

    assert verdict.findings == (found.CertificateMalformed("the endorsement key", str(told.value)),)
    assert (verdict.certificate, verdict.path, verdict.status) == (None, (), ChainStatus.NONE)


def test_a_certificate_whose_key_cannot_be_read_is_no_endorsement_key(maker):
    certificate = replace(parse_certificate(ek_certificate(maker[1], ecc_key().public_key())), spki=b"\x30\x00")
    with pytest.raises(MalformedStructure) as told:
        certificate.public_key

    _, findings = judge_certificate_alone(certificate, TrustStore.of(), NOW)

    assert found.KeyMalformed("endorsement key", str(told.value)) in findings


def test_all_that_is_wrong_with_a_key_and_its_certificate_is_told_at_once(maker):
    public = ecc_ek(ecc_key().public_key(), policy=bytes(32))

    assert codes(judged(maker, public=public)) == {"ek-template", "ek-certificate-key"}


def test_a_class_may_allow_the_broken_generator():
    public = rsa_ek(roca_modulus())
    allowed = EndorsementRules(CertificateRule.OPTIONAL, allow_roca=True)

    verdicts = [judge_endorsement_key(OfferedKey(public), TrustStore.of(), rules, NOW) for rules in (allowed, OPTIONAL)]

    assert [verdict.accepted for verdict in verdicts] == [True, False]


def test_a_certificate_stands_for_its_own_key_only(maker):
    _, issuing = maker
    key, other = ecc_key().public_key(), ecc_key().public_key()
    certificate = ek_certificate(issuing, key)

    assert certificate_of(parse_public(ecc_ek(key)), certificate + b"\xff").raw == certificate
    for public in (ecc_ek(other), rsa_ek(rsa_key().public_key().public_numbers().n)):
        assert certificate_of(parse_public(public), certificate) is None
    assert certificate_of(parse_public(ecc_ek(key)), b"no certificate") is None


def test_attack_a_certificate_of_an_unpinned_root_that_looks_the_same_is_refused(maker):
    fake_root = Ca("Maker root")
    fake = Ca("Maker CA 1", fake_root)

    verdict = judged(
        (fake_root, fake), sent=[fake.der, fake_root.der], store=TrustStore.of(manufacturers=[maker[0].parsed])
    )

    assert not verdict.accepted
    assert "ek-chain-incomplete" in codes(verdict)


def test_attack_an_end_entity_certificate_signs_no_ek_certificate(maker):
    leaf_key = ecc_key()
    not_a_ca = Ca("leaf of another vendor", maker[0], key=leaf_key, ca=False, key_usage=False)

    verdict = judged((maker[0], not_a_ca), sent=[not_a_ca.der])

    assert "ek-chain-refused" in codes(verdict)


def test_attack_a_ca_whose_key_usage_forbids_signing_certificates_is_refused(maker):
    crl_only = Ca("CRL signer", maker[0], key_usage=False)

    assert not judged((maker[0], crl_only), sent=[crl_only.der]).accepted


def test_attack_a_ca_below_a_path_length_of_zero_is_refused(maker):
    below = Ca("one too many", maker[1])

    store = TrustStore.of(manufacturers=[maker[0].parsed], links=[maker[1].parsed])
    verdict = judged((maker[0], below), sent=[below.der], store=store)

    assert "ek-chain-refused" in codes(verdict)


def test_attack_a_ca_with_a_critical_extension_that_is_not_understood_is_refused(maker):
    odd = Ca("odd", maker[0], extra=[x509.UnrecognizedExtension(ObjectIdentifier("1.2.3.4"), b"\x05\x00")])

    assert not judged((maker[0], odd), sent=[odd.der]).accepted


def test_attack_a_ca_certificate_is_no_ek_certificate(maker):
    assert "ek-certificate-profile" in codes(judged(maker, ca=True))


def test_attack_a_certificate_for_another_usage_is_no_ek_certificate(maker):
    assert "ek-certificate-profile" in codes(judged(maker, eku="2.23.133.8.3"))


def test_a_certificate_that_names_no_tpm_is_a_warning_and_refused_where_manufacturers_are_narrowed(maker):
    verdict = judged(maker, manufacturer="")

    assert verdict.accepted
    assert codes(verdict) == {"ek-certificate-tpm-unnamed"}
    narrowed = judged(maker, manufacturer="", rules=EndorsementRules(manufacturers=("INTC",)))
    assert found.ManufacturerNotAllowed("an unnamed manufacturer", ("INTC",)) in narrowed.findings


@pytest.mark.parametrize("depth", [6, 30])
def test_attack_a_chain_that_is_too_deep_is_refused(depth):
    chain = [Ca("root")]
    for number in range(depth):
        chain.append(Ca(f"CA {number}", chain[-1]))

    verdict = judged(
        (chain[0], chain[-1]),
        sent=[ca.der for ca in reversed(chain[1:])],
        store=TrustStore.of(manufacturers=[chain[0].parsed]),
    )

    assert not verdict.accepted


def test_attack_a_chain_that_runs_in_a_circle_ends(maker):
    one = Ca("one")
    two = Ca("two", one)
    back = Ca("one", two, key=one.key)

    verdict = judged(
        (maker[0], one), sent=[two.der, back.der, one.der], store=TrustStore.of(manufacturers=[maker[0].parsed])
    )

    assert not verdict.accepted


def test_attack_many_candidates_of_one_name_cost_a_bounded_number_of_signatures(maker, monkeypatch):
    from fleetd.core.attestation import chain

    tried = []
    real = chain.is_signed_by
    monkeypatch.setattr(chain, "is_signed_by", lambda *pair: tried.append(pair) or real(*pair))
    crowd = [Ca("Crowd") for _ in range(100)]

    verdict = judged(
        (maker[0], crowd[0]),
        sent=[ca.der for ca in crowd],
        aki=False,
        store=TrustStore.of(links=[ca.parsed for ca in crowd]),
    )

    assert not verdict.accepted
    assert len(tried) <= chain.MAX_STEPS


@pytest.mark.parametrize("exponent", [1, 3, 5, 65536])
def test_attack_a_small_rsa_exponent_is_refused(exponent):
    public = parse_public(rsa_ek(rsa_key().public_key().public_numbers().n, exponent=exponent))

    assert [finding.code for finding in judge_public_area(public)] == ["key-malformed"]


def test_attack_a_short_or_even_modulus_is_refused():
    number = rsa_key().public_key().public_numbers().n
    short = parse_public(rsa_ek(number >> 1024, key_bits=1024))
    even = parse_public(rsa_ek(number - 1))
    lying = parse_public(rsa_ek(number >> 8))

    assert all(judge_public_area(public) for public in (short, even, lying))


def test_attack_a_point_off_its_curve_is_refused():
    numbers = ecc_key().public_key().public_numbers()
    raw = ecc_ek(numbers)
    moved = parse_public(raw[:-1] + bytes([raw[-1] ^ 1]))

    with pytest.raises(MalformedStructure, match="curve"):
        moved.to_public_key()
    assert judge_public_area(moved) == (found.KeyMalformed("endorsement key", "the point is not on its curve"),)


@pytest.mark.parametrize(
    "surplus", [Attribute.SIGN, Attribute.NO_DA, Attribute.ST_CLEAR, Attribute.ENCRYPTED_DUPLICATION]
)
def test_attack_an_ek_with_an_attribute_too_many_is_refused(surplus):
    public = parse_public(ecc_ek(ecc_key().public_key(), attributes=EK_ATTRIBUTES | surplus))

    assert [finding.code for finding in judge_public_area(public)] == ["ek-template"]


@pytest.mark.parametrize(
    "missing",
    [
        Attribute.FIXED_TPM,
        Attribute.FIXED_PARENT,
        Attribute.SENSITIVE_DATA_ORIGIN,
        Attribute.ADMIN_WITH_POLICY,
        Attribute.RESTRICTED,
        Attribute.DECRYPT,
    ],
)
def test_attack_an_ek_that_lacks_an_attribute_is_refused(missing):
    public = parse_public(ecc_ek(ecc_key().public_key(), attributes=EK_ATTRIBUTES & ~missing))

    assert judge_public_area(public)


def bent(**parameters):
    """The public area of an EK whose parameters differ from the template's."""
    public = parse_public(ecc_ek(ecc_key().public_key()))
    return replace(public, parameters=replace(public.parameters, **parameters))


CBC, SIGNS = 0x0042, Scheme(Algorithm.ECDSA, Algorithm.SHA256)
UNPROTECTED = "it does not protect credentials with AES-CFB"


@pytest.mark.parametrize(
    ("public", "problem"),
    [
        (parse_public(ecc_ek(ecc_key().public_key(), policy=bytes(32))), "its policy is none of the TCG's"),
        (
            parse_public(
                ecc_ek(ecc_key().public_key(), attributes=EK_ATTRIBUTES ^ Attribute.FIXED_TPM ^ Attribute.SIGN)
            ),
            "attributes missing 0x2, not allowed 0x40000",
        ),
        (bent(symmetric=None), UNPROTECTED),
        (bent(symmetric=SymmetricParameters(Algorithm.AES, 128, CBC)), UNPROTECTED),
        (bent(symmetric=SymmetricParameters(Algorithm.AES, 193, Algorithm.CFB)), UNPROTECTED),
        (bent(scheme=SIGNS), "it has a scheme of its own"),
        (bent(kdf=SIGNS), "it has a key derivation of its own"),
    ],
    ids=["policy", "attributes", "no cipher", "CBC", "AES-193", "scheme", "KDF"],
)
def test_attack_a_key_of_another_template_is_refused_in_words(public, problem):
    assert judge_public_area(public) == (found.EndorsementTemplateUnknown(problem),)


@pytest.mark.parametrize("bits", [128, 192, 256])
def test_an_ek_may_protect_with_every_size_of_aes(bits):
    assert judge_public_area(bent(symmetric=SymmetricParameters(Algorithm.AES, bits, Algorithm.CFB))) == ()


CRITICAL = [(x509.UnrecognizedExtension(ObjectIdentifier(f"1.2.3.{last}"), b"\x05\x00"), True) for last in (4, 5)]


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ({"ca": True}, "it is a CA's"),
        ({"eku": "2.23.133.8.3"}, "its extended key usage is 2.23.133.8.3, not 2.23.133.8.1"),
        (
            {
                "eku": "",
                "extra": [(x509.ExtendedKeyUsage([ObjectIdentifier("1.2.3"), ObjectIdentifier("1.2.4")]), True)],
            },
            "its extended key usage is 1.2.3, 1.2.4, not 2.23.133.8.1",
        ),
        ({"extra": CRITICAL}, "it has critical extensions that are not understood: 1.2.3.4, 1.2.3.5"),
    ],
    ids=["CA", "usage", "usages", "critical"],
)
def test_attack_a_certificate_of_another_profile_is_refused_in_words(maker, shape, problem):
    verdict = judged(maker, **shape)

    assert not verdict.accepted
    assert [each for each in verdict.findings if each.severity is Severity.REFUSES] == [found.CertificateUnfit(problem)]


def test_attack_an_ek_with_another_policy_is_refused():
    assert judge_public_area(parse_public(ecc_ek(ecc_key().public_key(), policy=b"\x01" * 32)))
    assert judge_public_area(parse_public(ecc_ek(ecc_key().public_key(), policy=b"")))


def test_attack_a_certificate_signed_with_sha_1_today_is_refused(maker):
    key = rsa_key(name="sha1 CA")
    old = Ca("SHA-1 CA", maker[0], key=key)

    ek = ecc_key()

    def verdict(since):
        der = signed_with_sha_1(ek_certificate(old, ek.public_key(), since=since), key)
        return judged((maker[0], old), key=ek, certificate=der, sent=[old.der])

    fresh, aged = verdict(datetime(2025, 1, 1, tzinfo=UTC)), verdict(datetime(2015, 1, 1, tzinfo=UTC))

    assert "ek-chain-refused" in codes(fresh)
    assert aged.accepted
    assert "ek-chain-sha1" in codes(aged)


def test_attack_a_revoked_certificate_is_refused_and_a_forged_list_changes_nothing(maker):
    key = ecc_key()
    der = ek_certificate(maker[1], key.public_key())
    serial = int.from_bytes(parse_certificate(der).serial)

    def verdict(listed):
        return judged(
            maker,
            key=key,
            certificate=der,
            store=TrustStore.of(manufacturers=[maker[0].parsed], links=[maker[1].parsed], lists=[listed]),
        )

    assert "ek-certificate-revoked" in codes(verdict(revocation_list(maker[1], serial)))
    assert verdict(revocation_list(maker[1], serial, key=ecc_key())).accepted


def test_a_class_may_narrow_the_manufacturers(maker):
    assert judged(maker, rules=EndorsementRules(manufacturers=("INTC",))).accepted
    assert judged(maker, rules=EndorsementRules(manufacturers=("id:494E5443",))).accepted
    assert judged(maker, rules=EndorsementRules(manufacturers=("STM", "IFX"))).findings == (
        found.ManufacturerNotAllowed("INTC", ("STM", "IFX")),
    )


def test_a_modulus_of_the_broken_generator_is_recognised_and_a_random_one_is_not():
    product = 1
    for prime in (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89, 97, 101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151, 157, 163, 167):  # fmt: skip
        product *= prime
    weak = (12345 * product + pow(65537, 777, product)) * (54321 * product + pow(65537, 999, product))

    assert has_roca_fingerprint(weak)
    assert not has_roca_fingerprint(rsa_key().public_key().public_numbers().n)


def roca_modulus(bits=2048):
    """A modulus with the fingerprint: one modulo each of the primes that the broken generator gives away."""
    product = 2
    for prime in (11, 13, 17, 19, 37, 53, 61, 71, 73, 79, 97, 103, 107, 109, 127, 151, 157):
        product *= prime
    return ((1 << (bits - 1)) // product + 1) * product + 1


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        (rsa.RSAPublicNumbers(65537, roca_modulus()).public_key(), ""),
        (
            rsa.RSAPublicNumbers(3, rsa_key().public_key().public_numbers().n).public_key(),
            "RSA of 2048 bits with exponent 3",
        ),
        (rsa.RSAPublicNumbers(65537, (1 << 1023) + 1155).public_key(), "RSA of 1024 bits with exponent 65537"),
        (rsa.RSAPublicNumbers(65537, (1 << 2047) + 2).public_key(), "RSA of 2048 bits with exponent 65537"),
        (ec.generate_private_key(ec.SECP256K1()).public_key(), "no TPM has keys on curve secp256k1"),
    ],
    ids=["ROCA", "e=3", "1024 bits", "even", "curve"],
)
def test_attack_a_certificate_of_a_weak_key_is_refused_without_its_public_area_too(maker, key, problem):
    certificate = parse_certificate(ek_certificate(maker[1], key))
    store = TrustStore.of(manufacturers=[maker[0].parsed], links=[maker[1].parsed])

    path, findings = judge_certificate_alone(certificate, store, NOW)

    assert len(path) == 3
    assert [finding for finding in findings if finding.severity is Severity.REFUSES] == [
        found.KeyMalformed("endorsement key", problem) if problem else found.FactorableKey()
    ]


def test_a_verdict_says_nothing_that_would_help_a_forger(maker):
    verdict = judged(maker, public=ecc_ek(ecc_key().public_key(), policy=b"\x01" * 32))
    words = " ".join(finding.sentence() for finding in verdict.findings)

    assert "8371976744" not in words


@pytest.mark.parametrize(
    "data", [b"", b"0", b"\x30\x80", b"\x30\x84\xff\xff\xff\xff", b"{", b'{"certificate": 7}', b"\xff" * 100]
)
def test_bytes_that_are_no_certificate_are_refused_in_words(data):
    with pytest.raises(MalformedStructure):
        extract_certificate(data)
