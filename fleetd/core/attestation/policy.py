"""What a machine class demands of attestation, as values. `classes.py` builds them from classes.json."""

from dataclasses import dataclass, field
from enum import StrEnum

from fleetd.core.attestation.banks import Bank, PcrSelection

DEFAULT_PCRS = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14)


class InstallBoot(StrEnum):
    """How the boot into HookOS is judged."""

    JUDGED = "judged"
    """The event log must show that only allowed software was started."""
    NETWORK_TRUSTED = "network-trusted"
    """The TPM proves which machine asks; that it runs HookOS is trusted to the provisioning network."""


class SecureBoot(StrEnum):
    """What is demanded of Secure Boot."""

    REQUIRED = "required"
    OPTIONAL = "optional"


class EkCertificate(StrEnum):
    """Whether the TPM must come with a manufacturer's certificate."""

    REQUIRED = "required"
    OPTIONAL = "optional"


class AllowedEvent(StrEnum):
    """What an entry of `allow` is about."""

    BOOT_LOADER = "boot-loader"
    """An EFI application: boot loader, UKI, or kernel with an EFI stub. By digest or authority."""
    KERNEL = "kernel"
    """The same, but never as the first thing that firmware starts."""
    COMMAND_LINE = "command-line"
    """A command line or its like that systemd-stub, GRUB or Linux measured into PCR 8, 9 or 12. By digest."""
    INITRD = "initrd"
    """An initrd or other file measured into PCR 9. By digest."""


@dataclass(frozen=True, slots=True)
class AllowRule:
    """One alternative of `allow`. Exactly one of `digest` and `authority` is set.

    `digest` is the event's digest in the policy's bank: for EFI applications the Authenticode digest. `authority` is the
    SHA-256 of a certificate that Secure Boot or shim used. No `event` means any.
    """

    event: AllowedEvent | None = None
    digest: bytes | None = None
    authority: bytes | None = None

    def is_about(self, event: AllowedEvent) -> bool:
        """Tell whether the rule speaks of this kind of event."""
        return self.event is None or self.event is event


@dataclass(frozen=True, slots=True)
class InstallPolicy:
    """What is demanded while HookOS runs."""

    boot: InstallBoot
    secure_boot: SecureBoot = SecureBoot.OPTIONAL
    allow: tuple[AllowRule, ...] = ()


@dataclass(frozen=True, slots=True)
class CheckPolicy:
    """What is demanded of the installed operating system at each boot check."""

    baseline: tuple[int, ...] = (0, 2, 3, 7)
    report_only: tuple[int, ...] = (1, 4, 5, 6, 8, 9, 12, 13, 14)
    secure_boot: SecureBoot = SecureBoot.OPTIONAL
    allow: tuple[AllowRule, ...] = ()


@dataclass(frozen=True, slots=True)
class AttestationPolicy:
    """The `attestation` part of a machine class."""

    install: InstallPolicy
    check: CheckPolicy = field(default_factory=CheckPolicy)
    bank: Bank = Bank.SHA256
    select: tuple[int, ...] = DEFAULT_PCRS
    ek_certificate: EkCertificate = EkCertificate.REQUIRED

    @property
    def selection(self) -> PcrSelection:
        """The PCRs that a challenge asks for."""
        return PcrSelection.of(self.bank, *self.select)


def policy_problems(policy: AttestationPolicy) -> tuple[str, ...]:
    """Return what makes a policy unusable, in words for the file's author; empty when it is good.

    A policy that cannot hold anything against a machine is refused when it is written, not when it is needed.
    """
    problems: list[str] = []
    selected = set(policy.select)
    if policy.bank is Bank.SHA1:
        problems.append("pcrs.bank: sha1 is too weak to rely on; name a bank that the TPM has and firmware extends")
    if not all(0 <= pcr <= 23 for pcr in (*policy.select, *policy.check.baseline, *policy.check.report_only)):
        problems.append("PCR numbers go from 0 to 23")
    if not selected:
        problems.append("pcrs.select: at least one PCR must be quoted")
    missing = sorted(set(policy.check.baseline) - selected)
    if missing:
        problems.append(f"check.baseline: PCRs {missing} are not in pcrs.select")
    if policy.install.boot is InstallBoot.JUDGED:
        if not policy.install.allow:
            problems.append("install.allow: judged needs at least one entry")
        absent = sorted({4, 7, 8, 9, 11, 12} - selected)
        if absent:
            problems.append(f"pcrs.select: install.boot judged needs PCRs {absent} too")
    if (policy.install.secure_boot is SecureBoot.REQUIRED or policy.check.secure_boot is SecureBoot.REQUIRED) and (
        7 not in selected
    ):
        problems.append("pcrs.select: secure_boot required needs PCR 7")
    if policy.check.allow and 4 not in selected:
        problems.append("pcrs.select: check.allow needs PCR 4")
    rules = (*policy.install.allow, *policy.check.allow)
    if any(rule.authority is not None for rule in rules) and 7 not in selected:
        problems.append("pcrs.select: an authority in allow needs PCR 7")
    problems.extend(
        "allow: an entry has either a digest or an authority"
        for rule in rules
        if (rule.digest is None) == (rule.authority is None)
    )
    return tuple(problems)
