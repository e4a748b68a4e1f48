"""Findings about what a machine booted, and how that differs from before."""

from dataclasses import dataclass
from typing import ClassVar, override

from fleetd.core.findings.finding import Finding, Severity


@dataclass(frozen=True, slots=True)
class SecureBootOff(Finding):
    """The class requires Secure Boot and the machine started without it."""

    code: ClassVar[str] = "secure-boot-off"

    @override
    def sentence(self) -> str:
        return "Secure Boot is off, and the class requires it."

    @override
    def next_step(self) -> str:
        return "Switch Secure Boot on in the firmware setup, or change the class."


@dataclass(frozen=True, slots=True)
class SecureBootUnknown(Finding):
    """The class requires Secure Boot and the evidence does not tell its state."""

    problem: str

    code: ClassVar[str] = "secure-boot-unknown"

    @override
    def sentence(self) -> str:
        return f"The evidence does not show that Secure Boot is on: {self.problem}."

    @override
    def next_step(self) -> str:
        return "Look at the event log with `fleetd inspect eventlog`; the firmware may need an update."


@dataclass(frozen=True, slots=True)
class SoftwareNotAllowed(Finding):
    """Software was started, or told something, that the class does not allow."""

    what: str
    pcr: int
    digest: bytes
    source: str

    code: ClassVar[str] = "boot-not-allowed"

    @override
    def sentence(self) -> str:
        return f"The machine booted a {self.what} that the class does not allow: PCR {self.pcr}, digest {self.digest.hex()}, {self.source}."

    @override
    def next_step(self) -> str:
        return "If this is your own software, add the digest or its signer to `allow`; if not, find out who served it."


@dataclass(frozen=True, slots=True)
class NothingBooted(Finding):
    """The log shows no software that was started, so nothing can be judged."""

    code: ClassVar[str] = "boot-nothing-measured"

    @override
    def sentence(self) -> str:
        return "The event log shows no boot loader at all, so nothing could be judged."

    @override
    def next_step(self) -> str:
        return "Boot the machine by UEFI with the TPM switched on; legacy boot is not judged."


@dataclass(frozen=True, slots=True)
class BootNotJudged(Finding):
    """The class trusts the network for what runs during an installation."""

    code: ClassVar[str] = "boot-network-trusted"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return "The TPM proves which machine this is; that it runs the right HookOS is trusted to the network."

    @override
    def next_step(self) -> str:
        return "Use `install.boot: judged` with a HookOS of your own to have the software judged as well."


@dataclass(frozen=True, slots=True)
class BaselineOnTrust(Finding):
    """The first boot check was taken as the baseline without a rule that bounds it."""

    code: ClassVar[str] = "baseline-on-trust"
    severity: ClassVar[Severity] = Severity.NOTES

    @override
    def sentence(self) -> str:
        return "What this first boot check showed was taken as the baseline, as the class has no `check.allow`."

    @override
    def next_step(self) -> str:
        return "Add `check.allow` to the class to bound what a first baseline may be."


@dataclass(frozen=True, slots=True)
class BootDrifted(Finding):
    """PCRs of the baseline changed."""

    pcrs: tuple[int, ...]
    changes: tuple[str, ...]

    code: ClassVar[str] = "boot-drifted"

    @override
    def sentence(self) -> str:
        told = " ".join(self.changes[:10]) or "No event log tells why."
        more = f" And {len(self.changes) - 10} more." if len(self.changes) > 10 else ""
        return f"The boot differs from the baseline in PCRs {', '.join(map(str, self.pcrs))}. {told}{more}"

    @override
    def next_step(self) -> str:
        return "If you made this change, accept it on the machine's page; if not, find out who did."


@dataclass(frozen=True, slots=True)
class BootChangedReportOnly(Finding):
    """PCRs changed that the class only reports."""

    pcrs: tuple[int, ...]
    changes: tuple[str, ...]

    code: ClassVar[str] = "boot-changed"
    severity: ClassVar[Severity] = Severity.NOTES

    @override
    def sentence(self) -> str:
        told = " ".join(self.changes[:5])
        return f"PCRs {', '.join(map(str, self.pcrs))}, which the class only reports, changed. {told}".rstrip()

    @override
    def next_step(self) -> str:
        return "Nothing needs to be done; put a PCR into `check.baseline` to have changes held against machines."


@dataclass(frozen=True, slots=True)
class TpmCleared(Finding):
    """The TPM's counters went back to the start."""

    earlier_resets: int
    resets: int

    code: ClassVar[str] = "tpm-cleared"

    @override
    def sentence(self) -> str:
        return f"The TPM was cleared: its reset counter went from {self.earlier_resets} to {self.resets}."

    @override
    def next_step(self) -> str:
        return "Ask for a fresh attestation of the machine; its keys are made anew."


@dataclass(frozen=True, slots=True)
class ClockWentBack(Finding):
    """A counter of the TPM went back without a reset: the quote is older than one seen before."""

    counter: str

    code: ClassVar[str] = "tpm-clock-back"

    @override
    def sentence(self) -> str:
        return f"The TPM's {self.counter} is behind that of an earlier check: the quote is an old one."

    @override
    def next_step(self) -> str:
        return "Treat the machine as tampered with until a fresh attestation passes."


@dataclass(frozen=True, slots=True)
class ClockOffPace(Finding):
    """Within one boot the TPM's clock moved much more or less than the server's."""

    tpm_seconds: int
    server_seconds: int

    code: ClassVar[str] = "tpm-clock-pace"

    @override
    def sentence(self) -> str:
        return f"Since the last check the TPM's clock moved {self.tpm_seconds} s and the server's {self.server_seconds} s: the quote was not made when it was asked for."

    @override
    def next_step(self) -> str:
        return "Ask for a fresh attestation; if it repeats, treat the machine as tampered with."
