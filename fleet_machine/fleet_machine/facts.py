"""What the machine is, as it says itself: DMI, network cards, disks. fleetd compares it with the declaration."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fleet_machine import VERSION
from fleet_machine.disk.source import Disk
from fleet_machine.tpm.identity import TpmIdentity

ETHERNET = "1"
NO_MAC = "00:00:00:00:00:00"


@dataclass(frozen=True, slots=True)
class Dmi:
    """SMBIOS data of the machine, "" where it says nothing."""

    serial: str
    uuid: str
    vendor: str
    product: str
    firmware: str


class FactsSource(Protocol):
    """Where DMI data and MACs come from."""

    def dmi(self) -> Dmi:
        """Read the SMBIOS data."""
        ...

    def macs(self) -> tuple[str, ...]:
        """Return the MACs of the Ethernet cards, lower case with colons, ascending."""
        ...


class SysfsFacts:
    """DMI and MACs of this host, from sysfs."""

    def __init__(self, sysfs: Path = Path("/sys")) -> None:
        """Read below `sysfs`."""
        self._sysfs = sysfs

    def dmi(self) -> Dmi:
        """Read /sys/class/dmi/id; serial and UUID are readable by root only."""
        folder = self._sysfs / "class/dmi/id"
        names = ("product_serial", "product_uuid", "sys_vendor", "product_name", "bios_version")
        return Dmi(*(read_line(folder / name) for name in names))

    def macs(self) -> tuple[str, ...]:
        """Return the permanent-looking MACs of Ethernet devices that have hardware behind them."""
        found = set()
        for card in sorted((self._sysfs / "class/net").glob("*")):
            mac = read_line(card / "address").lower()
            if (card / "device").exists() and read_line(card / "type") == ETHERNET and mac not in ("", NO_MAC):
                found.add(mac)
        return tuple(sorted(found))


def facts_document(dmi: Dmi, macs: Iterable[str], disks: Iterable[Disk], tpm: TpmIdentity) -> bytes:
    """Return the facts as the JSON bytes that travel and are hashed."""
    document = {
        "dmi": {
            "serial": dmi.serial,
            "uuid": dmi.uuid,
            "vendor": dmi.vendor,
            "product": dmi.product,
            "firmware": dmi.firmware,
        },
        "macs": list(macs),
        "disks": [
            {
                "name": disk.name,
                "serial": disk.serial,
                "wwn": disk.wwn,
                "model": disk.model,
                "size": disk.size,
                "sector_size": disk.sector_size,
            }
            for disk in disks
        ],
        "tpm": {"manufacturer": tpm.manufacturer, "model": tpm.model, "version": tpm.version},
        "client": VERSION,
    }
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def read_line(path: Path) -> str:
    """Return a sysfs attribute without surrounding blanks; "" when it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip().strip("\0").strip()
    except OSError:
        return ""
