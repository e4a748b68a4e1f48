"""The ticket file that write-seed left on the ESP: the one-shot right to this machine's seed."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

from fleet_machine.challenge import unbase64
from fleet_machine.disk.partitions import PartitionRole, partitions_of
from fleet_machine.disk.source import Disk, DiskError, DiskSource
from fleet_machine.disk.volumes import VolumeError, VolumeWriter
from fleet_machine.failure import FleetError
from fleet_machine.jws import ServiceKeys
from fleet_machine.settings import PATIENCE, Service, checked_url
from fleet_machine.tpm import LakAlgorithm

TICKET_FILE = "fleet/ticket.json"
MOUNTED = tuple(Path(folder) / TICKET_FILE for folder in ("/efi", "/boot/efi", "/boot"))


@dataclass(frozen=True, slots=True)
class Ticket:
    """What the ticket file says. The ticket itself is a secret until it is redeemed."""

    machine: int
    run: str
    ticket: str
    url: str
    ca: str
    keys: bytes
    """JWKS."""
    lak_unique: bytes
    lak_algorithm: LakAlgorithm | None

    @classmethod
    def from_json(cls, text: bytes) -> "Ticket":
        """Read a ticket file. Raises FleetError."""
        try:
            held = json.loads(text)
            return cls(
                int(held["machine"]),
                str(UUID(held["run"])),
                str(held["ticket"]),
                checked_url(held["url"]),
                pem_text(held["ca"]),
                jwks_text(held["keys"]),
                unbase64(held["lak_unique"]),
                LakAlgorithm.named(str(held.get("lak_algorithm", ""))),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise FleetError(f"The ticket file is damaged: {error!r}. Provision this machine again.") from error

    def service(self, environment: Mapping[str, str], patience: float = PATIENCE) -> Service:
        """Return the fleetd that gave the ticket. Raises FleetError."""
        source = environment.get("FLEET_SOURCE_ADDRESS", "")
        return Service(self.url, self.ca, ServiceKeys.from_jwks(self.keys), patience, source)


def find_ticket(path: Path | None, disks: DiskSource, volumes: VolumeWriter) -> Ticket | None:
    """Return the ticket of a file, or of an ESP of this machine, mounted or not; None when there is none.

    Raises FleetError when the given file cannot be read, or when what was found is no ticket.
    """
    if path is not None:
        try:
            return Ticket.from_json(path.read_bytes())
        except OSError as error:
            raise FleetError(f"The ticket file cannot be read: {error}") from error
    for candidate in MOUNTED:
        if candidate.is_file():
            return Ticket.from_json(candidate.read_bytes())
    for disk in disks.disks():
        found = _on_disk(disk, volumes)
        if found is not None:
            return Ticket.from_json(found)
    return None


def pem_text(value: Any) -> str:
    """Return a PEM given as itself or in base64. Raises ValueError."""
    text = str(value)
    if text.lstrip().startswith("-----BEGIN"):
        return text
    return unbase64(text).decode("ascii")


def jwks_text(value: Any) -> bytes:
    """Return a JWKS given as an object, as JSON text or in base64. Raises ValueError."""
    if isinstance(value, dict):
        return json.dumps(value).encode()
    text = str(value).strip()
    if text.startswith("{"):
        return text.encode()
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise ValueError("keys are neither a JWKS nor base64") from error


def _on_disk(disk: Disk, volumes: VolumeWriter) -> bytes | None:
    try:
        for partition in partitions_of(disk):
            if partition.role is PartitionRole.ESP:
                content = volumes.read(disk, partition, TICKET_FILE)
                if content is not None:
                    return content
    except (DiskError, VolumeError, OSError):
        return None
    return None
