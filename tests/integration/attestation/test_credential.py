"""A TPM opens what `make_credential` wraps, and nobody else does."""

from datetime import UTC, datetime

import pytest
from tpm2_pytss import ESAPI, TSS2_Exception
from tpm2_pytss.constants import ESYS_TR, TPM2_ALG, TPM2_SE
from tpm2_pytss.types import (
    TPM2B_ENCRYPTED_SECRET,
    TPM2B_ID_OBJECT,
    TPM2B_PUBLIC,
    TPM2B_SENSITIVE_CREATE,
    TPMT_PUBLIC,
    TPMT_SYM_DEF,
)
from tpm2_pytss.utils import NVReadEK, create_ek_template

from fleetd.core.attestation.certificate import extract_certificate, parse_certificate
from fleetd.core.attestation.credential import make_credential
from fleetd.core.attestation.endorsement import (
    POLICIES,
    CertificateRule,
    ChainStatus,
    EndorsementRules,
    OfferedKey,
    judge_endorsement_key,
    judge_public_area,
)
from fleetd.core.attestation.roots import TrustStore
from fleetd.core.attestation.structures import (
    Algorithm,
    Attribute,
    Curve,
    EccParameters,
    EccPoint,
    RsaParameters,
    Scheme,
    SymmetricParameters,
    marshal_public,
    parse_public,
)
from fleetd.host import SystemRandom
from tests.swtpm import start_swtpm
from tests.unit.attestation.maker import EK_ATTRIBUTES

SECRET = b"an activation secret of 32 bytes"


@pytest.fixture(scope="module")
def tpm(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tpm")
    with start_swtpm(folder) as running, ESAPI(running.tcti) as esys:
        yield esys, folder


def make_ek(esys, name):
    _, template = create_ek_template(name, NVReadEK(esys))
    handle, public, _, _, _ = esys.create_primary(TPM2B_SENSITIVE_CREATE(), template, ESYS_TR.ENDORSEMENT)
    return handle, public.publicArea.marshal()


def make_signing_key(esys):
    public = TPM2B_PUBLIC.parse(
        "ecc:ecdsa-sha256:null", "fixedtpm|fixedparent|sensitivedataorigin|userwithauth|restricted|sign|noda"
    )
    handle, out, _, _, _ = esys.create_primary(TPM2B_SENSITIVE_CREATE(), public, ESYS_TR.ENDORSEMENT)
    return handle, out.publicArea.marshal()


def activate(esys, signing, ek, credential):
    session = esys.start_auth_session(
        tpm_key=ESYS_TR.NONE,
        bind=ESYS_TR.NONE,
        session_type=TPM2_SE.POLICY,
        symmetric=TPMT_SYM_DEF(algorithm=TPM2_ALG.NULL),
        auth_hash=TPM2_ALG.SHA256,
    )
    try:
        esys.policy_secret(ESYS_TR.ENDORSEMENT, session, b"", b"", b"", 0)
        blob, _ = TPM2B_ID_OBJECT.unmarshal(credential.blob)
        secret, _ = TPM2B_ENCRYPTED_SECRET.unmarshal(credential.secret)
        return bytes(esys.activate_credential(signing, ek, blob, secret, session2=session))
    finally:
        esys.flush_context(session)


@pytest.mark.parametrize("template", ["EK-RSA2048", "EK-ECC256"])
def test_the_tpm_of_the_ek_recovers_the_secret_for_the_named_key(tpm, template):
    esys, _ = tpm
    ek, ek_public = make_ek(esys, template)
    signing, signing_public = make_signing_key(esys)
    try:
        credential = make_credential(
            parse_public(ek_public), parse_public(signing_public).name(), SECRET, SystemRandom()
        )

        assert activate(esys, signing, ek, credential) == SECRET
    finally:
        esys.flush_context(ek)
        esys.flush_context(signing)


def high_range_template(kind, name_alg):
    """The templates H-1 to H-5 of the TCG EK Credential Profile, annex B.4, with an empty `unique`."""
    symmetric = SymmetricParameters(Algorithm.AES, 128 if name_alg is Algorithm.SHA256 else 256, Algorithm.CFB)
    none = Scheme(Algorithm.NULL)
    rsa = not isinstance(kind, Curve)
    # B.4 uses PolicyB of the name algorithm; of the two for SHA-256 that is the one which starts with ca3d.
    policy = next(each for each in POLICIES[name_alg] if name_alg is not Algorithm.SHA256 or each[:2] == b"\xca\x3d")
    public = marshal_public(
        Algorithm.RSA if rsa else Algorithm.ECC,
        EK_ATTRIBUTES | Attribute.USER_WITH_AUTH,
        RsaParameters(symmetric, none, kind, 0) if rsa else EccParameters(symmetric, none, kind, none),
        b"" if rsa else EccPoint(b"", b""),
        name_alg=name_alg,
        auth_policy=policy,
    )
    return TPM2B_PUBLIC(TPMT_PUBLIC.unmarshal(public)[0])


@pytest.mark.parametrize(
    ("kind", "name_alg"),
    [
        (2048, Algorithm.SHA256),
        (3072, Algorithm.SHA384),
        (4096, Algorithm.SHA512),
        (Curve.P256, Algorithm.SHA256),
        (Curve.P384, Algorithm.SHA384),
        (Curve.P521, Algorithm.SHA512),
    ],
)
def test_the_high_range_keys_that_a_tpm_can_make_recover_their_secret_and_have_the_tcgs_form(tpm, kind, name_alg):
    esys, _ = tpm
    try:
        ek, made, _, _, _ = esys.create_primary(
            TPM2B_SENSITIVE_CREATE(), high_range_template(kind, name_alg), ESYS_TR.ENDORSEMENT
        )
    except TSS2_Exception as error:
        pytest.skip(f"this TPM makes no such keys: {error}")
    ek_public = made.publicArea.marshal()
    signing, signing_public = make_signing_key(esys)
    try:
        assert judge_public_area(parse_public(ek_public)) == ()
        assert bytes(ek.get_name(esys)) == parse_public(ek_public).name()
        credential = make_credential(
            parse_public(ek_public), parse_public(signing_public).name(), SECRET, SystemRandom()
        )
        blob, _ = TPM2B_ID_OBJECT.unmarshal(credential.blob)
        secret, _ = TPM2B_ENCRYPTED_SECRET.unmarshal(credential.secret)

        # High-range keys are used with their (empty) authorization value: userWithAuth is set.
        assert bytes(esys.activate_credential(signing, ek, blob, secret)) == SECRET
    finally:
        esys.flush_context(ek)
        esys.flush_context(signing)


def test_a_credential_for_another_key_is_refused_by_the_tpm(tpm):
    esys, _ = tpm
    ek, ek_public = make_ek(esys, "EK-ECC256")
    signing, _ = make_signing_key(esys)
    try:
        other = parse_public(ek_public).name()
        credential = make_credential(parse_public(ek_public), other, SECRET, SystemRandom())

        with pytest.raises(TSS2_Exception):
            activate(esys, signing, ek, credential)
    finally:
        esys.flush_context(ek)
        esys.flush_context(signing)


def test_the_name_of_a_key_is_what_the_tpm_says(tpm):
    esys, _ = tpm
    handle, public = make_signing_key(esys)
    try:
        assert bytes(handle.get_name(esys)) == parse_public(public).name()
    finally:
        esys.flush_context(handle)


def test_an_ek_with_a_certificate_of_the_owners_root_is_accepted_and_said_to_be_no_manufacturers(tpm):
    esys, folder = tpm
    ek, public = make_ek(esys, "EK-RSA2048")
    esys.flush_context(ek)
    certificate = bytes(NVReadEK(esys)(0x01C00002))
    root = folder / "ca" / "swtpm-localca-rootca-cert.pem"
    issuer = folder / "ca" / "issuercert.pem"
    owners = [parse_certificate(extract_certificate(file.read_bytes())) for file in (root, issuer) if file.exists()]

    verdict = judge_endorsement_key(
        OfferedKey(public, certificate),
        TrustStore.of(owners=owners),
        EndorsementRules(CertificateRule.REQUIRED),
        datetime.now(UTC),
    )

    assert verdict.accepted, [finding.sentence() for finding in verdict.findings]
    assert verdict.status is ChainStatus.OWNER
    assert [finding.code for finding in verdict.findings] == ["ek-root-owner"]


def test_quirk_13_a_tpm_whose_endorsement_seed_was_changed_is_another_one_and_its_certificate_is_of_no_use(tmp_path):
    with start_swtpm(tmp_path) as running, ESAPI(running.tcti) as esys:
        certificate = bytes(NVReadEK(esys)(0x01C00002))
        before, public_before = make_ek(esys, "EK-RSA2048")
        esys.flush_context(before)
        esys.change_eps(ESYS_TR.PLATFORM)
        after, public = make_ek(esys, "EK-RSA2048")
        esys.flush_context(after)

    verdict = judge_endorsement_key(
        OfferedKey(public, certificate), TrustStore.of(), EndorsementRules(), datetime.now(UTC)
    )

    assert verdict.name != parse_public(public_before).name()
    assert "ek-certificate-key" in {finding.code for finding in verdict.findings}
    assert not verdict.accepted


def test_an_ek_without_a_known_root_is_refused(tpm):
    esys, _ = tpm
    ek, public = make_ek(esys, "EK-RSA2048")
    esys.flush_context(ek)
    certificate = bytes(NVReadEK(esys)(0x01C00002))

    verdict = judge_endorsement_key(
        OfferedKey(public, certificate), TrustStore.of(), EndorsementRules(), datetime.now(UTC)
    )

    assert not verdict.accepted
    assert verdict.status is ChainStatus.UNVERIFIED


def test_the_p_384_key_of_the_high_range_follows_its_template(tpm):
    esys, _ = tpm
    certificate = parse_certificate(extract_certificate(bytes(NVReadEK(esys)(0x01C00016))))

    assert certificate.public_key.curve.name == "secp384r1"
