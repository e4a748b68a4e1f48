"""Why a machine did not come as far as being proven."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from fleetd.core.findings.finding import Finding, Severity
from fleetd.core.findings.words import listed, moment


@dataclass(frozen=True, slots=True)
class PowerFailed(Finding):
    """The BMC did not do what was asked within the deadline."""

    tries: int
    problem: str

    code: ClassVar[str] = "power"

    def sentence(self) -> str:
        """Show the tries."""
        return f"The BMC did not switch the machine as asked in {self.tries} tries: {self.problem or 'no answer'}."

    def next_step(self) -> str:
        """Look at the BMC."""
        return "Check the BMC's network, address and state, then ask again."


@dataclass(frozen=True, slots=True)
class BmcRefused(Finding):
    """The BMC refused the credentials; not tried again because BMCs lock accounts."""

    secret: str

    code: ClassVar[str] = "bmc-credentials-refused"

    def sentence(self) -> str:
        """Name the Secret."""
        return f"The BMC refused the credentials in Secret {self.secret}; they are not tried again."

    def next_step(self) -> str:
        """Correct them."""
        return "Correct the Secret, check that the account is not locked, and ask again."


@dataclass(frozen=True, slots=True)
class NeverNetbooted(Finding):
    """No word came from HookOS."""

    last_seen: datetime | None
    power: str

    code: ClassVar[str] = "netboot"

    def sentence(self) -> str:
        """Show the last sign of life and the power state."""
        return f"The machine did not boot from the network. Last sign of life: {moment(self.last_seen)}; power: {self.power}."

    def next_step(self) -> str:
        """Look at boot order and MACs."""
        return "Check cabling, boot order, DHCP and that the declared MACs are those of the machine, then ask again."


@dataclass(frozen=True, slots=True)
class WorkflowNotRendered(Finding):
    """Tinkerbell could not render the Workflow."""

    part: str
    problem: str

    code: ClassVar[str] = "workflow-not-rendered"

    def sentence(self) -> str:
        """Show what Tinkerbell says."""
        return f"Tinkerbell could not render the {self.part} Workflow: {self.problem}."

    def next_step(self) -> str:
        """Fix the Template."""
        return "Correct the Template in the workflows directory and ask again."


@dataclass(frozen=True, slots=True)
class AttestationFailed(Finding):
    """The machine was refused too often."""

    codes: tuple[str, ...]

    code: ClassVar[str] = "attestation"

    def sentence(self) -> str:
        """Name the reasons."""
        return f"The machine could not prove what its class demands: {listed(self.codes)}. Nothing was erased."

    def next_step(self) -> str:
        """Read the findings."""
        return "Read the findings of the attestation, correct their cause, and ask again."


@dataclass(frozen=True, slots=True)
class AttestationLate(Finding):
    """The machine booted HookOS and then proved nothing."""

    last_seen: datetime | None

    code: ClassVar[str] = "attestation-late"

    def sentence(self) -> str:
        """Show the last sign of life."""
        return f"No enrollment was completed in time. Last sign of life: {moment(self.last_seen)}. Nothing was erased."

    def next_step(self) -> str:
        """Look at the console."""
        return "Read the machine's console: the enrollment client says there what it lacks."


@dataclass(frozen=True, slots=True)
class KeyNotApproved(Finding):
    """Nobody decided about the EK in time."""

    code: ClassVar[str] = "approval"

    def sentence(self) -> str:
        """Say so."""
        return "Nobody decided in time about the endorsement key that the machine proved."

    def next_step(self) -> str:
        """Approve and ask again."""
        return "Approve or reject the key in NetBox, then ask again."


@dataclass(frozen=True, slots=True)
class DeclarationChanged(Finding):
    """What the run goes by was changed in NetBox before anything was erased."""

    changed: tuple[str, ...]

    code: ClassVar[str] = "declaration-changed"

    def sentence(self) -> str:
        """Name what changed."""
        return f"Changed in NetBox while the run was under way: {listed(self.changed)}. Nothing was erased."

    def next_step(self) -> str:
        """Ask again."""
        return "Check the machine's declaration and ask again."


@dataclass(frozen=True, slots=True)
class NoReservation(Finding):
    """The machine has no DHCP reservation, though others have."""

    why: str

    code: ClassVar[str] = "no-reservation"
    severity: ClassVar[Severity] = Severity.WARNS

    def sentence(self) -> str:
        """Say why."""
        return f"The machine is left out of the DHCP reservations: {self.why}."

    def next_step(self) -> str:
        """Correct NetBox."""
        return "Correct its interfaces, MAC and address in NetBox; the reservation follows by itself."


@dataclass(frozen=True, slots=True)
class DiffersFromDeclaration(Finding):
    """The declaration changed too late: the run finishes with the old values."""

    changed: tuple[str, ...]

    code: ClassVar[str] = "differs-from-declaration"
    severity: ClassVar[Severity] = Severity.WARNS

    def sentence(self) -> str:
        """Name what differs."""
        return f"The machine differs from its declaration: {listed(self.changed)}."

    def next_step(self) -> str:
        """Provision again."""
        return "Provision the machine again to make it what is declared, or change the declaration back."
