"""What the signed records say: one for each erased disk, and one for each retirement."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Any

from fleetd.core.lifecycle.leave import disks_of
from fleetd.core.lifecycle.run import Run
from fleetd.core.names import DiskSerial, disk_serial

ERASE = "fleet-erase+jwt"
"""`typ` of the record of one erased disk."""
RETIREMENT = "fleet-retirement+jwt"
"""`typ` of the record that ends a retirement."""
KINDS = {ERASE: "erase", RETIREMENT: "retirement"}

VERSION = 1
MOST_TRIED = 10
_TEXTS = ("serial", "wwn", "model", "depth", "method", "start", "end", "result", "note")
_LONGEST = 500


@dataclass(frozen=True, slots=True)
class Witness:
    """How far the word of the machine that erased can be believed: its enrollment, as it was judged."""

    enrollment: str
    policy: str
    """judged or network-trusted; empty where nothing is known."""
    findings: tuple[str, ...]
    """Codes of what its verdict found."""

    @property
    def judged(self) -> bool:
        """Whether the boot of the system that erased was judged, and nothing spoke against it."""
        return self.policy == "judged" and not self.findings

    def as_dict(self) -> dict[str, Any]:
        """Return it as the record holds it."""
        return {
            "enrollment": self.enrollment,
            "boot_policy": self.policy,
            "boot_judged": self.judged,
            "findings": list(self.findings),
        }


def erased_disks(run: Run, data: Mapping[str, Any] | None) -> Iterator[tuple[DiskSerial, dict[str, Any]]]:
    """Yield the disks of this run that an erase told of, each with what it told, in known fields and bounded."""
    disks = (data or {}).get("disks")
    allowed = set(disks_of(run))
    for disk in disks if isinstance(disks, list) else ():
        if not isinstance(disk, Mapping):
            continue
        serial = disk_serial(str(disk.get("serial", "")))
        if serial in allowed:
            yield serial, _bounded(disk)


def _bounded(disk: Mapping[str, Any]) -> dict[str, Any]:
    told: dict[str, Any] = {name: str(disk.get(name, ""))[:_LONGEST] for name in _TEXTS}
    for name in ("size", "samples"):
        value = disk.get(name)
        told[name] = value if isinstance(value, int) and not isinstance(value, bool) else None
    told["random_looking"] = disk.get("random_looking") is True
    tried = disk.get("tried")
    told["tried"] = [str(item)[:_LONGEST] for item in tried[:MOST_TRIED]] if isinstance(tried, list) else []
    return told


def told_digest(told: Mapping[str, Any]) -> str:
    """Return what tells one telling from another: SHA-256 of its JSON form, hex."""
    return sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def erase_record(run: Run, told: Mapping[str, Any], witness: Witness, now: datetime) -> dict[str, Any]:
    """Return the payload of the record of one erased disk."""
    return {**_head("erase", run, now), "disk": dict(told), "witness": witness.as_dict()}


def retirement_record(
    run: Run, disks: Sequence[Mapping[str, Any]], deeds: Sequence[Mapping[str, Any]], now: datetime
) -> dict[str, Any]:
    """Return the payload of the record that ends a retirement: every disk that was seen, and every step in its order."""
    return {
        **_head("retirement", run, now),
        "declared_lost_by": run.lost_by,
        "disks": [dict(disk) for disk in disks],
        "steps": [dict(deed) for deed in deeds],
    }


def _head(kind: str, run: Run, now: datetime) -> dict[str, Any]:
    intent = run.orders.intent
    return {
        "version": VERSION,
        "record": kind,
        "run": str(run.id),
        "intent": run.kind.value,
        "issued": now.isoformat(),
        "machine": {
            "id": run.machine,
            "node_name": run.orders.node_name,
            "device": run.orders.device_name,
            "serial": run.orders.device_serial,
        },
        "requested_by": intent.requested_by if intent else "",
        "approved_by": intent.approved_by if intent else "",
        "confirmed_serial": intent.confirmed_serial if intent else "",
    }
