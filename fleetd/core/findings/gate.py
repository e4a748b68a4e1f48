"""What a run waits for at its gate, and what refuses it there."""

from dataclasses import dataclass
from typing import ClassVar

from fleetd.core.findings.finding import Finding, Severity
from fleetd.core.findings.words import listed


@dataclass(frozen=True, slots=True)
class DeclarationIncomplete(Finding):
    """NetBox does not say what the run needs."""

    missing: tuple[str, ...]

    code: ClassVar[str] = "declaration-incomplete"

    def sentence(self) -> str:
        """Name what is missing."""
        return f"The machine's declaration lacks: {listed(self.missing)}."

    def next_step(self) -> str:
        """Where to add it."""
        return "Add it to the machine or its Device in NetBox and ask again."


@dataclass(frozen=True, slots=True)
class ClassUnknown(Finding):
    """No class of that name is in force."""

    machine_class: str

    code: ClassVar[str] = "class-unknown"

    def sentence(self) -> str:
        """Name the class."""
        return f"No class {self.machine_class!r} is in force."

    def next_step(self) -> str:
        """Fix either side."""
        return "Choose another class on the machine's page, or add the class to classes.json."


@dataclass(frozen=True, slots=True)
class ClassNotInstallable(Finding):
    """The class says that it cannot be installed."""

    machine_class: str
    reason: str

    code: ClassVar[str] = "class-not-installable"

    def sentence(self) -> str:
        """Say why."""
        return f"The class {self.machine_class} cannot be installed: {self.reason}."

    def next_step(self) -> str:
        """Another class."""
        return "Choose another class on the machine's page."


@dataclass(frozen=True, slots=True)
class SerialNotConfirmed(Finding):
    """The serial that the requester typed is not the declared one any more."""

    confirmed: str
    declared: str

    code: ClassVar[str] = "serial-not-confirmed"

    def sentence(self) -> str:
        """Show both."""
        return f"The request confirmed disk {self.confirmed or 'none'}, but {self.declared or 'none'} is declared."

    def next_step(self) -> str:
        """Ask again."""
        return "Check the disk serial on the machine's page and ask again."


@dataclass(frozen=True, slots=True)
class DiskDeclaredTwice(Finding):
    """Another machine declares the same disk."""

    serial: str
    other: str

    code: ClassVar[str] = "disk-declared-twice"

    def sentence(self) -> str:
        """Name the other machine."""
        return f"The disk serial {self.serial} is declared by {self.other} too."

    def next_step(self) -> str:
        """Correct one of them."""
        return "Correct the disk serial of one of the two machines and ask again."


@dataclass(frozen=True, slots=True)
class BmcRequired(Finding):
    """The class demands a BMC that the machine does not declare."""

    machine_class: str

    code: ClassVar[str] = "bmc-required"

    def sentence(self) -> str:
        """Say so."""
        return f"The class {self.machine_class} demands a BMC, and the machine declares none."

    def next_step(self) -> str:
        """Declare one."""
        return "Enter the BMC's address and Secret on the machine's page, or choose another class."


@dataclass(frozen=True, slots=True)
class SeedUnreadable(Finding):
    """The seed could not be rendered: found before anything is erased."""

    problem: str

    code: ClassVar[str] = "seed-unreadable"

    def sentence(self) -> str:
        """Say what is wrong."""
        return f"The seed of this machine cannot be rendered: {self.problem}."

    def next_step(self) -> str:
        """Fix the files."""
        return "Correct the class's template or secret files on the service host and ask again."


@dataclass(frozen=True, slots=True)
class IntentWaitsForApproval(Finding):
    """A second person must approve."""

    requested_by: str

    code: ClassVar[str] = "intent-waits-for-approval"
    severity: ClassVar[Severity] = Severity.NOTES

    def sentence(self) -> str:
        """Say who asked."""
        return f"The request of {self.requested_by} waits for a second person."

    def next_step(self) -> str:
        """Approve."""
        return "Somebody else with the right to approve intents approves it on the machine's page, or cancels it."


@dataclass(frozen=True, slots=True)
class BudgetFull(Finding):
    """Too many machines are out of service already."""

    budget: str

    code: ClassVar[str] = "budget-full"
    severity: ClassVar[Severity] = Severity.NOTES

    def sentence(self) -> str:
        """Show the numbers."""
        return f"The availability budget has no room: {self.budget}."

    def next_step(self) -> str:
        """Wait or force."""
        return "Wait until other machines are active again, or ask again with the right to force the budget."


@dataclass(frozen=True, slots=True)
class TooManyRuns(Finding):
    """The bound on runs at once is reached."""

    count: str

    code: ClassVar[str] = "too-many-runs"
    severity: ClassVar[Severity] = Severity.NOTES

    def sentence(self) -> str:
        """Show the numbers."""
        return f"As many runs as allowed are under way: {self.count}."

    def next_step(self) -> str:
        """Wait."""
        return "Wait, or raise caps.runs in the configuration."


@dataclass(frozen=True, slots=True)
class BmcCredentialsMissing(Finding):
    """The owner's Secret is not there or not labelled ready."""

    secret: str

    code: ClassVar[str] = "bmc-credentials-missing"
    severity: ClassVar[Severity] = Severity.WARNS

    def sentence(self) -> str:
        """Name the Secret."""
        return f"The Secret {self.secret} is missing or not labelled fleet/bmc=ready."

    def next_step(self) -> str:
        """Create it."""
        return "Create the Secret with username and password, then label it fleet/bmc=ready."


@dataclass(frozen=True, slots=True)
class InventoryAway(Finding):
    """NetBox cannot be asked, so nothing starts."""

    code: ClassVar[str] = "inventory-away"
    severity: ClassVar[Severity] = Severity.WARNS

    def sentence(self) -> str:
        """Say so."""
        return "NetBox cannot be asked whether the request still stands; nothing destructive starts meanwhile."

    def next_step(self) -> str:
        """Look at NetBox."""
        return "Check that NetBox answers (fleetd doctor)."


@dataclass(frozen=True, slots=True)
class ClockUntrusted(Finding):
    """The wall clock went back or jumped."""

    code: ClassVar[str] = "clock-untrusted"
    severity: ClassVar[Severity] = Severity.WARNS

    def sentence(self) -> str:
        """Say so."""
        return (
            "The clock of the service host was set a moment ago, or is behind what was recorded already;"
            " nothing destructive starts."
        )

    def next_step(self) -> str:
        """Fix time."""
        return (
            "Correct the time of the service host (NTP) and wait a few minutes; where it was right all along,"
            " `fleetd clock accept --reason WHY`."
        )


@dataclass(frozen=True, slots=True)
class GateTimedOut(Finding):
    """What the run waited for did not come in time."""

    waited_for: str

    code: ClassVar[str] = "gate-timed-out"

    def sentence(self) -> str:
        """Name it."""
        return f"The run could not begin in time. It waited for: {self.waited_for}"

    def next_step(self) -> str:
        """Ask again."""
        return "Settle what it waited for and ask again."
