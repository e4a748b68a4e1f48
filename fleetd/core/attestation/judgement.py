"""A log and its facts held against a class's policy: in HookOS (`install`) and on the installed system (`check`)."""

from collections.abc import Iterable, Iterator

from fleetd.core.attestation.banks import HASH
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.eventlog.facts import LogFacts, MeasuredImage, SeparatorState
from fleetd.core.attestation.eventlog.framing import LogFormat
from fleetd.core.attestation.eventlog.replay import JudgedLog, Trust
from fleetd.core.attestation.policy import (
    AllowedEvent,
    AllowRule,
    CheckPolicy,
    InstallBoot,
    InstallPolicy,
    SecureBoot,
)
from fleetd.core.findings import boot, eventlog
from fleetd.core.findings.finding import Finding

_FIRMWARE_PCRS = range(8)


def judge_install(judged: JudgedLog, facts: LogFacts, policy: InstallPolicy) -> tuple[Finding, ...]:
    """Judge the boot into HookOS; with `network-trusted` only what the log itself says is told."""
    strict = policy.boot is InstallBoot.JUDGED
    relied = {4, *_judged_inputs(judged, facts, policy.allow)} if strict else set()
    if policy.secure_boot is SecureBoot.REQUIRED or (strict and _names_authorities(policy.allow)):
        relied.add(7)
    findings = [*log_findings(judged, facts, frozenset(relied)), *_secure_boot(judged, facts, policy.secure_boot)]
    if strict:
        findings += _software(judged, facts, policy.allow)
        findings += _inputs(judged, facts, policy.allow)
    else:
        findings.append(boot.BootNotJudged())
    return tuple(findings)


def judge_check(judged: JudgedLog, facts: LogFacts, policy: CheckPolicy) -> tuple[Finding, ...]:
    """Judge the boot of the installed system by what must be true of it at any time, baseline apart."""
    relied: set[int] = set()
    if policy.secure_boot is SecureBoot.REQUIRED or _names_authorities(policy.allow):
        relied.add(7)
    if policy.allow:
        relied.add(4)
    findings = [*log_findings(judged, facts, frozenset(relied)), *_secure_boot(judged, facts, policy.secure_boot)]
    if policy.allow:
        findings += _software(judged, facts, policy.allow)
    return tuple(findings)


def log_findings(judged: JudgedLog, facts: LogFacts, relied: frozenset[int]) -> Iterator[Finding]:
    """Say what is wrong or odd with the log itself; only PCRs that the judgement relies on make it refuse."""
    if not any(event.pcr in _FIRMWARE_PCRS and event.kind != kinds.NO_ACTION for event in judged.log.events):
        yield eventlog.NoFirmwareEvents()
    unexplained = {pcr for pcr, trust in judged.trust.items() if trust is Trust.UNEXPLAINED}
    unexplained |= {pcr for pcr in relied if not judged.trusts(pcr) and not judged.assumed}
    if unexplained & relied:
        yield eventlog.PcrUnexplained(tuple(sorted(unexplained & relied)))
    if unexplained - relied:
        yield eventlog.PcrUnexplainedUnjudged(tuple(sorted(unexplained - relied)))
    yield from _separators(judged, facts, relied)
    if facts.debugger_used:
        yield eventlog.DebuggerUsed()
    if facts.dma_protection_disabled:
        yield eventlog.DmaProtectionDisabled()
    if facts.security_downgraded:
        yield eventlog.SecurityDowngraded()
    if facts.boot_attempts > 1:
        yield eventlog.SeveralBootAttempts(facts.boot_attempts)
    if judged.repeated:
        yield eventlog.EventsRepeated(judged.repeated)
    if judged.trust.get(11) is Trust.EXPLAINED_BEFORE_PHASES:
        yield eventlog.SystemdPhases()


def _separators(judged: JudgedLog, facts: LogFacts, relied: frozenset[int]) -> Iterator[Finding]:
    errors = tuple(pcr for pcr, state in facts.separators.items() if state is SeparatorState.ERROR)
    if errors:
        yield eventlog.SeparatorError(errors)
    if judged.log.format is LogFormat.CCEL:
        return
    extended = {event.pcr for event in judged.events if event.kind != kinds.NO_ACTION}
    expected = (extended & set(_FIRMWARE_PCRS)) | {pcr for pcr in relied & set(_FIRMWARE_PCRS) if judged.trusts(pcr)}
    missing = expected - facts.separators.keys()
    if missing & relied:
        yield eventlog.SeparatorMissing(tuple(sorted(missing & relied)))
    if missing - relied:
        yield eventlog.SeparatorMissingUnjudged(tuple(sorted(missing - relied)))


def _secure_boot(judged: JudgedLog, facts: LogFacts, demand: SecureBoot) -> Iterator[Finding]:
    if demand is not SecureBoot.REQUIRED or facts.secure_boot is True:
        return
    if facts.secure_boot is False:
        yield boot.SecureBootOff()
    elif not judged.trusts(7):
        yield boot.SecureBootUnknown("the log does not explain PCR 7")
    else:
        yield boot.SecureBootUnknown("the log has no such event that its digest vouches for")


def _software(judged: JudgedLog, facts: LogFacts, rules: tuple[AllowRule, ...]) -> Iterator[Finding]:
    """Every boot loader and kernel must match one of the rules."""
    if not judged.trusts(4):
        return
    images = facts.boot_loaders
    if not images:
        yield boot.NothingBooted()
    signed = _signers_allowed(facts, rules)
    for position, image in enumerate(images):
        abouts = [AllowedEvent.BOOT_LOADER] if position == 0 else [AllowedEvent.BOOT_LOADER, AllowedEvent.KERNEL]
        if signed & set(abouts) or any(_digest_allowed(image.digest, rules, about) for about in abouts):
            continue
        yield boot.SoftwareNotAllowed("boot loader or kernel", image.pcr, image.digest, _told(image, facts))


def _told(image: MeasuredImage, facts: LogFacts) -> str:
    signers = sorted({authority.fingerprint for authority in facts.authorities if not authority.before_separator})
    told = f"from {image.source}" if image.source else "of unknown origin"
    return f"{told}, Secure Boot authorities of this boot: {', '.join(signers) or 'none'}"


def _signers_allowed(facts: LogFacts, rules: tuple[AllowRule, ...]) -> set[AllowedEvent]:
    """For which events the rules allow every authority that this boot used; none without Secure Boot.

    Firmware logs an authority once, not beside each image: so all must be allowed, and there must be one.
    """
    used = {authority.fingerprint for authority in facts.authorities if not authority.before_separator}
    if facts.secure_boot is not True or not used:
        return set()
    found: set[AllowedEvent] = set()
    for about in (AllowedEvent.BOOT_LOADER, AllowedEvent.KERNEL):
        allowed = {rule.authority.hex() for rule in rules if rule.authority is not None and rule.is_about(about)}
        if used <= allowed:
            found.add(about)
    return found


def _names_authorities(rules: tuple[AllowRule, ...]) -> bool:
    return any(rule.authority is not None for rule in rules)


def _digest_allowed(digest: bytes, rules: Iterable[AllowRule], about: AllowedEvent) -> bool:
    return any(rule.digest == digest and rule.is_about(about) for rule in rules)


def _inputs(judged: JudgedLog, facts: LogFacts, rules: tuple[AllowRule, ...]) -> Iterator[Finding]:
    """What was handed to the software beside itself: command lines, and initrds unless they are inside a UKI.

    systemd-stub measures into PCR 12 whatever overrides or adds to the UKI's own command line, so nothing there is the
    good case. Whatever stands in a judged PCR counts, of any type: types are not covered by digests.
    """
    pcrs = _judged_inputs(judged, facts, rules)
    harmless = {HASH[judged.bank](payload).digest() for payload in (bytes(4), b"\xff" * 4, b"WBCL")}
    for event in judged.events:
        digest = judged.digest(event)
        if event.pcr not in pcrs or event.kind == kinds.NO_ACTION or digest is None or digest in harmless:
            continue
        about = (AllowedEvent.COMMAND_LINE, AllowedEvent.INITRD) if event.pcr == 9 else (AllowedEvent.COMMAND_LINE,)
        if not any(_digest_allowed(digest, rules, each) for each in about):
            what = "file or command line" if event.pcr == 9 else "command line"
            shown = judged.log.data(event)[:120]
            told = shown.replace(b"\x00", b"").decode("utf-8", "replace")
            yield boot.SoftwareNotAllowed(what, event.pcr, digest, f"which calls itself {_clean(told)!r}")


def _judged_inputs(judged: JudgedLog, facts: LogFacts, rules: tuple[AllowRule, ...]) -> set[int]:
    """PCRs 8 and 12 always. PCR 9 repeats what a UKI holds: only when a rule speaks of it, or no UKI was measured."""
    beside_loaders = {AllowedEvent.INITRD, AllowedEvent.COMMAND_LINE}
    speaks_of_pcr9 = any(rule.digest is not None and rule.event in beside_loaders for rule in rules)
    uki_measured = judged.trusts(11) and bool(facts.uki_sections)
    return {8, 12} if uki_measured and not speaks_of_pcr9 else {8, 9, 12}


def _clean(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)
