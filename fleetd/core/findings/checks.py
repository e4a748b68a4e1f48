"""Findings of boot checks beyond the quote and the boot itself."""

from dataclasses import dataclass
from typing import ClassVar, override

from fleetd.core.findings.finding import Finding, Severity


@dataclass(frozen=True, slots=True)
class CertificateNotValid(Finding):
    """The machine uses a certificate that was revoked, or that is not its own."""

    serials: tuple[str, ...]

    code: ClassVar[str] = "certificate-not-valid"

    @override
    def sentence(self) -> str:
        return (
            f"The machine uses certificates that are revoked or not its own: {', '.join(self.serials) or 'none named'}."
        )

    @override
    def next_step(self) -> str:
        return "Attest the machine again; it gets certificates of its own then."


@dataclass(frozen=True, slots=True)
class BootedOtherThanRedeemed(Finding):
    """The first check shows another boot than the quote that fetched the seed."""

    pcrs: tuple[int, ...]

    code: ClassVar[str] = "boot-not-as-redeemed"

    @override
    def sentence(self) -> str:
        listed = ", ".join(map(str, self.pcrs))
        return f"The machine booted otherwise than when it fetched its seed: PCRs {listed} differ."

    @override
    def next_step(self) -> str:
        return (
            "Accept the offered baseline if the change was on purpose (a firmware setting, an update), or decline it."
        )


@dataclass(frozen=True, slots=True)
class MachineSays(Finding):
    """Something that the machine's own client noticed."""

    about: str
    message: str

    code: ClassVar[str] = "machine-says"
    severity: ClassVar[Severity] = Severity.NOTES

    @override
    def sentence(self) -> str:
        return f"The machine's client says ({self.about}): {self.message}"

    @override
    def next_step(self) -> str:
        return "Look at the machine's console or journal."
