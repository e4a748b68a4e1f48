"""Every certificate field by field, against IEEE 802.1AR, TCG, RFC 4043, 4108 and 5280, and as strict OpenSSL reads it."""

import subprocess
from datetime import timedelta
from hashlib import sha1

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.oid import ExtensionOID as X

from fleetd.ca.revoking import sign_root_list
from fleetd.ca.tree import keep_server_certificate, new_serial
from fleetd.core.certificates.lint import compare_result, lint_request
from fleetd.core.certificates.profile import (
    BACKDATED,
    ISSUER_OF,
    DeviceRequest,
    Kind,
    Tier,
    TpmIdentity,
    device_builder,
    hardware_serial,
)
from fleetd.host import SystemRandom
from tests.unit.certificates.conftest import URL

TPM = TpmIdentity("id:494E4643", "SLB9670", "id:000D000D", bytes.fromhex("aabb"), bytes.fromhex("0102"))
HW_SERIAL = "id:494E4643:aabb:0102"


def a_request(kind, clock, **changes):
    values = {
        "kind": kind,
        "node_name": "node-7",
        "device_serial": "SN7",
        "tpm": TPM,
        "key": ec.generate_private_key(ec.SECP256R1()).public_key(),
        "not_before": clock.now() - BACKDATED,
        "not_after": clock.now() + timedelta(days=365),
        "serial": new_serial(SystemRandom()),
        "crl_url": f"{URL}/v1/crl/devid",
    }
    return DeviceRequest(**{**values, **changes})


def made_for(tree, request):
    issuer = tree.issuer(ISSUER_OF[request.kind])
    assert lint_request(request, issuer.certificate) == ()
    made = device_builder(request, issuer.certificate).sign(issuer.signer.private_key(), SHA256())
    parsed = x509.load_der_x509_certificate(made.public_bytes(Encoding.DER))
    assert compare_result(request, issuer.certificate, parsed) == ()
    return parsed


@pytest.fixture(params=list(Kind))
def request_of(request, clock):
    return a_request(request.param, clock)


@pytest.fixture
def made(tree, request_of):
    return made_for(tree, request_of)


def value(certificate, kind):
    return certificate.extensions.get_extension_for_class(kind).value


def critical(certificate):
    return {extension.oid for extension in certificate.extensions if extension.critical}


def asn1(der):
    done = subprocess.run(["openssl", "asn1parse", "-inform", "DER"], input=der, capture_output=True, check=True)
    return [" ".join(line.split(": ", 1)[1].split()) for line in done.stdout.decode().splitlines()]


def key_id(certificate):
    """RFC 5280, 4.2.1.2, method 1: SHA-1 of the BIT STRING subjectPublicKey."""
    public = certificate.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return sha1(public, usedforsecurity=False).digest()


def test_a_device_certificate_is_of_version_3_with_a_positive_serial_of_at_most_20_octets(made, request_of):
    assert made.version is x509.Version.v3
    assert made.serial_number == request_of.serial
    assert 0 < made.serial_number.bit_length() <= 159
    assert made.signature_hash_algorithm.name == "sha256"


def test_a_device_certificate_names_its_issuer_and_both_keys(made, tree, request_of):
    issuer = tree.certificate(ISSUER_OF[request_of.kind])

    assert made.issuer.public_bytes() == issuer.subject.public_bytes()
    assert value(made, x509.SubjectKeyIdentifier).digest == key_id(made)
    authority = value(made, x509.AuthorityKeyIdentifier)
    assert authority.key_identifier == key_id(issuer)
    assert authority.authority_cert_issuer is None


def test_a_device_certificate_is_in_force_from_a_minute_ago_for_the_lifetime_of_its_class(made, clock):
    assert made.not_valid_before_utc == clock.now() - timedelta(minutes=1)
    assert made.not_valid_after_utc == clock.now() + timedelta(days=365)


def test_a_device_certificate_has_these_extensions_and_no_other_is_critical_than_a_name_without_subject(
    made, request_of
):
    assert {extension.oid for extension in made.extensions} == {
        X.SUBJECT_KEY_IDENTIFIER, X.AUTHORITY_KEY_IDENTIFIER, X.SUBJECT_ALTERNATIVE_NAME, X.KEY_USAGE,
        X.EXTENDED_KEY_USAGE, X.CERTIFICATE_POLICIES, X.CRL_DISTRIBUTION_POINTS,
    }  # fmt: skip
    # RFC 5280, 4.2.1.6: critical where the subject is empty.
    assert critical(made) == ({X.SUBJECT_ALTERNATIVE_NAME} if request_of.kind is Kind.LAK else set())


def test_a_device_key_signs_and_does_nothing_else(made):
    usage = value(made, x509.KeyUsage)

    assert usage.digital_signature
    assert not any(
        (usage.content_commitment, usage.key_encipherment, usage.data_encipherment, usage.key_agreement,
         usage.key_cert_sign, usage.crl_sign)
    )  # fmt: skip


def test_a_device_certificate_tells_where_its_list_is(made):
    (point,) = value(made, x509.CRLDistributionPoints)

    assert [name.value for name in point.full_name] == [f"{URL}/v1/crl/devid"]
    assert (point.reasons, point.crl_issuer) == (None, None)


def test_an_ldevid_names_node_and_device_as_ieee_802_1ar_wants_it(tree, clock):
    made = made_for(tree, a_request(Kind.LDEVID, clock))

    assert [(each.oid, each.value) for each in made.subject] == [
        (NameOID.COMMON_NAME, "node-7"),
        (NameOID.SERIAL_NUMBER, "SN7"),
    ]
    assert list(value(made, x509.ExtendedKeyUsage)) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    policies = [policy.policy_identifier.dotted_string for policy in value(made, x509.CertificatePolicies)]
    assert policies == ["2.23.133.11.1.1", "2.23.133.11.1.2"]


def test_an_ldevid_names_its_tpm_as_hardware_module_and_as_permanent_identifier(tree, clock):
    made = made_for(tree, a_request(Kind.LDEVID, clock))
    names = {name.type_id.dotted_string: name.value for name in value(made, x509.SubjectAlternativeName)}

    assert hardware_serial(TPM) == HW_SERIAL
    # RFC 4108, 5: HardwareModuleName ::= SEQUENCE { hwType OBJECT IDENTIFIER, hwSerialNum OCTET STRING }
    assert asn1(names.pop("1.3.6.1.5.5.7.8.4")) == [
        "SEQUENCE", "OBJECT :2.23.133.1.2", f"OCTET STRING :{HW_SERIAL}",
    ]  # fmt: skip
    # RFC 4043, 2: PermanentIdentifier ::= SEQUENCE { identifierValue UTF8String, assigner OBJECT IDENTIFIER }
    assert asn1(names.pop("1.3.6.1.5.5.7.8.3")) == ["SEQUENCE", f"UTF8STRING :{HW_SERIAL}", "OBJECT :2.23.133.1.2"]
    assert names == {}


def test_an_ldevid_of_a_device_without_serial_has_none_and_a_long_one_is_cut_at_64(tree, clock):
    """RFC 5280, A.1: ub-serial-number is 64."""
    without = made_for(tree, a_request(Kind.LDEVID, clock, device_serial=""))
    long = made_for(tree, a_request(Kind.LDEVID, clock, device_serial="S" * 80))

    assert not without.subject.get_attributes_for_oid(NameOID.SERIAL_NUMBER)
    assert long.subject.get_attributes_for_oid(NameOID.SERIAL_NUMBER)[0].value == "S" * 64


@pytest.mark.parametrize(
    ("serial", "kept", "tag"),
    [
        ("CZ-12/3 (4)", "CZ-12/3 (4)", "PrintableString"),
        ("System_Serial#1", "System_Serial#1", "UTF8String"),
        ("x,CN=admin", "x,CN=admin", "PrintableString"),
        ("série*", "série*", "UTF8String"),
        ("é" * 40, "é" * 32, "UTF8String"),
        ("S" * 63 + "é", "S" * 63, "PrintableString"),
    ],
)
def test_any_serial_that_a_maker_prints_is_certified_as_it_is(tree, clock, serial, kept, tag):
    issuer = tree.issuer(Tier.DEVID)
    request = a_request(Kind.LDEVID, clock, device_serial=serial)

    assert not lint_request(request, issuer.certificate)
    made = device_builder(request, issuer.certificate).sign(issuer.signer.private_key(), SHA256())
    parsed = x509.load_der_x509_certificate(made.public_bytes(Encoding.DER))

    assert not compare_result(request, issuer.certificate, parsed)
    (found,) = parsed.subject.get_attributes_for_oid(NameOID.SERIAL_NUMBER)
    assert (found.value, found._type.name) == (kept, tag)
    assert len(list(parsed.subject)) == 2


@pytest.mark.parametrize("octets", [40, 64, 100, 300])
def test_a_tpm_is_named_in_der_however_long_its_names_are(tree, clock, octets):
    issuer = tree.issuer(Tier.DEVID)
    tpm = TpmIdentity("INTC", "", "", bytes(octets), b"\1")

    made = device_builder(a_request(Kind.LDEVID, clock, tpm=tpm), issuer.certificate).sign(
        issuer.signer.private_key(), SHA256()
    )

    names = made.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert all(f"INTC:{'00' * octets}:01".encode() in name.value for name in names)


def test_a_lak_certificate_names_no_subject_and_its_tpm_as_the_tcg_wants_it(tree, clock):
    """TCG EK Credential Profile, 3.2.9: manufacturer, model and version as a directoryName."""
    made = made_for(tree, a_request(Kind.LAK, clock))

    assert list(made.subject) == []
    (name,) = value(made, x509.SubjectAlternativeName)
    assert [(each.oid.dotted_string, each.value) for each in name.value] == [
        ("2.23.133.2.1", "id:494E4643"),
        ("2.23.133.2.2", "SLB9670"),
        ("2.23.133.2.3", "id:000D000D"),
    ]
    assert [usage.dotted_string for usage in value(made, x509.ExtendedKeyUsage)] == ["2.23.133.8.3"]
    policies = [policy.policy_identifier.dotted_string for policy in value(made, x509.CertificatePolicies)]
    assert policies == ["2.23.133.11.1.1", "2.23.133.11.1.3"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"key": rsa.generate_private_key(65537, 1024).public_key()}, "neither P-256"),
        ({"key": ec.generate_private_key(ec.SECP521R1()).public_key()}, "neither P-256"),
        ({"node_name": ""}, "needs the node's name"),
        ({"node_name": "n" * 65}, "longer than the 64 octets"),
        ({"node_name": "é" * 33}, "longer than the 64 octets"),
        ({"node_name": "node\0.example.org"}, "control character"),
        ({"device_serial": "SN\n7"}, "control character"),
        ({"device_serial": "\ud800"}, "control character"),
        ({"serial": 0}, "not positive"),
        ({"serial": 1 << 160}, "longer than 20 bytes"),
        ({"crl_url": ""}, "no place of the revocation list"),
        ({"tpm": TpmIdentity("", "", "", b"", b"")}, "manufacturer is unknown"),
    ],
)
def test_a_request_that_breaks_its_profile_is_refused_before_anything_is_signed(tree, clock, changes, words):
    problems = lint_request(a_request(Kind.LDEVID, clock, **changes), tree.certificate(Tier.DEVID))

    assert any(words in problem for problem in problems)


@pytest.mark.parametrize(("by", "words"), [({"days": -2}, "is in force from"), ({"days": 365 * 6}, "is in force from")])
def test_a_request_outside_the_issuers_time_is_refused(tree, clock, by, words):
    clock.step(**by)

    assert any(words in problem for problem in lint_request(a_request(Kind.LAK, clock), tree.certificate(Tier.AK)))


@pytest.mark.parametrize("change", ["serial", "key", "not_before", "not_after", "kind", "issuer"])
def test_a_certificate_that_came_out_otherwise_than_it_was_asked_for_is_noticed(tree, clock, change):
    wanted = a_request(Kind.LDEVID, clock)
    other = a_request(Kind.LAK if change == "kind" else Kind.LDEVID, clock, serial=wanted.serial, key=wanted.key)
    for name in {change} & {"serial", "key"}:
        other = a_request(Kind.LDEVID, clock, **{"serial": wanted.serial, "key": wanted.key} | {name: getattr(a_request(Kind.LDEVID, clock), name)})  # fmt: skip
    if change in {"not_before", "not_after"}:
        moved = {change: getattr(wanted, change) + timedelta(days=1)}
        other = a_request(Kind.LDEVID, clock, serial=wanted.serial, key=wanted.key, **moved)
    issuer = tree.issuer(Tier.AK if change == "issuer" else Tier.DEVID)
    made = device_builder(other, issuer.certificate).sign(issuer.signer.private_key(), SHA256())

    assert compare_result(wanted, tree.certificate(Tier.DEVID), made)


def test_every_authority_may_sign_certificates_and_lists_and_nothing_else(tree):
    root = tree.certificate(Tier.ROOT)
    for tier in Tier:
        made = tree.certificate(tier)
        basic, usage = value(made, x509.BasicConstraints), value(made, x509.KeyUsage)
        assert (basic.ca, basic.path_length) == (True, None if tier is Tier.ROOT else 0)
        assert (usage.key_cert_sign, usage.crl_sign, usage.digital_signature) == (True, True, False)
        assert critical(made) == {X.BASIC_CONSTRAINTS, X.KEY_USAGE}
        assert value(made, x509.SubjectKeyIdentifier).digest == key_id(made)
        assert made.issuer == root.subject
        assert made.signature_hash_algorithm.name == "sha384"
        assert made.not_valid_after_utc <= root.not_valid_after_utc
        made.verify_directly_issued_by(root)
    assert len({tree.certificate(tier).subject for tier in Tier}) == len(Tier)


def test_fleetds_own_certificate_serves_tls_under_its_names_for_90_days(tree, clock):
    keep_server_certificate(tree, ["fleetd.example.org", "192.0.2.7", "[2001:db8::7]"], clock.now(), SystemRandom())
    made, issuer = x509.load_pem_x509_certificates(tree.server_files[0].read_bytes())

    names = value(made, x509.SubjectAlternativeName)
    assert names.get_values_for_type(x509.DNSName) == ["fleetd.example.org"]
    assert [str(each) for each in names.get_values_for_type(x509.IPAddress)] == ["192.0.2.7", "2001:db8::7"]
    assert list(value(made, x509.ExtendedKeyUsage)) == [ExtendedKeyUsageOID.SERVER_AUTH]
    assert critical(made) == {X.KEY_USAGE}
    assert made.not_valid_after_utc == clock.now() + timedelta(days=90)
    assert issuer == tree.certificate(Tier.SERVER)


def test_the_roots_list_is_of_version_2_with_a_number_and_its_key(tree, clock):
    """RFC 5280, 5: nextUpdate, CRLNumber and AuthorityKeyIdentifier are not optional for a conforming issuer."""
    listed = x509.load_der_x509_crl(sign_root_list(tree, clock.now()))

    assert listed.is_signature_valid(tree.certificate(Tier.ROOT).public_key())
    assert isinstance(listed.signature_hash_algorithm, SHA384)
    assert listed.next_update_utc == clock.now() + timedelta(days=365)
    assert not listed.extensions.get_extension_for_class(x509.CRLNumber).critical
    assert value(listed, x509.AuthorityKeyIdentifier).key_identifier == key_id(tree.certificate(Tier.ROOT))


@pytest.mark.parametrize("which", ["ldevid", "lak", "server"])
def test_strict_openssl_verifies_every_certificate(tree, clock, tmp_path, which):
    keep_server_certificate(tree, ["fleetd.example.org"], clock.now(), SystemRandom())
    if which == "server":
        leaf, tier = x509.load_pem_x509_certificate(tree.server_files[0].read_bytes()), Tier.SERVER
    else:
        leaf, tier = made_for(tree, a_request(Kind(which), clock)), ISSUER_OF[Kind(which)]
    (tmp_path / "leaf.pem").write_bytes(leaf.public_bytes(Encoding.PEM))
    purpose = {"ldevid": ["-purpose", "sslclient"], "server": ["-purpose", "sslserver"], "lak": []}[which]
    done = subprocess.run(
        ["openssl", "verify", "-x509_strict", *purpose, "-attime", str(int(clock.now().timestamp())),
         "-CAfile", str(tree.directory / "root.pem"), "-untrusted", str(tree.directory / f"{tier}.pem"),
         str(tmp_path / "leaf.pem")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stdout + done.stderr
