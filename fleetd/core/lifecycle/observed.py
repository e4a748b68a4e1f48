"""What a look has seen of the world before it decides. None means: not looked at, or not to be had."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from fleetd.core.classes import MachineClass
from fleetd.core.declaration import Declaration
from fleetd.core.outside import JobSeen, Part, PowerState, WorkflowSeen


@dataclass(frozen=True, slots=True)
class VerdictSeen:
    """The enrollment that counts: one that passed, else the latest."""

    state: str
    """passed, waiting or refused."""
    at: datetime
    codes: tuple[str, ...] = ()
    findings: tuple[dict[str, Any], ...] = ()
    """As an owner reads them."""


@dataclass(frozen=True, slots=True)
class EventSeen:
    """One event of an action."""

    action: str
    kind: str
    at: datetime
    message: str = ""


@dataclass(frozen=True, slots=True)
class GateSeen:
    """What only a view over all machines and files can tell."""

    disk_declared_by: str = ""
    """Another machine that declares the same disk."""
    seed_problem: str = ""
    budget_full: str = ""
    """Which budget has no room, with its numbers."""
    runs_full: str = ""
    credentials_ready: bool = True
    two_person: bool = False
    """Whether a tag of the machine demands a second person, whatever its class says."""


@dataclass(frozen=True, slots=True)
class CheckSeen:
    """The last boot check."""

    at: datetime
    result: str
    codes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Observed:
    """One reading of everything that the present state watches."""

    declaration: Declaration | None = None
    fresh: bool = False
    """Whether NetBox was asked in this very look."""
    vanished: bool = False
    machine_class: MachineClass | None = None
    gate: GateSeen | None = None
    attest: WorkflowSeen | None = None
    disk: WorkflowSeen | None = None
    job: JobSeen | None = None
    power: PowerState | None = None
    strays: tuple[str, ...] | None = None
    verdict: VerdictSeen | None = None
    events: tuple[EventSeen, ...] = ()
    check: CheckSeen | None = None
    undeclared: tuple[str, ...] = ()
    """Disks that the machine showed and that are neither erased in this run nor vouched for by a person."""
    off_vouched: bool = False
    """Whether a person gave their word that the machine is off."""
    last_seen: datetime | None = None
    pxe_open: bool = False
    bmc_refused: bool = False
    """The BMC refused its credentials when it was asked for the power state."""
    outage: str = ""
    """Which outside part is away; empty when none is."""
    clock_ok: bool = True

    def workflow(self, part: Part) -> WorkflowSeen | None:
        """Return the reading of a part's Workflow."""
        return self.attest if part is Part.ATTEST else self.disk

    def finished(self) -> frozenset[str]:
        """Return the actions that reported their end with evidence."""
        return frozenset(event.action for event in self.events if event.kind == "finished")

    def failure(self) -> EventSeen | None:
        """Return the last failure that an action told of and did not undo by finishing later."""
        failed = [event for event in self.events if event.kind == "failed"]
        return failed[-1] if failed and failed[-1].action not in self.finished() else None

    def last_event(self) -> EventSeen | None:
        """Return the newest event."""
        return max(self.events, key=lambda event: event.at, default=None)
