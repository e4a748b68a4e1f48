"""What certificates are asked for, and what was issued. Names come from NetBox, never from a request."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from fleetd.core.classes import MachineClass
from fleetd.core.names import MachineId
from fleetd.core.seed import DeviceCertificates


@dataclass(frozen=True, slots=True)
class IssueOrder:
    """An LDevID and a LAK certificate of one machine, for one enrollment."""

    enrollment: UUID
    machine: MachineId
    node_name: str
    device_serial: str
    machine_class: MachineClass
    lak_public: bytes
    """TPMT_PUBLIC."""
    ldevid_public: bytes
    """TPMT_PUBLIC."""
    ek_public: bytes
    """TPMT_PUBLIC."""
    ek_certificate: bytes | None
    """DER."""
    facts: Mapping[str, Any]
    renewal: bool = False
    """Whether the keys were certified before: while their newest certificate is held or revoked they get no other."""


@dataclass(frozen=True, slots=True)
class Issued:
    """Certificates of one machine as they were issued or found; serials are lower-case hex."""

    certificates: DeviceCertificates
    ldevid_serial: str
    lak_serial: str
