"""Everything that NetBox says about one machine, as fleetd reads it in one record."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from fleetd.core.names import DiskSerial, IntentKind, MacAddress, MachineId, Phase, RunId, StatementKind


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that may be erased: serial, and the WWN where makers repeat serials."""

    serial: DiskSerial
    wwn: str = ""


@dataclass(frozen=True, slots=True)
class Intent:
    """One request of an owner. Its id becomes the run's id and is consumed once."""

    id: RunId
    kind: IntentKind
    approved: bool
    """False while it waits for a second person."""
    requested_by: str
    requested_at: datetime
    confirmed_serial: DiskSerial
    reason: str = ""
    approved_by: str = ""
    cancel_requested_by: str = ""
    cancel_requested_at: datetime | None = None
    force_budget: bool = False
    reboot: bool = False
    two_person: bool = False
    """Whether NetBox demanded a second person when it was asked or approved: lifting the rule later changes nothing."""


@dataclass(frozen=True, slots=True)
class DeclaredKey:
    """An EK that NetBox binds to the machine."""

    id: int
    public_hash: str
    """SHA-256 of the TPMT_PUBLIC, lower-case hex; empty when only the certificate was declared."""
    certificate_sha256: str
    status: str
    """pending, approved, rejected or retired."""
    approved_by: str = ""


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface of the Device."""

    name: str
    macs: tuple[MacAddress, ...]
    mgmt_only: bool = False
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Address:
    """An IP address of the Device, in CIDR form."""

    address: str
    interface: str
    dns_name: str = ""
    gateway: str = ""


@dataclass(frozen=True, slots=True)
class BaselineDecision:
    """What a person decided about an offered baseline."""

    digest: str
    accepted: bool
    by: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Statement:
    """What a person said of the machine that only a person can say; taken or refused once, by its id."""

    id: UUID
    kind: StatementKind
    by: str
    reason: str
    at: datetime
    subject: str = ""
    """The disk that a word is given about; empty otherwise."""
    intent: RunId | None = None
    """The wipe or retirement that it is said in; None for a release."""


@dataclass(frozen=True, slots=True)
class Declaration:
    """One machine as NetBox declares it."""

    machine: MachineId
    node_name: str
    machine_class: str
    disk: Disk | None
    """None while no disk serial is declared."""
    extra_disks: tuple[Disk, ...]
    bmc_address: str
    bmc_secret: str
    phase: Phase
    """The phase that NetBox shows; fleetd's own store decides."""
    device_name: str
    device_status: str
    device_serial: str
    site: str
    role: str
    primary_ip4: str
    primary_ip6: str
    interfaces: tuple[Interface, ...]
    addresses: tuple[Address, ...]
    keys: tuple[DeclaredKey, ...]
    tags: tuple[str, ...]
    intent: Intent | None = None
    baseline_decision: BaselineDecision | None = None
    statements: tuple[Statement, ...] = ()
    """Not answered yet, oldest first."""
    firmware: str = ""
    """The firmware version that the machine should report; empty: any."""

    @property
    def has_bmc(self) -> bool:
        """Whether power can be driven without a person."""
        return bool(self.bmc_address and self.bmc_secret)

    @property
    def macs(self) -> tuple[MacAddress, ...]:
        """All MACs that may netboot, in declared order, each once."""
        seen = (mac for interface in self.interfaces if not interface.mgmt_only for mac in interface.macs)
        return tuple(dict.fromkeys(seen))


@dataclass(frozen=True, slots=True)
class Vanished:
    """A tombstone: NetBox no longer declares the machine. Nothing destructive follows from it."""

    machine: MachineId
