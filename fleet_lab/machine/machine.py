"""What every machine of the lab is to those who drive it, and what decides how it boots."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol


class BootTarget(StrEnum):
    """Where firmware looks first; the values are Redfish's (`Boot.BootSourceOverrideTarget`)."""

    NONE = "None"
    NETWORK = "Pxe"
    DISK = "Hdd"


@dataclass(frozen=True, slots=True)
class MachineSpec:
    """What a lab machine is made of.

    `address` is its own loopback address (127.64.x.y), `disk_size` in bytes. With `network_first` its boot order
    starts with the network, as that of a machine without a BMC does. `other_disks` are the serials of disks of the
    same size that hold something else than the system. `disk_bus` is `virtio` or `nvme`.
    """

    name: str
    mac: str
    serial: str
    uuid: str
    disk_serial: str
    address: str
    disk_size: int = 512 << 20
    network_first: bool = False
    other_disks: tuple[str, ...] = ()
    disk_bus: str = "virtio"


@dataclass(frozen=True, slots=True)
class NetbootOffer:
    """What a machine that asks the network is given: who it is to Tinkerbell."""

    agent_id: str


class Netboot(Protocol):
    """Answers a machine that boots from the network, as DHCP and Smee would."""

    def offer(self, mac: str) -> NetbootOffer | None:
        """Return the offer, or None when the machine may not netboot now."""
        ...


class Machine(Protocol):
    """A machine: its power port (what a BMC controls), and what its owner reads on its case."""

    @property
    def spec(self) -> MachineSpec:
        """What it is made of."""
        ...

    @property
    def console(self) -> Path:
        """The file with all that it has printed."""
        ...

    def is_on(self) -> bool:
        """Whether it has power."""
        ...

    def on(self) -> None:
        """Press the button of a machine that is off; nothing happens to one that is on."""
        ...

    def off(self) -> None:
        """Cut the power; returns when it is off."""
        ...

    def boot_override(self, target: str, *, persistent: bool) -> None:
        """Set where the next boot (or every boot, when persistent) starts: a value of `BootTarget`."""
        ...

    def close(self) -> None:
        """Power off and leave nothing running."""
        ...


class BootOrder:
    """The boot order of one machine: its own, a persistent override, and one that lasts for one boot."""

    def __init__(self, *, network_first: bool) -> None:
        self._lasting = BootTarget.NETWORK if network_first else BootTarget.DISK
        self._own = self._lasting
        self._once = BootTarget.NONE

    def override(self, target: str, *, persistent: bool) -> None:
        """Set an override.

        Raises:
            ValueError: the target is none of `BootTarget`.
        """
        wanted = BootTarget(target)
        if not persistent:
            self._once = wanted
            return
        self._once = BootTarget.NONE
        self._lasting = self._own if wanted is BootTarget.NONE else wanted

    def take(self) -> BootTarget:
        """The target of the boot that starts now; a one-time override is used up."""
        target = self._lasting if self._once is BootTarget.NONE else self._once
        self._once = BootTarget.NONE
        return target
