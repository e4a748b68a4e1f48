"""Everything a use case touches, in one value that the entry points wire."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from sqlalchemy.orm import Session, sessionmaker

from fleetd.core.classes import ClassBook, MachineClass
from fleetd.core.declaration import Declaration
from fleetd.core.lifecycle.timing import Timing
from fleetd.core.names import MachineId, RunId
from fleetd.ports import Clock, Inventory, Power, Provisioner, RandomSource, Workloads


class Authority(Protocol):
    """The certificates of machines. Every call is idempotent; raises OutageError when it could not be done."""

    def revoke(self, machine: MachineId, reason: str) -> None:
        """Revoke every certificate of the machine and publish it in the CRL; `reason` is one of RFC 5280."""
        ...

    def hold(self, machine: MachineId) -> None:
        """Put every certificate of the machine on the CRL as certificateHold."""
        ...

    def release(self, machine: MachineId) -> None:
        """Lift the hold."""
        ...


class Tickets(Protocol):
    """The one-shot secrets of runs."""

    def void(self, machine: MachineId, run: RunId) -> None:
        """Make every ticket of the machine worthless; idempotent."""
        ...


class Reservations(Protocol):
    """The DHCP reservations of machines. Raises OutageError and RefusedError."""

    def remove(self, machine: MachineId) -> None:
        """Take the machine's reservation away now; idempotent."""
        ...


class _NoReservations:
    """Of an owner whose DHCP fleetd does not keep."""

    def remove(self, machine: MachineId) -> None:
        """Nothing is there."""


class Signer(Protocol):
    """The service key, as far as records are signed with it."""

    def sign(self, typ: str, payload: Mapping[str, Any]) -> str:
        """Return the payload as a compact JWS of this `typ`."""
        ...


class Classes(Protocol):
    """`classes.json` in force, and whether what a class names can be read."""

    def book(self) -> ClassBook:
        """Return the classes in force."""
        ...

    def seed_problem(self, machine_class: MachineClass, declaration: Declaration) -> str:
        """Say why the seed could not be rendered for the machine (secret or template missing), or nothing."""
        ...


class AuditKey(Protocol):
    """The key that signs the audit chain."""

    def sign(self, message: bytes) -> str:
        """Return a signature as text."""
        ...


@dataclass(frozen=True, slots=True)
class Service:
    """What a Workflow tells a machine about this service; all of it public."""

    fleet_url: str = ""
    fleet_ca: str = ""
    """Base64 of the PEM."""
    fleet_keys: Callable[[], str] = str
    """Base64 of the JWKS in force: a rotation changes it while workers run."""
    version: str = "0"


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """What an owner may tune of the reconcile side."""

    timing: Timing = field(default_factory=Timing)
    lease: timedelta = timedelta(seconds=150)
    """Longer than a task may run."""
    max_runs: int = 200
    """Runs past their gate at once."""
    sweep_batch: int = 500
    page: int = 500
    full_read: timedelta = timedelta(hours=1)
    report_batch: int = 100
    service: Service = field(default_factory=Service)
    steps_per_look: int = 8
    """How many steps one look may take before it gives the lease back."""


def _nobody(machine: MachineId) -> None:
    """The sweep finds the machine by itself."""


@dataclass(frozen=True, slots=True)
class World:
    """The outside, as the use cases see it."""

    sessions: sessionmaker[Session]
    clock: Clock
    random: RandomSource
    inventory: Inventory
    provisioner: Provisioner
    power: Power
    classes: Classes
    authority: Authority
    tickets: Tickets
    signer: Signer
    workloads: Workloads | None = None
    """None where no SPIRE is configured."""
    audit_key: AuditKey | None = None
    reservations: Reservations = field(default_factory=_NoReservations)
    settings: LifecycleSettings = field(default_factory=LifecycleSettings)
    wake: Callable[[MachineId], None] = _nobody
    """Ask for a look soon; called after commit only, and may lose the message."""
