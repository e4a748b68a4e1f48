"""Enrollments and boot checks as a whole."""

import dataclasses

import pytest

from fleetd.core.attestation.attest import TpmClock
from fleetd.core.attestation.banks import Bank, PcrSelection
from fleetd.core.attestation.clock import EarlierClock
from fleetd.core.attestation.device_keys import LDEVID_ATTRIBUTES
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.policy import (
    AllowedEvent,
    AllowRule,
    AttestationPolicy,
    CheckPolicy,
    InstallBoot,
    InstallPolicy,
    SecureBoot,
)
from fleetd.core.attestation.structures import Curve
from fleetd.core.attestation.transcript import Label, Transcript, extra_data
from fleetd.core.attestation.verdict import (
    BootWeight,
    CheckEvidence,
    CheckExpectation,
    CheckResult,
    EnrollmentEvidence,
    EnrollmentExpectation,
    verify_check,
    verify_enrollment,
)
from fleetd.core.findings import catalogue
from fleetd.core.findings.finding import Severity, refuses
from tests.unit.attestation.evidence import LogBuilder, QuoteParts, a_boot, certify, ecc_key, ldevid_key, rsa_key
from tests.unit.attestation.test_judgement import sha

NONCE = b"n" * 32
TRANSCRIPT = Transcript(b"t" * 32)
JUDGED = AttestationPolicy(
    InstallPolicy(InstallBoot.JUDGED, allow=(AllowRule(AllowedEvent.BOOT_LOADER, digest=sha(b"uki")),))
)
TRUSTED = AttestationPolicy(InstallPolicy(InstallBoot.NETWORK_TRUSTED))


@pytest.fixture(scope="module")
def lak():
    return ecc_key()


@pytest.fixture(scope="module")
def ldevid():
    return ldevid_key()


def enrollment(lak, ldevid, built, *, quote_label=Label.ENROLL_QUOTE, certify_label=Label.ENROLL_CERTIFY, **changes):
    pcrs = {Bank.SHA256: built.pcrs[Bank.SHA256]}
    asked = extra_data(quote_label, NONCE, TRANSCRIPT)
    raw, signature = QuoteParts(lak, pcrs, JUDGED.selection, asked).signed()
    certified, certify_signature = certify(lak, ldevid.public, extra_data(certify_label, NONCE, TRANSCRIPT))
    fields = {
        "lak_public": lak.public.raw,
        "ldevid_public": ldevid.public.raw,
        "quote": raw,
        "quote_signature": signature,
        "certify": certified,
        "certify_signature": certify_signature,
        "pcrs": pcrs,
        "log": built.bytes(),
        **changes,
    }
    return EnrollmentEvidence(**fields)


EXPECTED = EnrollmentExpectation(NONCE, TRANSCRIPT, JUDGED.selection)


def refusals(findings):
    return [finding.code for finding in findings if finding.severity is Severity.REFUSES]


def test_an_honest_enrollment_passes(lak, ldevid):
    verdict = verify_enrollment(enrollment(lak, ldevid, a_boot()), EXPECTED, JUDGED)

    assert verdict.passed
    assert verdict.findings == ()
    assert verdict.secure_boot is True
    assert verdict.boot_judged
    assert verdict.quote is not None
    assert (verdict.lak, verdict.ldevid) == (lak.public, ldevid.public)


@pytest.mark.parametrize("make", [rsa_key, lambda: ecc_key(Curve.P384, hashed=Bank.SHA384)], ids=["RSA", "P-384"])
def test_an_enrollment_with_another_algorithm_passes(make, ldevid):
    assert verify_enrollment(enrollment(make(), ldevid, a_boot()), EXPECTED, JUDGED).passed


def test_a_swapped_lak_is_refused(lak, ldevid):
    evidence = enrollment(lak, ldevid, a_boot(), lak_public=ecc_key().public.raw)

    verdict = verify_enrollment(evidence, EXPECTED, JUDGED)

    assert not verdict.passed
    assert verdict.quote is None
    assert "signature-invalid" in refusals(verdict.findings)


def test_a_swapped_ldevid_is_refused(lak, ldevid):
    evidence = enrollment(lak, ldevid, a_boot(), ldevid_public=ldevid_key().public.raw)

    assert refusals(verify_enrollment(evidence, EXPECTED, JUDGED).findings) == ["certify-name"]


def test_an_unrestricted_key_cannot_be_the_lak(ldevid):
    pretender = ecc_key(attributes=LDEVID_ATTRIBUTES)

    verdict = verify_enrollment(enrollment(pretender, ldevid, a_boot()), EXPECTED, JUDGED)

    assert refusals(verdict.findings) == ["key-form"]
    assert verdict.quote is None


def test_the_certification_cannot_stand_in_for_the_quote(lak, ldevid):
    good = enrollment(lak, ldevid, a_boot())
    evidence = dataclasses.replace(good, quote=good.certify, quote_signature=good.certify_signature)

    assert "attest-type" in refusals(verify_enrollment(evidence, EXPECTED, JUDGED).findings)


@pytest.mark.parametrize("label", [Label.CHECK, Label.REDEEM, Label.ENROLL_CERTIFY])
def test_a_quote_made_for_another_purpose_is_refused(lak, ldevid, label):
    evidence = enrollment(lak, ldevid, a_boot(), quote_label=label)

    assert refusals(verify_enrollment(evidence, EXPECTED, JUDGED).findings) == ["nonce-mismatch"]


@pytest.mark.parametrize("field", ["nonce", "transcript"])
def test_evidence_of_another_challenge_or_other_claims_is_refused(lak, ldevid, field):
    expected = dataclasses.replace(EXPECTED, **{field: b"x" * 32})

    verdict = verify_enrollment(enrollment(lak, ldevid, a_boot()), expected, JUDGED)

    assert refusals(verdict.findings) == ["nonce-mismatch", "nonce-mismatch"]


@pytest.mark.parametrize(
    "field", ["lak_public", "ldevid_public", "quote", "quote_signature", "certify", "certify_signature", "log"]
)
@pytest.mark.parametrize("garbage", [b"", b"\0", b"\xff" * 200])
def test_garbage_in_any_field_is_refused_and_raises_nothing(lak, ldevid, field, garbage):
    evidence = enrollment(lak, ldevid, a_boot(), **{field: garbage})

    assert not verify_enrollment(evidence, EXPECTED, JUDGED).passed


def test_a_rogue_boot_is_refused_where_boots_are_judged(lak, ldevid):
    verdict = verify_enrollment(enrollment(lak, ldevid, a_boot(b"rogue")), EXPECTED, JUDGED)

    assert not verdict.passed
    assert not verdict.boot_judged
    assert verdict.quote is not None


def test_a_rogue_boot_only_warns_when_the_machine_is_to_be_erased(lak, ldevid):
    verdict = verify_enrollment(enrollment(lak, ldevid, a_boot(b"rogue")), EXPECTED, JUDGED, BootWeight.WARNS)

    assert verdict.passed
    (finding,) = verdict.findings
    assert (finding.code, finding.severity) == ("boot-not-allowed", Severity.WARNS)
    assert finding.as_dict()["severity"] == "warns"
    assert "rogue" not in catalogue()


def test_a_wrong_identity_refuses_even_when_the_machine_is_to_be_erased(lak, ldevid):
    evidence = enrollment(lak, ldevid, a_boot(), lak_public=ecc_key().public.raw)

    assert not verify_enrollment(evidence, EXPECTED, JUDGED, BootWeight.WARNS).passed


def test_a_missing_log_is_refused_where_boots_are_judged_and_told_where_not(lak, ldevid):
    evidence = enrollment(lak, ldevid, a_boot(), log=None)

    assert refusals(verify_enrollment(evidence, EXPECTED, JUDGED).findings) == ["eventlog-missing"]
    trusted = verify_enrollment(evidence, EXPECTED, TRUSTED)
    assert trusted.passed
    assert [finding.code for finding in trusted.findings] == ["eventlog-missing", "boot-network-trusted"]


def test_a_log_of_another_boot_explains_nothing(lak, ldevid):
    evidence = enrollment(lak, ldevid, a_boot(b"rogue"), log=a_boot(b"uki").bytes())

    assert "pcr-unexplained" in refusals(verify_enrollment(evidence, EXPECTED, JUDGED).findings)


def test_a_log_that_is_too_large_is_refused(lak, ldevid):
    evidence = enrollment(lak, ldevid, a_boot(), log=bytes(512 * 1024 + 1))

    assert refusals(verify_enrollment(evidence, EXPECTED, JUDGED).findings) == ["eventlog-too-large"]


def test_quirk_40_a_bank_that_firmware_never_extended_is_refused(lak, ldevid):
    policy = dataclasses.replace(JUDGED, bank=Bank.SHA384)
    idle = LogBuilder((Bank.SHA384,))
    pcrs = {Bank.SHA384: idle.pcrs[Bank.SHA384]}
    asked = extra_data(Label.ENROLL_QUOTE, NONCE, TRANSCRIPT)
    raw, signature = QuoteParts(lak, pcrs, policy.selection, asked).signed()
    evidence = enrollment(lak, ldevid, a_boot(), quote=raw, quote_signature=signature, pcrs=pcrs)
    expected = dataclasses.replace(EXPECTED, demanded=policy.selection)

    verdict = verify_enrollment(evidence, expected, policy)

    assert refusals(verdict.findings) == ["eventlog-bank-missing", "pcr-bank-untouched"]


def test_quirk_16_a_bank_that_is_active_and_logged_but_never_extended_explains_nothing(lak, ldevid):
    built = a_boot()
    idle = {Bank.SHA256: LogBuilder().pcrs[Bank.SHA256]}
    asked = extra_data(Label.ENROLL_QUOTE, NONCE, TRANSCRIPT)
    raw, signature = QuoteParts(lak, idle, JUDGED.selection, asked).signed()
    evidence = enrollment(lak, ldevid, built, quote=raw, quote_signature=signature, pcrs=idle)

    assert "pcr-unexplained" in refusals(verify_enrollment(evidence, EXPECTED, JUDGED).findings)


def test_an_unreadable_log_is_told_even_when_the_quote_is_refused(lak, ldevid):
    evidence = enrollment(lak, ldevid, a_boot(), quote=b"", log=b"no log at all, but long enough for a header")

    assert refusals(verify_enrollment(evidence, EXPECTED, JUDGED).findings)[-1] == "eventlog-malformed"


# --- Boot checks ------------------------------------------------------------------------------------------------------

NOW = (50_000_000, 5, 2, 1)
EARLIER = EarlierClock(TpmClock(50_000_000 - 3_600_000, 5, 2, safe=True), 3600.0)


def check(lak, built, policy=TRUSTED, baseline=None, earlier=EARLIER, *, log=True, clock=NOW, label=Label.CHECK):
    pcrs = {Bank.SHA256: built.pcrs[Bank.SHA256]}
    asked = extra_data(label, NONCE, TRANSCRIPT)
    raw, signature = QuoteParts(lak, pcrs, policy.selection, asked, clock=clock).signed()
    evidence = CheckEvidence(raw, signature, pcrs, built.bytes() if log else None)
    expected = CheckExpectation(lak.public, NONCE, TRANSCRIPT, policy.selection)
    return verify_check(evidence, expected, baseline, policy, earlier)


def first(lak, built, policy=TRUSTED):
    verdict = check(lak, built, policy, earlier=None)
    assert verdict.result is CheckResult.OK
    return verdict.baseline


def test_a_first_check_without_a_log_is_asked_for_one(lak):
    assert check(lak, a_boot(), log=False).result is CheckResult.LOG_NEEDED


def test_a_first_check_with_a_log_becomes_the_baseline_and_says_that_it_is_on_trust(lak):
    verdict = check(lak, a_boot())

    assert verdict.result is CheckResult.OK
    assert verdict.baseline is not None
    assert [finding.code for finding in verdict.findings] == ["baseline-on-trust"]


def test_a_first_baseline_within_the_class_s_bounds_is_not_on_trust(lak):
    policy = dataclasses.replace(TRUSTED, check=CheckPolicy(allow=(AllowRule(digest=sha(b"uki")),)))

    assert check(lak, a_boot(), policy).findings == ()
    rogue = check(lak, a_boot(b"rogue"), policy)
    assert (rogue.result, rogue.baseline) == (CheckResult.FAILED, None)


def test_the_same_boot_needs_no_log(lak):
    verdict = check(lak, a_boot(), baseline=first(lak, a_boot()), log=False)

    assert verdict.result is CheckResult.OK
    assert verdict.findings == ()
    assert verdict.baseline is None


def test_a_changed_baseline_asks_for_the_log_and_then_tells_the_difference(lak):
    baseline = first(lak, a_boot(dbx=3))

    assert check(lak, a_boot(dbx=15), baseline=baseline, log=False).result is CheckResult.LOG_NEEDED
    verdict = check(lak, a_boot(dbx=15), baseline=baseline)

    assert verdict.result is CheckResult.DRIFTED
    assert "12 entries added" in verdict.findings[-1].sentence()
    assert verdict.baseline is not None
    assert check(lak, a_boot(dbx=15), baseline=verdict.baseline, log=False).result is CheckResult.OK


def test_a_drift_that_no_log_explains_is_a_drift_all_the_same(lak):
    baseline = first(lak, a_boot(dbx=3))
    built = a_boot(dbx=3).add(7, kinds.EFI_ACTION, b"unlogged", log=False)

    verdict = check(lak, built, baseline=baseline)

    assert verdict.result is CheckResult.DRIFTED
    assert "No event log tells why." in verdict.findings[-1].sentence()


def test_a_change_of_a_reported_pcr_is_told_without_asking_for_the_log(lak):
    verdict = check(lak, a_boot(b"new kernel"), baseline=first(lak, a_boot()), log=False)

    assert verdict.result is CheckResult.OK
    assert [finding.code for finding in verdict.findings] == ["boot-changed"]


def test_a_reported_change_with_a_log_renews_what_is_reported(lak):
    verdict = check(lak, a_boot(b"new kernel"), baseline=first(lak, a_boot()))

    assert verdict.result is CheckResult.OK
    assert check(lak, a_boot(b"new kernel"), baseline=verdict.baseline, log=False).findings == ()


def test_secure_boot_is_judged_again_when_pcr7_changes_even_outside_the_baseline(lak):
    policy = dataclasses.replace(
        TRUSTED, check=CheckPolicy(baseline=(0,), report_only=(7,), secure_boot=SecureBoot.REQUIRED)
    )
    baseline = first(lak, a_boot(), policy)

    assert check(lak, a_boot(secure_boot=b"\0"), policy, baseline, log=False).result is CheckResult.LOG_NEEDED
    verdict = check(lak, a_boot(secure_boot=b"\0"), policy, baseline)
    assert (verdict.result, refusals(verdict.findings)) == (CheckResult.FAILED, ["secure-boot-off"])


def test_a_cleared_tpm_fails_the_check_and_is_told_apart(lak):
    verdict = check(lak, a_boot(), baseline=first(lak, a_boot()), clock=(1000, 0, 0, 1))

    assert (verdict.result, refusals(verdict.findings)) == (CheckResult.FAILED, ["tpm-cleared"])


def test_an_old_quote_fails_the_check(lak):
    verdict = check(lak, a_boot(), baseline=first(lak, a_boot()), clock=(50_000_000 - 3_600_000 - 1, 5, 2, 1))

    assert refusals(verdict.findings) == ["tpm-clock-back"]


def test_a_quote_by_another_machine_s_lak_fails_the_check(lak):
    other = ecc_key()
    pcrs = {Bank.SHA256: a_boot().pcrs[Bank.SHA256]}
    raw, signature = QuoteParts(other, pcrs, TRUSTED.selection, extra_data(Label.CHECK, NONCE, TRANSCRIPT)).signed()
    expected = CheckExpectation(lak.public, NONCE, TRANSCRIPT, TRUSTED.selection)

    verdict = verify_check(CheckEvidence(raw, signature, pcrs), expected, None, TRUSTED, None)

    assert verdict.result is CheckResult.FAILED
    assert verdict.quote is None


def test_a_quote_made_for_an_enrollment_fails_the_check(lak):
    verdict = check(lak, a_boot(), baseline=first(lak, a_boot()), label=Label.ENROLL_QUOTE)

    assert refusals(verdict.findings) == ["nonce-mismatch"]


def test_a_baseline_of_another_bank_is_taken_anew(lak):
    other = dataclasses.replace(first(lak, a_boot()), bank=Bank.SHA1)

    assert check(lak, a_boot(), baseline=other, log=False).result is CheckResult.LOG_NEEDED


def test_a_malformed_log_in_a_check_only_warns_where_nothing_rests_on_it(lak):
    pcrs = {Bank.SHA256: a_boot().pcrs[Bank.SHA256]}
    raw, signature = QuoteParts(
        lak, pcrs, TRUSTED.selection, extra_data(Label.CHECK, NONCE, TRANSCRIPT), clock=NOW
    ).signed()
    expected = CheckExpectation(lak.public, NONCE, TRANSCRIPT, TRUSTED.selection)

    verdict = verify_check(
        CheckEvidence(raw, signature, pcrs, b"junk"), expected, first(lak, a_boot()), TRUSTED, EARLIER
    )

    assert verdict.result is CheckResult.OK
    assert not refuses(verdict.findings)
    assert verdict.findings[0].code == "eventlog-malformed"


def test_too_few_pcrs_fail_the_check(lak):
    pcrs = {Bank.SHA256: a_boot().pcrs[Bank.SHA256]}
    few = PcrSelection.of(Bank.SHA256, 0)
    raw, signature = QuoteParts(lak, pcrs, few, extra_data(Label.CHECK, NONCE, TRANSCRIPT)).signed()
    expected = CheckExpectation(lak.public, NONCE, TRANSCRIPT, TRUSTED.selection)

    verdict = verify_check(CheckEvidence(raw, signature, pcrs), expected, None, TRUSTED, None)

    assert refusals(verdict.findings) == ["pcr-selection"]
