"""Real quotes of a software TPM, made with each algorithm: fleetd, tpm2-tools and tpm2-pytss agree on all of them."""

import hashlib
import re
import subprocess

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tpm2_pytss import ESAPI
from tpm2_pytss.constants import ESYS_TR, TPM2_ALG, TPM2_ST
from tpm2_pytss.types import (
    TPM2B_DATA,
    TPM2B_PUBLIC,
    TPM2B_SENSITIVE_CREATE,
    TPML_DIGEST_VALUES,
    TPML_PCR_SELECTION,
    TPMS_ATTEST,
    TPMT_HA,
    TPMT_PUBLIC,
    TPMT_SIG_SCHEME,
    TPMT_SIGNATURE,
    TPMU_HA,
)

from fleetd.core.attestation.attest import parse_attest, parse_quote_info, parse_signature
from fleetd.core.attestation.banks import Bank, PcrSelection
from fleetd.core.attestation.device_keys import LAK_ATTRIBUTES, LDEVID_ATTRIBUTES
from fleetd.core.attestation.eventlog.framing import parse_log
from fleetd.core.attestation.eventlog.replay import Trust, judge_log, replay
from fleetd.core.attestation.policy import (
    AllowedEvent,
    AllowRule,
    AttestationPolicy,
    InstallBoot,
    InstallPolicy,
)
from fleetd.core.attestation.quote import RawQuote, VerifiedQuote, verify_quote
from fleetd.core.attestation.structures import (
    Algorithm,
    Attribute,
    Curve,
    EccParameters,
    EccPoint,
    MalformedStructure,
    RsaParameters,
    Scheme,
    SymmetricParameters,
    marshal_public,
    parse_public,
)
from fleetd.core.attestation.transcript import Label, Transcript, extra_data
from fleetd.core.attestation.verdict import EnrollmentEvidence, EnrollmentExpectation, verify_enrollment
from tests.swtpm import start_swtpm
from tests.unit.attestation.evidence import a_boot

pytestmark = pytest.mark.slow

SELECTION = PcrSelection.of(Bank.SHA256, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14)
NONCE, TRANSCRIPT = b"n" * 32, Transcript(b"t" * 32)
UNIQUE = hashlib.sha256(b"one provision run").digest()
ALGORITHMS = ["P-256", "P-384", "RSASSA", "RSAPSS"]
CHECKQUOTE = ["P-256", "P-384", "RSASSA"]
"""tpm2_checkquote takes every RSA signature for PKCS #1 v1.5."""


def public_of(algorithm, attributes, unique=b""):
    null = Scheme(Algorithm.NULL)
    if algorithm in {"P-256", "P-384"}:
        curve, hashed = {"P-256": (Curve.P256, Algorithm.SHA256), "P-384": (Curve.P384, Algorithm.SHA384)}[algorithm]
        parameters = EccParameters(None, Scheme(Algorithm.ECDSA, hashed), curve, null)
        return marshal_public(Algorithm.ECC, attributes, parameters, EccPoint(unique, b""))
    scheme = {"RSASSA": Algorithm.RSASSA, "RSAPSS": Algorithm.RSAPSS}[algorithm]
    return marshal_public(
        Algorithm.RSA, attributes, RsaParameters(None, Scheme(scheme, Algorithm.SHA256), 2048, 0), unique
    )


def storage_public():
    attributes = (
        Attribute.FIXED_TPM | Attribute.FIXED_PARENT | Attribute.SENSITIVE_DATA_ORIGIN
        | Attribute.USER_WITH_AUTH | Attribute.NO_DA | Attribute.RESTRICTED | Attribute.DECRYPT
    )  # fmt: skip
    null = Scheme(Algorithm.NULL)
    parameters = EccParameters(SymmetricParameters(Algorithm.AES, 128, Algorithm.CFB), null, Curve.P256, null)
    return marshal_public(Algorithm.ECC, attributes, parameters, EccPoint(b"", b""))


def create_primary(esys, hierarchy, area):
    template = TPM2B_PUBLIC(TPMT_PUBLIC.unmarshal(area)[0])
    handle, public, _, _, _ = esys.create_primary(TPM2B_SENSITIVE_CREATE(), template, hierarchy)
    return handle, bytes(public.publicArea.marshal())


class Machine:
    """A booted machine: firmware has measured, and the client has made its keys."""

    def __init__(self, esys, algorithm, hierarchy=ESYS_TR.ENDORSEMENT, attributes=LAK_ATTRIBUTES):
        self.esys = esys
        self.built = a_boot(banks=(Bank.SHA256,))
        for event in parse_log(self.built.bytes()).events:
            digest = TPMT_HA(hashAlg=TPM2_ALG.SHA256, digest=TPMU_HA(sha256=event.digests[0]))
            esys.pcr_extend(ESYS_TR.PCR0 + event.pcr, TPML_DIGEST_VALUES([digest]))
        self.lak, raw = create_primary(esys, hierarchy, public_of(algorithm, attributes, UNIQUE))
        self.public = parse_public(raw)

    def pcrs(self):
        values = {}
        for pcr in range(24):
            _, _, digests = self.esys.pcr_read(TPML_PCR_SELECTION.parse(f"sha256:{pcr}"))
            values[pcr] = bytes(digests[0])
        return {Bank.SHA256: values}

    def quote(self, asked, selection="sha256:0,1,2,3,4,5,6,7,8,9,11,12,13,14"):
        attest, signature = self.esys.quote(
            self.lak, TPML_PCR_SELECTION.parse(selection), TPM2B_DATA(asked), TPMT_SIG_SCHEME(scheme=TPM2_ALG.NULL)
        )
        return bytes(attest), bytes(signature.marshal())

    def ldevid(self):
        storage, _ = create_primary(self.esys, ESYS_TR.OWNER, storage_public())
        template = TPM2B_PUBLIC(TPMT_PUBLIC.unmarshal(public_of("P-256", LDEVID_ATTRIBUTES))[0])
        private, public, _, _, _ = self.esys.create(storage, TPM2B_SENSITIVE_CREATE(), template)
        handle = self.esys.load(storage, private, public)
        self.esys.flush_context(storage)
        return handle, bytes(public.publicArea.marshal())

    def certify(self, handle, asked):
        attest, signature = self.esys.certify(
            handle, self.lak, TPM2B_DATA(asked), TPMT_SIG_SCHEME(scheme=TPM2_ALG.NULL)
        )
        return bytes(attest), bytes(signature.marshal())


@pytest.fixture
def tpm(tmp_path):
    with start_swtpm(tmp_path, certificates=False) as running:
        yield running


@pytest.fixture
def machine(tpm):
    opened = []

    def boot(algorithm="P-256", **options):
        esys = ESAPI(tpm.tcti)
        opened.append(esys)
        return Machine(esys, algorithm, **options)

    yield boot
    for esys in opened:
        esys.close()


def verify(machine, raw, signature, asked=NONCE, pcrs=None):
    return verify_quote(RawQuote(raw), signature, machine.public, asked, SELECTION, pcrs or machine.pcrs())


@pytest.mark.parametrize("algorithm", CHECKQUOTE)
def test_a_tpm_s_quote_is_verified_by_fleetd_and_by_tpm2_checkquote(machine, tmp_path, algorithm):
    booted = machine(algorithm)
    raw, signature = booted.quote(NONCE)

    ours = verify(booted, raw, signature)

    assert isinstance(ours, VerifiedQuote)
    assert ours.values(Bank.SHA256)[7] == booted.built.pcrs[Bank.SHA256][7]
    assert checkquote(booted, tmp_path, raw, signature, NONCE)


def test_a_tpm_s_pss_quote_is_verified(machine):
    booted = machine("RSAPSS")

    assert isinstance(verify(booted, *booted.quote(NONCE)), VerifiedQuote)


@pytest.mark.parametrize("algorithm", CHECKQUOTE)
def test_fleetd_and_tpm2_checkquote_refuse_the_same_forgeries(machine, tmp_path, algorithm):
    booted = machine(algorithm)
    raw, signature = booted.quote(NONCE)
    flipped = raw[:-1] + bytes((raw[-1] ^ 1,))
    forged = signature[:-1] + bytes((signature[-1] ^ 1,))

    for attest, signed, nonce in ((flipped, signature, NONCE), (raw, forged, NONCE), (raw, signature, b"m" * 32)):
        assert isinstance(verify(booted, attest, signed, nonce), tuple)
        assert not checkquote(booted, tmp_path, attest, signed, nonce)


def checkquote(machine, folder, raw, signature, nonce):
    pem = machine.public.to_public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for name, content in (("pem", pem), ("attest", raw), ("signature", signature)):
        (folder / name).write_bytes(content)
    hashed = "sha384" if machine.public.parameters.scheme.hash_alg == Algorithm.SHA384 else "sha256"
    done = subprocess.run(
        ["tpm2_checkquote", "-u", folder / "pem", "-m", folder / "attest", "-s", folder / "signature", "-g", hashed, "-q", nonce.hex()],
        capture_output=True,
        check=False,
    )  # fmt: skip
    return done.returncode == 0


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_fleetd_and_tpm2_pytss_read_the_same_fields(machine, algorithm):
    booted = machine(algorithm)
    raw, signature = booted.quote(NONCE)

    ours, theirs = parse_attest(raw), TPMS_ATTEST.unmarshal(raw)[0]

    assert theirs.type == TPM2_ST.ATTEST_QUOTE == ours.kind
    assert int(theirs.magic) == ours.magic
    assert bytes(theirs.qualifiedSigner) == ours.qualified_signer
    assert bytes(theirs.extraData) == ours.extra_data == NONCE
    clock = theirs.clockInfo
    assert (clock.clock, clock.resetCount, clock.restartCount, bool(clock.safe)) == (
        ours.clock.clock,
        ours.clock.reset_count,
        ours.clock.restart_count,
        ours.clock.safe,
    )
    assert theirs.firmwareVersion == ours.firmware_version
    assert bytes(theirs.attested.quote.pcrDigest) == parse_quote_info(ours.body).pcr_digest
    parsed = parse_signature(signature)
    assert int(TPMT_SIGNATURE.unmarshal(signature)[0].sigAlg) in {0x14, 0x16, 0x18}
    assert parsed.hash is (Bank.SHA384 if algorithm == "P-384" else Bank.SHA256)
    assert bytes(TPM2B_PUBLIC(TPMT_PUBLIC.unmarshal(booted.public.raw)[0]).get_name()) == booted.public.name()


def test_what_tpm2_pytss_lets_through_is_refused_here(machine):
    booted = machine()
    raw, _ = booted.quote(NONCE)

    assert TPMS_ATTEST.unmarshal(raw + b"\0")
    with pytest.raises(MalformedStructure):
        parse_quote_info(parse_attest(raw + b"\0").body)


def test_a_quote_by_the_same_key_form_in_the_owner_hierarchy_is_refused(machine):
    booted = machine(hierarchy=ESYS_TR.OWNER)

    verdict = verify(booted, *booted.quote(NONCE))

    assert [finding.code for finding in verdict] == ["attest-signer"]


def test_a_real_quote_is_refused_by_its_nonce_when_it_is_sent_again(machine):
    booted = machine()
    earlier = booted.quote(b"o" * 32)

    assert [finding.code for finding in verify(booted, *earlier)] == ["nonce-mismatch"]


def test_a_real_quote_over_too_few_pcrs_is_refused(machine):
    booted = machine()

    verdict = verify(booted, *booted.quote(NONCE, "sha256:0,7"))

    assert [finding.code for finding in verdict] == ["pcr-selection"]


def test_quirk_17_a_real_quote_over_a_bank_that_is_off_is_refused(machine):
    booted = machine()

    raw, signature = booted.quote(NONCE, "sha384:0,1,2")
    verdict = verify(booted, raw, signature)

    assert parse_quote_info(parse_attest(raw).body).pcr_digest.hex().startswith("e3b0c442")
    assert [finding.code for finding in verdict] == ["pcr-selection"]


def test_the_lak_is_the_same_after_a_power_cycle_and_its_counters_grow(machine, tpm):
    before = machine()
    first = verify(before, *before.quote(NONCE))
    before.esys.close()
    tpm.power_cycle()
    after = machine()
    second = verify(after, *after.quote(NONCE))

    assert after.public.name() == before.public.name()
    assert second.clock.reset_count == first.clock.reset_count + 1


def test_a_log_the_tpm_and_tpm2_eventlog_lead_to_the_same_pcrs(machine, tmp_path):
    booted = machine()
    raw = booted.built.bytes()
    (tmp_path / "log").write_bytes(raw)
    printed = subprocess.run(["tpm2_eventlog", tmp_path / "log"], capture_output=True, text=True, check=True).stdout
    told = printed.rpartition("pcrs:")[2]
    theirs = {
        int(pcr): bytes.fromhex(value)
        for pcr, value in re.findall(r"^\s+(\d+)\s*: 0x([0-9a-f]{64})$", told, re.MULTILINE)
    }

    ours = replay(parse_log(raw), Bank.SHA256)
    judged = judge_log(parse_log(raw), Bank.SHA256, booted.pcrs()[Bank.SHA256])

    assert ours == theirs == {pcr: booted.pcrs()[Bank.SHA256][pcr] for pcr in ours}
    assert set(judged.trust.values()) == {Trust.EXPLAINED, Trust.UNTOUCHED}


@pytest.mark.parametrize("algorithm", ["P-256", "P-384", "RSASSA"])
def test_a_whole_enrollment_of_a_tpm_passes_and_each_swap_is_refused(machine, algorithm):
    booted = machine(algorithm)
    handle, ldevid = booted.ldevid()
    certify, certify_signature = booted.certify(handle, extra_data(Label.ENROLL_CERTIFY, NONCE, TRANSCRIPT))
    quote, signature = booted.quote(extra_data(Label.ENROLL_QUOTE, NONCE, TRANSCRIPT))
    rule = AllowRule(AllowedEvent.BOOT_LOADER, digest=hashlib.sha256(b"uki").digest())
    policy = AttestationPolicy(InstallPolicy(InstallBoot.JUDGED, allow=(rule,)))
    fields = {
        "lak_public": booted.public.raw,
        "ldevid_public": ldevid,
        "quote": RawQuote(quote),
        "quote_signature": signature,
        "certify": certify,
        "certify_signature": certify_signature,
        "pcrs": booted.pcrs(),
        "log": booted.built.bytes(),
    }
    expected = EnrollmentExpectation(NONCE, TRANSCRIPT, policy.selection)

    assert verify_enrollment(EnrollmentEvidence(**fields), expected, policy).passed
    swaps = [
        {"quote": certify, "quote_signature": certify_signature},
        {"certify": quote, "certify_signature": signature},
        {"quote_signature": certify_signature},
        {"certify_signature": signature},
        {"lak_public": ldevid},
        {"ldevid_public": booted.public.raw},
        {"log": a_boot(b"rogue", banks=(Bank.SHA256,)).bytes()},
        {"pcrs": {Bank.SHA256: {pcr: bytes(32) for pcr in range(24)}}},
    ]
    for swap in swaps:
        assert not verify_enrollment(EnrollmentEvidence(**{**fields, **swap}), expected, policy).passed, swap.keys()
