"""Where a machine's own report differs from what NetBox declares of it: serials, MACs, disks, firmware. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fleetd.core.declaration import Declaration, Disk
from fleetd.core.smbios import contradicts_serial


@dataclass(frozen=True, slots=True)
class Difference:
    """One thing that is not as declared; an empty side is missing there."""

    field: str
    declared: str
    reported: str

    def as_dict(self) -> dict[str, str]:
        """Return the row that NetBox is told."""
        return {"field": self.field, "declared": self.declared, "reported": self.reported}


def drift(declaration: Declaration, facts: Mapping[str, Any]) -> tuple[Difference, ...]:
    """Compare a declaration with facts (fleetd.app.facts); what NetBox does not declare is not compared."""
    return tuple(_differences(declaration, facts))


def _differences(declaration: Declaration, facts: Mapping[str, Any]) -> Iterator[Difference]:
    dmi = facts.get("dmi", {})
    serial = dmi.get("serial", "")
    if contradicts_serial(declaration.device_serial, serial):
        yield Difference("serial", declaration.device_serial, serial)
    yield from _macs(declaration, facts.get("macs", []))
    yield from _disks(declaration, facts.get("disks", []))
    firmware = dmi.get("firmware", "")
    if declaration.firmware and firmware.strip() != declaration.firmware.strip():
        yield Difference("firmware", declaration.firmware, firmware)


def _macs(declaration: Declaration, reported: list[str]) -> Iterator[Difference]:
    """A declared MAC that the machine does not have, and one of its own that no interface has.

    Management interfaces belong to the BMC: the machine does not see them.
    """
    if not reported or not declaration.macs:
        return
    managed = {mac for one in declaration.interfaces for mac in one.macs}
    for interface in declaration.interfaces:
        for mac in () if interface.mgmt_only else interface.macs:
            if mac not in reported:
                yield Difference(f"interfaces.{interface.name}.mac", mac, "")
    for own in dict.fromkeys(reported):
        if own not in managed:
            yield Difference("mac", "", own)


def _disks(declaration: Declaration, reported: list[Mapping[str, Any]]) -> Iterator[Difference]:
    """A declared disk that the machine does not have, and one of its own that nothing declares."""
    if not reported or declaration.disk is None:
        return
    seen = {str(disk.get("serial", "")): str(disk.get("wwn", "")).strip().casefold() for disk in reported}
    declared = {"disk_serial": declaration.disk}
    declared |= {f"extra_disks.{disk.serial}": disk for disk in declaration.extra_disks}
    for field, disk in declared.items():
        if disk.serial not in seen:
            yield Difference(field, disk.serial, "")
        elif disk.wwn and seen[disk.serial] and seen[disk.serial] != disk.wwn:
            yield Difference(_wwn_field(field, disk), disk.wwn, seen[disk.serial])
    serials = {disk.serial for disk in declared.values()}
    for serial in dict.fromkeys(serial for serial in seen if serial and serial not in serials):
        yield Difference("disk", "", serial)


def _wwn_field(field: str, disk: Disk) -> str:
    return "disk_wwn" if field == "disk_serial" else f"extra_disks.{disk.serial}.wwn"
