"""Findings about who comes to fetch a seed."""

from dataclasses import dataclass
from typing import ClassVar, override

from fleetd.core.findings.finding import Finding, Severity


@dataclass(frozen=True, slots=True)
class TicketFromOtherHardware(Finding):
    """A ticket was shown by a machine with another serial or UUID; it is burnt."""

    fact: str

    code: ClassVar[str] = "ticket-other-hardware"

    @override
    def sentence(self) -> str:
        return f"The seed's ticket was shown by a machine with another {self.fact}; the ticket is void now."

    @override
    def next_step(self) -> str:
        return "Find out who holds the disk, rotate the secrets of the class if in doubt, and provision again."


@dataclass(frozen=True, slots=True)
class TicketFromOtherAddress(Finding):
    """A ticket was shown from another address; it stays usable for its own machine."""

    address: str

    code: ClassVar[str] = "ticket-other-address"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return f"The seed's ticket was shown from the address {self.address}, which is not where it belongs."

    @override
    def next_step(self) -> str:
        return "Find out what has that address; the machine's own redemption still works."


@dataclass(frozen=True, slots=True)
class TicketWithoutFact(Finding):
    """A Talos node showed its code without saying what it is; the code stays usable."""

    fact: str

    code: ClassVar[str] = "ticket-without-fact"
    severity: ClassVar[Severity] = Severity.WARNS

    @override
    def sentence(self) -> str:
        return f"The node's code was shown without its {self.fact}, so nothing was given."

    @override
    def next_step(self) -> str:
        return "Put ?code=${code}&uuid=${uuid}&serial=${serial}&mac=${mac} behind the image's talos.config address."


@dataclass(frozen=True, slots=True)
class TicketAgain(Finding):
    """A ticket was shown again after it was used up."""

    why: str

    code: ClassVar[str] = "ticket-again"

    @override
    def sentence(self) -> str:
        return f"The seed's ticket was shown again: {self.why}."

    @override
    def next_step(self) -> str:
        return "If the machine itself never got its seed, provision it again; otherwise look for a copy of its disk."


@dataclass(frozen=True, slots=True)
class SeedChanged(Finding):
    """A repeated redemption would have rendered another seed."""

    code: ClassVar[str] = "seed-changed"

    @override
    def sentence(self) -> str:
        return "The seed would differ from the one that this ticket fetched before, so it is not given again."

    @override
    def next_step(self) -> str:
        return "Do not change secrets or templates while machines configure themselves; provision the machine again."


@dataclass(frozen=True, slots=True)
class SeedNotRendered(Finding):
    """A seed could not be rendered."""

    problem: str

    code: ClassVar[str] = "seed-not-rendered"

    @override
    def sentence(self) -> str:
        return f"The seed could not be rendered: {self.problem}."

    @override
    def next_step(self) -> str:
        return "Correct the template or the secret file; the machine asks again by itself."
