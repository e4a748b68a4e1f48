"""Findings about event logs: whether they can be read, and what a quote vouches for."""

from dataclasses import dataclass
from typing import ClassVar, override

from fleetd.core.findings.finding import Finding, Severity


@dataclass(frozen=True, slots=True)
class LogMissing(Finding):
    """There is no event log where one is needed."""

    code: ClassVar[str] = "eventlog-missing"

    @override
    def sentence(self) -> str:
        return "The machine sent no event log, so what it booted cannot be judged."

    @override
    def next_step(self) -> str:
        return (
            "Check that the kernel offers /sys/kernel/security/tpm0/binary_bios_measurements and firmware keeps a log."
        )


@dataclass(frozen=True, slots=True)
class LogTooLong(Finding):
    """The log is larger than what is looked at."""

    limit: int

    code: ClassVar[str] = "eventlog-too-large"

    @override
    def sentence(self) -> str:
        return f"The event log is larger than {self.limit} bytes and was not looked at."

    @override
    def next_step(self) -> str:
        return "Check what the machine sends; event logs of real machines are far smaller."


@dataclass(frozen=True, slots=True)
class LogMalformed(Finding):
    """The log cannot be read."""

    problem: str

    code: ClassVar[str] = "eventlog-malformed"

    @override
    def sentence(self) -> str:
        return f"The event log cannot be read: {self.problem}."

    @override
    def next_step(self) -> str:
        return (
            "Read the log again on the machine, from /sys/kernel/security/tpm0/binary_bios_measurements and as it stands;"
            " if it is the same there, update the firmware."
        )


@dataclass(frozen=True, slots=True)
class BankNotLogged(Finding):
    """The log has no digests of the judged bank: firmware did not measure into it."""

    bank: str
    logged: tuple[str, ...]

    code: ClassVar[str] = "eventlog-bank-missing"

    @override
    def sentence(self) -> str:
        return f"The event log has no digests for the {self.bank} bank, only for {', '.join(self.logged) or 'none'}."

    @override
    def next_step(self) -> str:
        return "Switch the bank on in the firmware setup, or name a bank in the class that firmware measures into."


@dataclass(frozen=True, slots=True)
class BankNeverExtended(Finding):
    """The bank is active but firmware measured nothing into it: anyone could (CVE-2021-42299)."""

    bank: str

    code: ClassVar[str] = "pcr-bank-untouched"

    @override
    def sentence(self) -> str:
        return f"Firmware measured nothing into the {self.bank} bank: PCRs 0 to 7 hold their reset values."

    @override
    def next_step(self) -> str:
        return "Name a bank in the class that firmware measures into, or update the firmware."


@dataclass(frozen=True, slots=True)
class PcrUnexplained(Finding):
    """The log does not lead to the quoted value of a PCR that the judgement rests on."""

    pcrs: tuple[int, ...]

    code: ClassVar[str] = "pcr-unexplained"

    @override
    def sentence(self) -> str:
        return f"The event log does not explain the quoted values of PCRs {', '.join(map(str, self.pcrs))}."

    @override
    def next_step(self) -> str:
        return "Power the machine off and on and attest again; if it repeats, the log or the machine is tampered with."


@dataclass(frozen=True, slots=True)
class PcrUnexplainedUnjudged(Finding):
    """The log does not lead to the quoted value of a PCR that no judgement rests on."""

    pcrs: tuple[int, ...]

    code: ClassVar[str] = "pcr-unexplained-unjudged"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return f"The event log does not explain PCRs {', '.join(map(str, self.pcrs))}; what it says about them was not used."

    @override
    def next_step(self) -> str:
        return "Nothing needs to be done: some firmware and operating systems extend PCRs without logging it."


@dataclass(frozen=True, slots=True)
class NoFirmwareEvents(Finding):
    """Nothing in the log is about PCRs 0 to 7."""

    code: ClassVar[str] = "eventlog-no-firmware-events"

    @override
    def sentence(self) -> str:
        return "The event log says nothing about PCRs 0 to 7: it is not a log of firmware."

    @override
    def next_step(self) -> str:
        return "Send the firmware's log (binary_bios_measurements), not one of a dynamic launch."


@dataclass(frozen=True, slots=True)
class SeparatorMissing(Finding):
    """Firmware did not mark where its part of a judged PCR ends."""

    pcrs: tuple[int, ...]

    code: ClassVar[str] = "separator-missing"

    @override
    def sentence(self) -> str:
        return f"No separator ends the firmware's part of PCRs {', '.join(map(str, self.pcrs))}."

    @override
    def next_step(self) -> str:
        return "Update the firmware; without separators its events cannot be told from those of the operating system."


@dataclass(frozen=True, slots=True)
class SeparatorMissingUnjudged(Finding):
    """Firmware did not mark where its part of a PCR ends that no judgement rests on."""

    pcrs: tuple[int, ...]

    code: ClassVar[str] = "separator-missing-unjudged"
    severity: ClassVar[Severity] = Severity.NOTES

    @override
    def sentence(self) -> str:
        return f"No separator ends the firmware's part of PCRs {', '.join(map(str, self.pcrs))}."

    @override
    def next_step(self) -> str:
        return "Nothing needs to be done; some firmware leaves separators out."


@dataclass(frozen=True, slots=True)
class SeparatorError(Finding):
    """Firmware reported an error while it measured."""

    pcrs: tuple[int, ...]

    code: ClassVar[str] = "separator-error"

    @override
    def sentence(self) -> str:
        return f"Firmware reported an error while measuring into PCRs {', '.join(map(str, self.pcrs))}."

    @override
    def next_step(self) -> str:
        return "Power the machine off and on; if it repeats, its firmware or TPM needs attention."


@dataclass(frozen=True, slots=True)
class DmaProtectionDisabled(Finding):
    """Firmware started with protection against DMA attacks switched off."""

    code: ClassVar[str] = "dma-protection-disabled"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return "Firmware reports that protection against DMA attacks is disabled."

    @override
    def next_step(self) -> str:
        return "Switch on kernel DMA protection (IOMMU) in the firmware setup."


@dataclass(frozen=True, slots=True)
class SecurityDowngraded(Finding):
    """Firmware reports a lowered security level."""

    code: ClassVar[str] = "firmware-security-downgraded"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return "Firmware reports that its security level was lowered."

    @override
    def next_step(self) -> str:
        return "Look at the security settings in the firmware setup."


@dataclass(frozen=True, slots=True)
class DebuggerUsed(Finding):
    """Firmware was in debug mode."""

    code: ClassVar[str] = "firmware-debug-mode"

    @override
    def sentence(self) -> str:
        return "Firmware reports that it runs in debug mode: nothing it measured can be relied on."

    @override
    def next_step(self) -> str:
        return "Switch the debug mode off, or install production firmware."


@dataclass(frozen=True, slots=True)
class SeveralBootAttempts(Finding):
    """Firmware tried more than one boot entry."""

    attempts: int

    code: ClassVar[str] = "boot-attempts"
    severity: ClassVar[Severity] = Severity.NOTES

    @override
    def sentence(self) -> str:
        return f"Firmware tried {self.attempts} boot entries before one stayed."

    @override
    def next_step(self) -> str:
        return "Nothing needs to be done; an earlier boot entry did not start an operating system."


@dataclass(frozen=True, slots=True)
class EventsRepeated(Finding):
    """The kernel's copy of the log has events twice."""

    count: int

    code: ClassVar[str] = "eventlog-repeated"
    severity: ClassVar[Severity] = Severity.NOTES

    @override
    def sentence(self) -> str:
        return (
            f"{self.count} events stand twice in the log, as kernels before 5.3 write them; the copies were left out."
        )

    @override
    def next_step(self) -> str:
        return "Nothing needs to be done; a newer kernel writes them once."


@dataclass(frozen=True, slots=True)
class SystemdPhases(Finding):
    """PCR 11 went on after boot, as systemd does."""

    code: ClassVar[str] = "pcr11-phases"
    severity: ClassVar[Severity] = Severity.NOTES

    @override
    def sentence(self) -> str:
        return "PCR 11 holds what the log tells, and then systemd's boot phases."

    @override
    def next_step(self) -> str:
        return "Nothing needs to be done."
