"""Why a run did not end well after its disk, or was ended from outside."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from fleetd.core.findings.finding import Finding, Severity
from fleetd.core.findings.words import listed, moment


@dataclass(frozen=True, slots=True)
class HandOverFailed(Finding):
    """The machine was written but did not reboot from its disk."""

    problem: str

    code: ClassVar[str] = "hand-over"

    def sentence(self) -> str:
        """Show the problem."""
        return f"The disk is written, but the machine could not be rebooted from it: {self.problem or 'no answer'}."

    def next_step(self) -> str:
        """By hand."""
        return "Check the BMC, then ask again."


@dataclass(frozen=True, slots=True)
class SeedNeverFetched(Finding):
    """The installed system did not redeem its ticket."""

    last_seen: datetime | None

    code: ClassVar[str] = "seed-never-fetched"

    def sentence(self) -> str:
        """Show the last sign of life."""
        return f"The installed system never fetched its seed. Last sign of life: {moment(self.last_seen)}."

    def next_step(self) -> str:
        """Look at the console."""
        return "Check on the machine's console that it boots from its disk and reaches the service, then ask again."


@dataclass(frozen=True, slots=True)
class CheckNeverCame(Finding):
    """The check that was asked for did not come."""

    code: ClassVar[str] = "check-never-came"

    def sentence(self) -> str:
        """Say so."""
        return "The installed system sent no boot check in time."

    def next_step(self) -> str:
        """Look at the machine."""
        return "Check that the machine runs and reaches the service, or ask for an attest with reboot."


@dataclass(frozen=True, slots=True)
class CheckNotGood(Finding):
    """The check that was asked for came and was not good."""

    result: str
    codes: tuple[str, ...]

    code: ClassVar[str] = "check-not-good"

    def sentence(self) -> str:
        """Name the reasons."""
        return f"The boot check that was asked for is {self.result}: {listed(self.codes)}."

    def next_step(self) -> str:
        """Decide."""
        return "Read the check's findings and the difference to the baseline, then accept, decline or repair."


@dataclass(frozen=True, slots=True)
class PowerOffNotVerified(Finding):
    """The machine could not be seen switched off."""

    problem: str

    code: ClassVar[str] = "power-off-not-verified"

    def sentence(self) -> str:
        """Show the problem."""
        return f"That the machine is off could not be verified: {self.problem or 'the BMC does not say'}."

    def next_step(self) -> str:
        """By hand."""
        return "Switch the machine off by hand; check the BMC and ask again, or declare the machine lost."


@dataclass(frozen=True, slots=True)
class PowerOffByPerson(Finding):
    """There is no BMC to switch the machine off."""

    code: ClassVar[str] = "power-off-by-person"
    severity: ClassVar[Severity] = Severity.WARNS

    def sentence(self) -> str:
        """Say so."""
        return "The machine has no BMC: that it is off was not verified."

    def next_step(self) -> str:
        """By hand."""
        return "Switch the machine off by hand."


@dataclass(frozen=True, slots=True)
class PowerOffWordWanted(Finding):
    """Nobody but a person can say that a machine without a BMC is off."""

    code: ClassVar[str] = "power-off-word"

    def sentence(self) -> str:
        """Ask."""
        return "The machine has no BMC: a person must say that it is off before its addresses are given away."

    def next_step(self) -> str:
        """Name the command."""
        return "Switch the machine off, then vouch for it on its page in NetBox (or `fleetd machines vouch NODE --power-off`)."


@dataclass(frozen=True, slots=True)
class DiskWordWanted(Finding):
    """The machine has disks that nobody declared: they leave with whatever is on them."""

    disks: tuple[str, ...]

    code: ClassVar[str] = "disk-word"

    def sentence(self) -> str:
        """Name the disks."""
        return f"The machine has disks that are not declared and were not erased: {listed(self.disks)}."

    def next_step(self) -> str:
        """Name the command."""
        return (
            "Look at each disk, then vouch for it on the machine's page in NetBox (or `fleetd machines vouch NODE --disk"
            " SERIAL`); or cancel, declare the disks for erasing, and retire the machine again."
        )


@dataclass(frozen=True, slots=True)
class DisksLeft(Finding):
    """A wiped machine has disks that nobody declared."""

    disks: tuple[str, ...]

    code: ClassVar[str] = "disks-left"
    severity: ClassVar[Severity] = Severity.WARNS

    def sentence(self) -> str:
        """Name the disks."""
        return f"Not declared and not erased: {listed(self.disks)}."

    def next_step(self) -> str:
        """Declare them."""
        return "Declare the disks for erasing and wipe again where their data matters."


@dataclass(frozen=True, slots=True)
class DeclaredLost(Finding):
    """A person declared the machine unreachable for good; its disk was not erased."""

    by: str

    code: ClassVar[str] = "declared-lost"
    severity: ClassVar[Severity] = Severity.WARNS

    def sentence(self) -> str:
        """Name the person."""
        return f"{self.by} declared the machine lost: its credentials are withdrawn, its disk was not erased."

    def next_step(self) -> str:
        """Physical care."""
        return "Find and destroy the disk where that matters."


@dataclass(frozen=True, slots=True)
class Cancelled(Finding):
    """A person cancelled the run."""

    by: str

    code: ClassVar[str] = "cancelled"
    severity: ClassVar[Severity] = Severity.NOTES

    def sentence(self) -> str:
        """Name the person."""
        return f"The run was cancelled by {self.by or 'an owner'}."

    def next_step(self) -> str:
        """Ask again."""
        return "Ask again when the machine is wanted."


@dataclass(frozen=True, slots=True)
class Withdrawn(Finding):
    """NetBox no longer asks for it, or asks for something else."""

    instead: str

    code: ClassVar[str] = "withdrawn"
    severity: ClassVar[Severity] = Severity.NOTES

    def sentence(self) -> str:
        """Say what is asked instead."""
        return f"NetBox no longer asks for this run; it asks for {self.instead or 'nothing'} now."

    def next_step(self) -> str:
        """Nothing."""
        return "Nothing needs doing."


@dataclass(frozen=True, slots=True)
class Orphaned(Finding):
    """The machine's record vanished from NetBox; nothing is removed."""

    code: ClassVar[str] = "orphaned"

    def sentence(self) -> str:
        """Say so."""
        return "The machine's record vanished from NetBox; its run is stopped and nothing is removed."

    def next_step(self) -> str:
        """Declare again or forget."""
        return "Declare the machine again, or withdraw its credentials with: fleetd machines forget NAME --reason TEXT."


@dataclass(frozen=True, slots=True)
class StepRefused(Finding):
    """A part outside refused what the run asked of it."""

    problem: str

    code: ClassVar[str] = "step-refused"

    def sentence(self) -> str:
        """Show what it said."""
        return f"A step was refused: {self.problem}"

    def next_step(self) -> str:
        """Fix and repeat."""
        return "Correct what the message names (fleetd doctor), then ask again."
