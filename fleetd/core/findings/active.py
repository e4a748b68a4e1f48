"""What is wrong with an active machine."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from fleetd.core.findings.finding import Finding, Severity
from fleetd.core.findings.words import moment


@dataclass(frozen=True, slots=True)
class CheckLate(Finding):
    """No boot check for more than two intervals."""

    last: datetime | None

    code: ClassVar[str] = "check-late"
    severity: ClassVar[Severity] = Severity.WARNS

    def sentence(self) -> str:
        """Show the last one."""
        return f"The boot check is late; the last one came {moment(self.last)}."

    def next_step(self) -> str:
        """Look at the machine."""
        return "Check that the machine runs and reaches the service."


@dataclass(frozen=True, slots=True)
class CheckLost(Finding):
    """No boot check for a day."""

    last: datetime | None

    code: ClassVar[str] = "check-lost"
    severity: ClassVar[Severity] = Severity.WARNS

    def sentence(self) -> str:
        """Show the last one."""
        return f"The machine is lost: its last boot check came {moment(self.last)}."

    def next_step(self) -> str:
        """Find it."""
        return "Find out where the machine is; set its Device offline if that is meant, or wipe it."


@dataclass(frozen=True, slots=True)
class Quarantined(Finding):
    """The machine is not trusted until a person releases it."""

    reason: str

    code: ClassVar[str] = "quarantined"

    def sentence(self) -> str:
        """Say why."""
        return f"The machine is quarantined, its certificates are on hold: {self.reason}."

    def next_step(self) -> str:
        """Release or wipe."""
        return "Find the cause, then release it on its page in NetBox with a reason and ask for a fresh attest, or wipe it."
