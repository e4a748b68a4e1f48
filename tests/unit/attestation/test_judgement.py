"""The boot policy of a class: what it lets pass, and what a machine cannot talk its way around."""

import hashlib

import pytest

from fleetd.core.attestation.banks import Bank
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.eventlog.framing import parse_log
from fleetd.core.attestation.eventlog.meaning import read_facts
from fleetd.core.attestation.eventlog.replay import judge_log
from fleetd.core.attestation.judgement import judge_check, judge_install
from fleetd.core.attestation.policy import (
    AllowedEvent,
    AllowRule,
    AttestationPolicy,
    CheckPolicy,
    InstallBoot,
    InstallPolicy,
    SecureBoot,
    policy_problems,
)
from fleetd.core.findings.finding import Severity
from tests.unit.attestation.evidence import LogBuilder, a_boot, certificate_like


def sha(data):
    return hashlib.sha256(data).digest()


UKI = AllowRule(AllowedEvent.BOOT_LOADER, digest=sha(b"uki"))
VENDOR = certificate_like(b"vendor")
SIGNER = AllowRule(AllowedEvent.BOOT_LOADER, authority=sha(VENDOR))


def install(*rules, secure_boot=SecureBoot.OPTIONAL, boot=InstallBoot.JUDGED):
    return InstallPolicy(boot, secure_boot, rules)


def held(built, policy, judge=judge_install, **quoted):
    values = dict(built.pcrs[Bank.SHA256]) | {int(key[3:]): value for key, value in quoted.items()}
    judged = judge_log(parse_log(built.bytes()), Bank.SHA256, values)
    return judge(judged, read_facts(judged), policy)


def codes(findings):
    return [finding.code for finding in findings if finding.severity is Severity.REFUSES]


def test_an_allowed_uki_passes():
    assert held(a_boot(), install(UKI)) == ()


def test_another_uki_is_refused_with_its_digest_and_source():
    (finding,) = held(a_boot(b"rogue"), install(UKI))

    assert finding.code == "boot-not-allowed"
    assert finding.digest == sha(b"rogue")
    assert "EFI/BOOT/BOOTX64.EFI" in finding.sentence()


def test_every_loader_must_be_allowed_and_not_just_one():
    assert codes(held(a_boot().image(b"rogue"), install(UKI))) == ["boot-not-allowed"]


def test_alternatives_are_each_enough():
    other = AllowRule(digest=sha(b"other"))

    assert held(a_boot(b"other"), install(UKI, other)) == ()


def test_a_kernel_rule_does_not_allow_a_kernel_to_be_started_first():
    kernel = AllowRule(AllowedEvent.KERNEL, digest=sha(b"kernel"))

    assert held(a_boot().image(b"kernel"), install(UKI, kernel)) == ()
    assert codes(held(a_boot(b"kernel"), install(UKI, kernel))) == ["boot-not-allowed"]


def test_a_command_line_rule_does_not_allow_a_loader():
    rule = AllowRule(AllowedEvent.COMMAND_LINE, digest=sha(b"uki"))

    assert "boot-not-allowed" in codes(held(a_boot(), install(rule)))


def test_an_allowed_signer_passes_under_secure_boot():
    assert held(a_boot(b"anything", certificate=VENDOR), install(SIGNER)) == ()


def test_an_allowed_signer_counts_for_nothing_without_secure_boot():
    built = a_boot(b"anything", secure_boot=b"\0", certificate=VENDOR)

    assert codes(held(built, install(SIGNER))) == ["boot-not-allowed"]


def test_one_signer_that_is_not_allowed_spoils_the_others():
    built = a_boot(b"anything", certificate=VENDOR).authority(certificate_like(b"rogue"))

    assert codes(held(built, install(SIGNER))) == ["boot-not-allowed"]


def test_a_signer_that_an_operating_system_adds_afterwards_does_not_help():
    built = a_boot(b"anything", certificate=certificate_like(b"rogue")).authority(VENDOR)

    assert codes(held(built, install(SIGNER))) == ["boot-not-allowed"]


def test_secure_boot_without_any_authority_allows_nothing():
    assert codes(held(a_boot(b"anything"), install(SIGNER))) == ["boot-not-allowed"]


def test_a_log_without_any_loader_is_refused():
    built = LogBuilder().secure_boot().separators()

    assert codes(held(built, install(UKI))) == ["boot-nothing-measured"]


@pytest.mark.parametrize("pcr", [4, 8, 12])
def test_a_judged_pcr_that_the_log_does_not_explain_is_refused(pcr):
    findings = held(a_boot(), install(UKI), **{f"pcr{pcr}": b"\x09" * 32})

    assert codes(findings) == ["pcr-unexplained"]


@pytest.mark.parametrize("pcr", [0, 1, 2, 3, 5, 6, 9, 10])
def test_quirk_39_a_pcr_that_no_judgement_rests_on_only_warns(pcr):
    findings = held(a_boot(), install(UKI), **{f"pcr{pcr}": b"\x09" * 32})

    assert codes(findings) == []
    assert [finding.code for finding in findings] == ["pcr-unexplained-unjudged"]


def test_a_judged_pcr_that_was_not_quoted_is_refused():
    built = a_boot()
    judged = judge_log(parse_log(built.bytes()), Bank.SHA256, {7: built.pcrs[Bank.SHA256][7]})

    findings = judge_install(judged, read_facts(judged), install(UKI))

    assert "pcr-unexplained" in codes(findings)


def test_a_command_line_that_overrides_the_uki_s_own_is_refused():
    line = "init=/bin/sh\0".encode("utf-16-le")
    built = a_boot().add(12, kinds.IPL, line)

    (finding,) = held(built, install(UKI))

    assert finding.code == "boot-not-allowed"
    assert "init=/bin/sh" in finding.sentence()


@pytest.mark.parametrize("kind", [kinds.EVENT_TAG, kinds.SEPARATOR, kinds.EFI_ACTION, 0x1234])
@pytest.mark.parametrize("pcr", [8, 12])
def test_an_override_with_a_rewritten_type_is_still_refused(pcr, kind):
    built = a_boot().add(pcr, kind, "init=/bin/sh\0".encode("utf-16-le"))

    assert codes(held(built, install(UKI))) == ["boot-not-allowed"]


def test_an_allowed_command_line_passes():
    line = "console=ttyS0\0".encode("utf-16-le")
    rule = AllowRule(AllowedEvent.COMMAND_LINE, digest=sha(line))

    assert held(a_boot().add(12, kinds.IPL, line), install(UKI, rule)) == ()


def test_windows_separators_in_pcr12_are_no_command_line():
    assert held(a_boot().add(12, kinds.SEPARATOR, b"WBCL"), install(UKI)) == ()


def test_an_initrd_beside_a_plain_kernel_is_refused():
    built = (
        LogBuilder().secure_boot().separators().image(b"uki").add(9, kinds.EVENT_TAG, b"Linux initrd", hashed=b"rogue")
    )

    assert codes(held(built, install(UKI))) == ["boot-not-allowed"]


def test_an_initrd_within_a_uki_needs_no_rule_of_its_own():
    assert held(a_boot().add(9, kinds.EVENT_TAG, b"Linux initrd", hashed=b"initrd"), install(UKI)) == ()


def test_an_unexplained_pcr9_is_refused_where_no_uki_was_measured():
    built = LogBuilder().secure_boot().separators().image(b"uki")

    assert codes(held(built, install(UKI), pcr9=b"\x09" * 32)) == ["pcr-unexplained"]


def test_a_rule_about_an_initrd_makes_pcr9_judged_even_with_a_uki():
    rule = AllowRule(AllowedEvent.INITRD, digest=sha(b"initrd"))
    good = a_boot().add(9, kinds.EVENT_TAG, b"Linux initrd", hashed=b"initrd")
    bad = a_boot().add(9, kinds.EVENT_TAG, b"Linux initrd", hashed=b"rogue")

    assert held(good, install(UKI, rule)) == ()
    assert codes(held(bad, install(UKI, rule))) == ["boot-not-allowed"]


def test_secure_boot_is_demanded_where_the_class_says_so():
    policy = install(UKI, secure_boot=SecureBoot.REQUIRED)

    assert held(a_boot(), policy) == ()
    assert codes(held(a_boot(secure_boot=b"\0"), policy)) == ["secure-boot-off"]
    assert codes(held(LogBuilder().separators().image(b"uki"), policy)) == ["secure-boot-unknown"]


def test_secure_boot_in_an_unexplained_pcr7_is_unknown():
    policy = install(UKI, secure_boot=SecureBoot.REQUIRED)

    findings = held(a_boot(), policy, pcr7=b"\x09" * 32)

    assert codes(findings) == ["pcr-unexplained", "secure-boot-unknown"]


def test_a_network_trusted_boot_is_told_and_not_judged():
    policy = install(boot=InstallBoot.NETWORK_TRUSTED)

    findings = held(a_boot(b"anything"), policy)

    assert codes(findings) == []
    assert [finding.code for finding in findings] == ["boot-network-trusted"]


def test_secure_boot_may_be_demanded_of_a_network_trusted_boot():
    policy = install(boot=InstallBoot.NETWORK_TRUSTED, secure_boot=SecureBoot.REQUIRED)

    assert codes(held(a_boot(secure_boot=b"\0"), policy)) == ["secure-boot-off"]


def test_an_error_separator_is_refused():
    built = a_boot().add(3, kinds.SEPARATOR, b"\x01\0\0\0")

    assert codes(held(built, install(UKI))) == ["separator-error"]


def test_a_judged_pcr_without_its_separator_is_refused():
    built = LogBuilder().image(b"uki")

    assert codes(held(built, install(UKI))) == ["separator-missing"]


def test_other_pcrs_without_separators_are_only_noted():
    built = LogBuilder().add(4, kinds.SEPARATOR, bytes(4)).image(b"uki").add(2, 1, b"option rom")

    findings = held(built, install(UKI))

    assert [finding.code for finding in findings] == ["separator-missing-unjudged"]


def test_a_log_that_is_not_about_firmware_is_refused():
    built = LogBuilder().add(17, 0x402, b"drtm")

    assert "eventlog-no-firmware-events" in codes(held(built, install(UKI)))


def test_what_firmware_tells_about_itself_becomes_findings():
    built = a_boot().calling()
    built.add(7, kinds.EFI_ACTION, b"DMA Protection Disabled")
    built.add(7, kinds.EFI_ACTION, b"Security Level is Downgraded to 0")

    findings = held(built, install(UKI))

    assert [finding.code for finding in findings] == [
        "dma-protection-disabled",
        "firmware-security-downgraded",
        "boot-attempts",
    ]


def test_firmware_in_debug_mode_is_refused():
    assert codes(held(a_boot().add(7, kinds.EFI_ACTION, b"UEFI Debug Mode"), install(UKI))) == ["firmware-debug-mode"]


def test_a_check_judges_secure_boot_and_software_only_where_the_class_says_so():
    lax = CheckPolicy()
    strict = CheckPolicy(secure_boot=SecureBoot.REQUIRED, allow=(UKI,))
    rogue = a_boot(b"rogue", secure_boot=b"\0")

    assert held(rogue, lax, judge_check) == ()
    assert codes(held(rogue, strict, judge_check)) == ["secure-boot-off", "boot-not-allowed"]
    assert held(a_boot(), strict, judge_check) == ()


def test_a_good_policy_has_no_problems():
    assert policy_problems(AttestationPolicy(install(UKI))) == ()
    assert policy_problems(AttestationPolicy(install(boot=InstallBoot.NETWORK_TRUSTED))) == ()


@pytest.mark.parametrize(
    ("policy", "problem"),
    [
        (AttestationPolicy(install(UKI), bank=Bank.SHA1), "sha1"),
        (AttestationPolicy(install()), "at least one entry"),
        (AttestationPolicy(install(UKI), select=(0, 2, 3, 7)), "needs PCRs [4, 8, 9, 11, 12]"),
        (AttestationPolicy(install(UKI), select=()), "at least one PCR"),
        (AttestationPolicy(install(UKI), select=(*range(15), 24)), "from 0 to 23"),
        (AttestationPolicy(install(UKI), CheckPolicy(baseline=(0, 23))), "PCRs [23] are not in pcrs.select"),
        (AttestationPolicy(install(AllowRule())), "either a digest or an authority"),
        (AttestationPolicy(install(AllowRule(digest=b"d", authority=b"a"))), "either a digest or an authority"),
        (
            AttestationPolicy(
                install(boot=InstallBoot.NETWORK_TRUSTED),
                CheckPolicy(baseline=(0,), secure_boot=SecureBoot.REQUIRED),
                select=(0,),
            ),
            "needs PCR 7",
        ),
        (
            AttestationPolicy(
                install(boot=InstallBoot.NETWORK_TRUSTED),
                CheckPolicy(baseline=(0,), allow=(AllowRule(digest=b"d"),)),
                select=(0,),
            ),
            "check.allow needs PCR 4",
        ),
        (
            AttestationPolicy(
                install(boot=InstallBoot.NETWORK_TRUSTED),
                CheckPolicy(baseline=(0,), allow=(AllowRule(authority=b"a"),)),
                select=(0, 4),
            ),
            "an authority in allow needs PCR 7",
        ),
    ],
)
def test_a_policy_that_can_hold_nothing_against_a_machine_says_why(policy, problem):
    assert any(problem in each for each in policy_problems(policy))
