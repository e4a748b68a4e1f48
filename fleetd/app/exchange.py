"""What the machine-facing use cases touch, in one value that the entry points wire."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

from sqlalchemy.orm import Session, sessionmaker

from fleetd.core.attestation.roots import TrustStore
from fleetd.core.certificates.order import Issued, IssueOrder
from fleetd.core.classes import ClassBook, MachineClass
from fleetd.core.lifecycle.timing import Timing
from fleetd.core.names import MachineId
from fleetd.core.seed import SeedInputs
from fleetd.ports import Clock, Inventory, RandomSource


class Speaker(Protocol):
    """The service key: what machines believe."""

    def sign(self, typ: str, payload: Mapping[str, Any]) -> str:
        """Return the payload as a compact JWS of this `typ`."""
        ...

    def jwks(self) -> bytes:
        """Return the public keys in force as a JWKS, JSON."""
        ...

    def kids(self) -> tuple[str, ...]:
        """Return the thumbprints of the keys in force."""
        ...


class Seeds(Protocol):
    """Renders seeds."""

    def render(self, inputs: SeedInputs) -> bytes:
        """Return the seed's bytes; raises ValueError with words that hold no secret."""
        ...

    def problem(self, machine_class: MachineClass) -> str:
        """Say why no seed of the class can be rendered, or nothing."""
        ...


class Issuer(Protocol):
    """The authority, as far as machines are given certificates."""

    def issue(self, order: IssueOrder) -> Issued:
        """Issue what the keys lack, or what is due of theirs; idempotent per enrollment and key. Raises OutsideError."""
        ...

    def current(self, machine: MachineId, ldevid_public: bytes, lak_public: bytes) -> Issued | None:
        """Return the newest certificates of these keys that are neither revoked nor expired."""
        ...

    def renewal_due(self, machine: MachineId, ldevid_public: bytes, lak_public: bytes) -> bool:
        """Tell whether certificates of these keys are past two thirds of their life, or of an issuer that is leaving."""
        ...

    def installed(self, machine: MachineId, serials: tuple[str, ...], ldevid_public: bytes, lak_public: bytes) -> None:
        """Take note that the machine uses these certificates, of these keys: all others are superseded."""
        ...

    def issuing(self) -> frozenset[str]:
        """Return the fingerprints of the authorities that issue now: certificates of another one are to be renewed."""
        ...


@dataclass(frozen=True, slots=True)
class ExchangeSettings:
    """What an owner may tune of the machine side."""

    public_url: str = ""
    ca_pem: str = ""
    check_interval: timedelta = timedelta(hours=1)
    challenge: timedelta = timedelta(minutes=5)
    """Life of a challenge; evidence older than this never issues certificates."""
    replay_window: timedelta = timedelta(minutes=10)
    pending_keys: int = 500
    pending_keys_per_address: int = 5
    timing: Timing = field(default_factory=Timing)


def _nobody(machine: MachineId) -> None:
    """The sweep finds the machine by itself."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """The outside, as the machine-facing use cases see it."""

    sessions: sessionmaker[Session]
    clock: Clock
    random: RandomSource
    server_key: bytes
    speaker: Speaker
    issuer: Issuer
    classes: Callable[[], ClassBook]
    seeds: Seeds
    inventory: Inventory
    roots: Callable[[], TrustStore]
    """The EK roots in force."""
    settings: ExchangeSettings = field(default_factory=ExchangeSettings)
    wake: Callable[[MachineId], None] = _nobody
    """Ask for a look soon; called after commit only, and may lose the message."""
