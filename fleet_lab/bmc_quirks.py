"""Power ports of BMCs that depart from what Redfish promises, each in one way that the field knows."""

import threading
import time
from dataclasses import dataclass, field

from fleet_lab.machine.machine import BootTarget
from fleet_lab.redfish import PowerPort


@dataclass
class BootDeviceOnlyWhileOff:
    """Takes a boot device, answers that it did, and forgets it, where the machine is on; switching off takes its time."""

    port: PowerPort
    off_takes: float = 3.0
    """Seconds from the order to power off until it is off; it says that it is on meanwhile."""
    forgotten: int = 0
    """How many boot devices it was given in vain."""
    _going_down: threading.Timer | None = field(default=None, init=False, repr=False)

    def is_on(self) -> bool:
        """Whether the machine has power."""
        return self.port.is_on()

    def on(self) -> None:
        """Give it power."""
        self.port.on()

    def off(self) -> None:
        """Begin to switch off."""
        if self._going_down is None or not self._going_down.is_alive():
            self._going_down = threading.Timer(self.off_takes, self.port.off)
            self._going_down.daemon = True
            self._going_down.start()

    def boot_override(self, target: str, *, persistent: bool) -> None:
        """Set where the machine boots from, if it is off."""
        if self.port.is_on():
            self.forgotten += 1
        else:
            self.port.boot_override(target, persistent=persistent)


@dataclass
class BootDeviceLostOnReset:
    """Forgets the boot device when the machine is switched on, as often as `times` says; then it keeps it."""

    port: PowerPort
    times: int = 1

    def is_on(self) -> bool:
        """Whether the machine has power."""
        return self.port.is_on()

    def on(self) -> None:
        """Give it power; where it boots from may be lost."""
        if self.times > 0 and not self.port.is_on():
            self.times -= 1
            self.port.boot_override(BootTarget.NONE, persistent=True)
        self.port.on()

    def off(self) -> None:
        """Cut the power."""
        self.port.off()

    def boot_override(self, target: str, *, persistent: bool) -> None:
        """Set where the machine boots from."""
        self.port.boot_override(target, persistent=persistent)


@dataclass
class ReportsLate:
    """Goes on telling the power state before for `lag` seconds after each change."""

    port: PowerPort
    lag: float = 8.0
    _before: bool = field(default=False, init=False, repr=False)
    _until: float = field(default=0.0, init=False, repr=False)

    def is_on(self) -> bool:
        """What it says of the power."""
        return self._before if time.monotonic() < self._until else self.port.is_on()

    def on(self) -> None:
        """Give it power."""
        self._changes(self.port.is_on())
        self.port.on()

    def off(self) -> None:
        """Cut the power."""
        self._changes(self.port.is_on())
        self.port.off()

    def boot_override(self, target: str, *, persistent: bool) -> None:
        """Set where the machine boots from."""
        self.port.boot_override(target, persistent=persistent)

    def _changes(self, before: bool) -> None:
        self._before, self._until = before, time.monotonic() + self.lag
