"""The whole judgement of an enrollment and of a boot check: pure, over values, the entry points of the use cases.

Cheap before dear, structure before signature, identity before policy; it goes on where it safely can, so that an owner
sees all that is wrong at once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fleetd.core.attestation.banks import Bank, PcrSelection, PcrValues, reset_value
from fleetd.core.attestation.baseline import Baseline, Difference, changed_pcrs, compare, refreshed, take_baseline
from fleetd.core.attestation.clock import EarlierClock, judge_clock
from fleetd.core.attestation.device_keys import judge_lak, judge_ldevid, known_public
from fleetd.core.attestation.eventlog.facts import LogFacts
from fleetd.core.attestation.eventlog.framing import MAX_LOG, LogTooLarge, parse_log
from fleetd.core.attestation.eventlog.meaning import read_facts
from fleetd.core.attestation.eventlog.replay import JudgedLog, judge_log
from fleetd.core.attestation.judgement import judge_check, judge_install
from fleetd.core.attestation.policy import AttestationPolicy, InstallBoot, SecureBoot
from fleetd.core.attestation.quote import RawCertify, RawQuote, VerifiedQuote, verify_certify, verify_quote
from fleetd.core.attestation.structures import MalformedStructure, PublicArea
from fleetd.core.attestation.transcript import Label, Transcript, extra_data
from fleetd.core.findings import boot, eventlog
from fleetd.core.findings.finding import Finding, Severity, refuses
from fleetd.core.findings.quote import KeyForm
from fleetd.core.findings.softened import OnlyWarns


class BootWeight(StrEnum):
    """What findings about a boot do to the verdict."""

    REFUSES = "refuses"
    """Something will be installed or delivered: the boot must be as the class demands."""
    WARNS = "warns"
    """The machine will be erased: who it is must be proven, what it runs is only told."""


@dataclass(frozen=True, slots=True)
class EnrollmentEvidence:
    """What a machine sent. Public areas are TPMT_PUBLIC, quote and certify TPMS_ATTEST, signatures TPMT_SIGNATURE."""

    lak_public: bytes
    ldevid_public: bytes
    quote: RawQuote
    quote_signature: bytes
    certify: RawCertify
    certify_signature: bytes
    pcrs: PcrValues
    log: bytes | None


@dataclass(frozen=True, slots=True)
class EnrollmentExpectation:
    """What the challenge asked for; the transcript binds all that the machine claims."""

    nonce: bytes
    transcript: Transcript
    demanded: PcrSelection


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of an enrollment; `quote` and `facts` are set only where they were verified."""

    passed: bool
    findings: tuple[Finding, ...]
    quote: VerifiedQuote | None = None
    facts: LogFacts | None = None
    secure_boot: bool | None = None
    boot_judged: bool = False
    """Whether the software that ran was judged, and not trusted to the network."""
    lak: PublicArea | None = None
    ldevid: PublicArea | None = None


def verify_enrollment(
    evidence: EnrollmentEvidence,
    expected: EnrollmentExpectation,
    policy: AttestationPolicy,
    weight: BootWeight = BootWeight.REFUSES,
) -> Verdict:
    """Judge the keys, the quote, the log and the boot of an enrollment.

    Not judged here: the endorsement keys and the activation. Only with those does a passed verdict mean a machine.
    """
    findings: list[Finding] = []
    lak = _key("LAK", evidence.lak_public, findings)
    ldevid = _key("LDevID", evidence.ldevid_public, findings)
    if lak is not None:
        findings += judge_lak(lak)
    if ldevid is not None:
        findings += judge_ldevid(ldevid)
    quote = None
    if lak is not None:
        quote = _enrolled(lak, ldevid, evidence, expected, findings)
    identity_refused = refuses(findings)
    facts, about_boot = _installed_boot(quote, evidence.log, policy)
    findings += about_boot if weight is BootWeight.REFUSES else map(_softened, about_boot)
    return Verdict(
        passed=not refuses(findings),
        findings=tuple(findings),
        quote=quote if not identity_refused else None,
        facts=facts,
        secure_boot=None if facts is None else facts.secure_boot,
        boot_judged=policy.install.boot is InstallBoot.JUDGED and facts is not None and not refuses(about_boot),
        lak=lak,
        ldevid=ldevid,
    )


def _enrolled(
    lak: PublicArea,
    ldevid: PublicArea | None,
    evidence: EnrollmentEvidence,
    expected: EnrollmentExpectation,
    findings: list[Finding],
) -> VerifiedQuote | None:
    if ldevid is not None:
        asked = extra_data(Label.ENROLL_CERTIFY, expected.nonce, expected.transcript)
        certified = verify_certify(evidence.certify, evidence.certify_signature, lak, asked, ldevid)
        if isinstance(certified, tuple):
            findings += certified
    asked = extra_data(Label.ENROLL_QUOTE, expected.nonce, expected.transcript)
    quote = verify_quote(evidence.quote, evidence.quote_signature, lak, asked, expected.demanded, evidence.pcrs)
    if isinstance(quote, tuple):
        findings += quote
        return None
    findings += judge_clock(None, quote.clock)
    return quote


def _installed_boot(
    quote: VerifiedQuote | None, log: bytes | None, policy: AttestationPolicy
) -> tuple[LogFacts | None, list[Finding]]:
    """D and E. Without a verified quote nothing vouches for a log: only that it can be read is looked at."""
    strict = policy.install.boot is InstallBoot.JUDGED or policy.install.secure_boot is SecureBoot.REQUIRED
    if quote is None:
        return None, _readable(log)
    judged, findings = _judged_log(quote, log, policy.bank)
    if judged is None:
        if not strict:
            findings = [OnlyWarns(each) if each.severity is Severity.REFUSES else each for each in findings]
            findings.append(boot.BootNotJudged())
        return None, findings
    facts = read_facts(judged)
    findings += judge_install(judged, facts, policy.install)
    return facts, findings


def _judged_log(quote: VerifiedQuote, log: bytes | None, bank: Bank) -> tuple[JudgedLog | None, list[Finding]]:
    if log is None:
        return None, [eventlog.LogMissing()]
    try:
        parsed = parse_log(log)
    except MalformedStructure as error:
        return None, [_unreadable(error)]
    quoted = quote.values(bank)
    if parsed.column(bank) is None:
        untouched = all(quoted.get(pcr) == reset_value(bank, pcr) for pcr in range(8) if pcr in quoted)
        logged = tuple(each.value for each in parsed.banks)
        missing: list[Finding] = [eventlog.BankNotLogged(bank.value, logged)]
        return None, [*missing, eventlog.BankNeverExtended(bank.value)] if untouched else missing
    return judge_log(parsed, bank, quoted), []


def _readable(log: bytes | None) -> list[Finding]:
    if log is None:
        return []
    try:
        parse_log(log)
    except MalformedStructure as error:
        return [_unreadable(error)]
    return []


def _unreadable(error: MalformedStructure) -> Finding:
    return eventlog.LogTooLong(MAX_LOG) if isinstance(error, LogTooLarge) else eventlog.LogMalformed(str(error))


def _softened(finding: Finding) -> Finding:
    return OnlyWarns(finding) if finding.severity is Severity.REFUSES else finding


def _key(name: str, public: bytes, findings: list[Finding]) -> PublicArea | None:
    try:
        return known_public(public)
    except MalformedStructure as error:
        findings.append(KeyForm(name, str(error)))
        return None


class CheckResult(StrEnum):
    """The outcome of a boot check, as the machine API names it."""

    OK = "ok"
    FAILED = "failed"
    DRIFTED = "drifted"
    LOG_NEEDED = "log-needed"


@dataclass(frozen=True, slots=True)
class CheckEvidence:
    """What an installed machine sent; for a redemption, too."""

    quote: RawQuote
    quote_signature: bytes
    pcrs: PcrValues
    log: bytes | None = None


@dataclass(frozen=True, slots=True)
class CheckExpectation:
    """What the challenge asked for, and of whom: the LAK is the one that enrolled."""

    lak: PublicArea
    nonce: bytes
    transcript: Transcript
    demanded: PcrSelection
    label: Label = Label.CHECK


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The judgement of a boot check.

    `baseline` is to be stored when the result is ok and it is set: the first one, or the old one with what the class
    only reports brought up to date. When the result is drifted it is what the owner accepts by accepting the difference.
    """

    result: CheckResult
    findings: tuple[Finding, ...]
    quote: VerifiedQuote | None = None
    difference: Difference | None = None
    baseline: Baseline | None = None
    facts: LogFacts | None = None


def verify_check(
    evidence: CheckEvidence,
    expected: CheckExpectation,
    baseline: Baseline | None,
    policy: AttestationPolicy,
    earlier: EarlierClock | None,
) -> CheckVerdict:
    """Judge a boot check: the quote, the TPM's clock, then what was booted against policy and baseline.

    With an unchanged baseline no log is needed. Without a baseline, or when one of its PCRs changed, the log is asked
    for. A first baseline comes back in the verdict; nothing is taken as baseline while anything refuses.
    """
    asked = extra_data(expected.label, expected.nonce, expected.transcript)
    quote = verify_quote(
        evidence.quote, evidence.quote_signature, expected.lak, asked, expected.demanded, evidence.pcrs
    )
    if isinstance(quote, tuple):
        return CheckVerdict(CheckResult.FAILED, quote)
    findings: list[Finding] = list(judge_clock(earlier, quote.clock))
    if refuses(findings):
        return CheckVerdict(CheckResult.FAILED, tuple(findings), quote)
    quoted = quote.values(policy.bank)
    if baseline is not None and baseline.bank is not policy.bank:
        baseline = None
    changed = () if baseline is None else changed_pcrs(baseline, quoted, _pcrs_to_judge(policy))
    if evidence.log is None:
        return _without_log(quote, findings, baseline, changed, policy)
    return _with_log(quote, evidence.log, findings, baseline, policy)


def _pcrs_to_judge(policy: AttestationPolicy) -> tuple[int, ...]:
    """PCRs whose change needs a log: those of the baseline, and those that other demands of the class rest on."""
    check = policy.check
    needed = set(check.baseline)
    if check.secure_boot is SecureBoot.REQUIRED or any(rule.authority is not None for rule in check.allow):
        needed.add(7)
    if check.allow:
        needed.add(4)
    return tuple(sorted(needed))


def _without_log(
    quote: VerifiedQuote,
    findings: list[Finding],
    baseline: Baseline | None,
    changed: Sequence[int],
    policy: AttestationPolicy,
) -> CheckVerdict:
    if baseline is None or changed:
        return CheckVerdict(CheckResult.LOG_NEEDED, tuple(findings), quote, Difference(tuple(changed)))
    reported = changed_pcrs(baseline, quote.values(policy.bank), policy.check.report_only)
    if reported:
        findings.append(boot.BootChangedReportOnly(reported, ()))
    return CheckVerdict(CheckResult.OK, tuple(findings), quote, Difference((), reported))


def _with_log(
    quote: VerifiedQuote,
    log: bytes,
    findings: list[Finding],
    baseline: Baseline | None,
    policy: AttestationPolicy,
) -> CheckVerdict:
    quoted = quote.values(policy.bank)
    judged, about_log = _judged_log(quote, log, policy.bank)
    facts = None if judged is None else read_facts(judged)
    if judged is not None and facts is not None:
        about_log += judge_check(judged, facts, policy.check)
    elif policy.check.secure_boot is SecureBoot.OPTIONAL and not policy.check.allow:
        about_log = [_softened(each) for each in about_log]
    findings += about_log
    if refuses(about_log):
        return CheckVerdict(CheckResult.FAILED, tuple(findings), quote, facts=facts)
    if baseline is None:
        taken = new_baseline(quote, judged, facts, policy)
        if not policy.check.allow:
            findings.append(boot.BaselineOnTrust())
        return CheckVerdict(CheckResult.OK, tuple(findings), quote, baseline=taken, facts=facts)
    difference = compare(baseline, quoted, judged, policy.check.baseline, policy.check.report_only)
    if difference.reported:
        findings.append(boot.BootChangedReportOnly(difference.reported, difference.sentences(difference.reported)))
    if difference.pcrs:
        findings.append(boot.BootDrifted(difference.pcrs, difference.sentences(difference.pcrs)))
        taken = new_baseline(quote, judged, facts, policy)
        return CheckVerdict(CheckResult.DRIFTED, tuple(findings), quote, difference, taken, facts)
    fresh = None
    if difference.reported:
        fresh = refreshed(baseline, new_baseline(quote, judged, facts, policy), policy.check.baseline)
    return CheckVerdict(CheckResult.OK, tuple(findings), quote, difference, fresh, facts)


def new_baseline(
    quote: VerifiedQuote, judged: JudgedLog | None, facts: LogFacts | None, policy: AttestationPolicy
) -> Baseline:
    """Return the baseline that this quote and log would make: what an owner accepts when accepting a difference."""
    remembered = {*policy.check.baseline, *policy.check.report_only}
    return take_baseline(
        policy.bank, quote.values(policy.bank), remembered, judged, None if facts is None else facts.secure_boot
    )
