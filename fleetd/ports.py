"""What the use cases need of the outside world, as Protocols that the adapters implement."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import IPv4Network
from typing import Any, Protocol

from fleetd.core.declaration import Declaration, Vanished
from fleetd.core.names import MacAddress, MachineId, RunId
from fleetd.core.outside import (
    ActionState,
    JobOutcome,
    JobSeen,
    Part,
    PowerState,
    PowerStep,
    WorkflowOutcome,
    WorkflowSeen,
)
from fleetd.core.reservations import Reservation

__all__ = [
    "ActionState",
    "Clock",
    "CredentialsRefusedError",
    "DeclarationPage",
    "DhcpServer",
    "HardwareWanted",
    "Inventory",
    "JobOutcome",
    "JobSeen",
    "OutageError",
    "OutsideError",
    "Part",
    "Power",
    "PowerState",
    "PowerStep",
    "Provisioner",
    "RandomSource",
    "RefusedError",
    "ReportOutcome",
    "TooLargeError",
    "WorkflowOutcome",
    "WorkflowSeen",
    "WorkflowWanted",
    "Workloads",
]


class OutsideError(Exception):
    """A part outside fleetd did not do what was asked; the message says which, what, and what to do."""


class OutageError(OutsideError):
    """The part cannot be reached or is overloaded: try again later."""


class RefusedError(OutsideError):
    """The part answered and refused: trying the same again will not help."""


class TooLargeError(RefusedError):
    """More was sent at once than the part, or what stands in front of it, takes."""


class CredentialsRefusedError(RefusedError):
    """A BMC refused the login: nothing is asked of it again, because BMCs lock accounts."""


class Clock(Protocol):
    """Time, injected."""

    def now(self) -> datetime:
        """Return the wall clock, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that never go back and run through a suspend; comparable within one boot of the host."""
        ...

    def boot(self) -> str:
        """Name this boot of the host."""
        ...


class RandomSource(Protocol):
    """Randomness, injected."""

    def bytes(self, count: int) -> bytes:
        """Return `count` unpredictable bytes."""
        ...


# --- NetBox ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class DeclarationPage:
    """One page of the declarations feed."""

    records: tuple[Declaration | Vanished, ...]
    cursor: str
    more: bool
    full_read_required: bool
    malformed: tuple[tuple[int | None, str], ...] = ()
    """(machine id where readable, what is wrong) of records that could not be used."""


@dataclass(frozen=True, slots=True)
class ReportOutcome:
    """What NetBox said to a batch of reports."""

    accepted: int
    stale: tuple[MachineId, ...]
    rejected: tuple[tuple[int, str], ...]


class Inventory(Protocol):
    """NetBox, through the plugin's two endpoints. Raises OutageError and RefusedError."""

    def declarations(self, cursor: str | None) -> DeclarationPage:
        """Read the next page after the cursor; None begins a full read."""
        ...

    def declaration(self, machine: MachineId) -> Declaration | Vanished | None:
        """Read one machine now; None means that NetBox has no such record or shows none: no orders."""
        ...

    def report(self, body: Mapping[str, Any]) -> ReportOutcome:
        """Post a `reports/` body (docs/reference/plugin-api.md)."""
        ...

    def finished_runs(self) -> Iterator[RunId]:
        """Yield the ids of runs that NetBox holds as final: they are spent, whatever the store says."""
        ...


# --- Tinkerbell -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HardwareWanted:
    """The Hardware that fleetd keeps for a machine."""

    machine: MachineId
    node_name: str
    macs: tuple[MacAddress, ...]
    addresses: tuple[str, ...]
    """CIDR addresses in the order of `macs`; empty where a MAC has none, and may be shorter."""
    gateway: str
    allow_pxe: bool
    bmc: bool


@dataclass(frozen=True, slots=True)
class WorkflowWanted:
    """A Workflow to create once per run and part."""

    run: RunId
    machine: MachineId
    part: Part
    template: str
    """Name of a file in `workflows/`, without ending: `attest`, `provision-alpine-image`, `wipe`, .."""
    values: Mapping[str, str]
    """hardwareMap values; never secrets."""


class Provisioner(Protocol):
    """Tinkerbell. Every call is idempotent; raises OutageError and RefusedError."""

    def keep_hardware(self, wanted: HardwareWanted) -> None:
        """Create or update the machine's Hardware so that it is as wanted."""
        ...

    def set_allow_pxe(self, machine: MachineId, *, allowed: bool) -> None:
        """Set allowPXE of every interface; absent Hardware counts as not allowed."""
        ...

    def remove_hardware(self, machine: MachineId) -> None:
        """Remove the machine's Hardware; absent is fine."""
        ...

    def create_workflow(self, wanted: WorkflowWanted) -> None:
        """Create the Workflow (and its content-named Template); an existing one of the same run is success."""
        ...

    def workflow(self, run: RunId, part: Part) -> WorkflowSeen:
        """Read the Workflow of a run's part; ABSENT when there is none."""
        ...

    def delete_workflow(self, run: RunId, part: Part) -> None:
        """Delete the Workflow of a run's part; absent is fine."""
        ...

    def stray_workflows(self, machine: MachineId, run: RunId | None) -> tuple[str, ...]:
        """Name Workflows of this machine that belong to no part of this run."""
        ...

    def delete_named(self, name: str) -> None:
        """Delete a Workflow by name; absent is fine."""
        ...

    def collect_templates(self) -> tuple[str, ...]:
        """Delete Templates of earlier versions that nothing uses; return their names."""
        ...


# --- What else knows the machine --------------------------------------------------------------------------------------


class Workloads(Protocol):
    """The identity provider of workloads (SPIRE), which trusts LDevIDs but reads no CRL. Raises OutageError, RefusedError."""

    def ban(self, certificates: Sequence[bytes]) -> tuple[str, ...]:
        """Ban the agents of these LDevID certificates (DER); return their ids. An agent that never joined is fine."""
        ...


# --- Power ----------------------------------------------------------------------------------------------------------


class Power(Protocol):
    """Rufio. Raises OutageError and RefusedError; CredentialsRefusedError where the BMC refuses the login."""

    def credentials_ready(self, secret: str) -> bool:
        """Tell whether the owner's Secret exists and is labelled ready; its content is never read."""
        ...

    def keep_bmc(self, machine: MachineId, address: str, secret: str) -> None:
        """Create or update the BMC Machine; never before its Secret is ready."""
        ...

    def remove_bmc(self, machine: MachineId) -> None:
        """Remove the BMC Machine; absent is fine."""
        ...

    def start(self, run: RunId, machine: MachineId, name: str, steps: tuple[PowerStep, ...]) -> None:
        """Create a Job of these steps under a name used once (`<run hex>-<name>`); existing is success."""
        ...

    def job(self, run: RunId, name: str) -> JobSeen:
        """Read a Job."""
        ...

    def remove_jobs(self, run: RunId) -> None:
        """Delete the Jobs of a run."""
        ...

    def state(self, machine: MachineId) -> PowerState:
        """Return the last polled power state and ask for a fresh one."""
        ...


# --- DHCP -----------------------------------------------------------------------------------------------------------


class DhcpServer(Protocol):
    """Kea. Raises OutageError and RefusedError."""

    @property
    def subnets(self) -> tuple[IPv4Network, ...]:
        """The subnets whose reservations fleetd keeps; none where the owner keeps DHCP otherwise."""
        ...

    def differs(self, subnet: IPv4Network, reservations: Sequence[Reservation]) -> bool:
        """Tell whether the subnet has other reservations than these."""
        ...

    def put(self, subnet: IPv4Network, reservations: Sequence[Reservation]) -> None:
        """Replace the subnet's reservations, whole; in force after `reload`."""
        ...

    def reload(self) -> None:
        """Make the server read what was put."""
        ...
