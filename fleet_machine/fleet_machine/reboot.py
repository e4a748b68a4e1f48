"""Rebooting the host from an action that ends before it happens."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from fleet_machine.failure import FleetError
from fleet_machine.settings import PATIENCE, seconds

READY = "await-reboot.ready"
"""File in the run's folder: the helper has spoken with fleetd."""
START_PAUSE = 0.1


class Rebooter(Protocol):
    """Reboots the machine."""

    def begin_waiting(self, environment: Mapping[str, str], run_folder: Path) -> None:
        """Start a process that outlives the action and reboots the host once fleetd allows it.

        Starting it twice leaves one. Raises FleetError.
        """
        ...

    def now(self) -> None:
        """Reboot the host at once."""
        ...


class DetachedReboot:
    """A helper in the host's own process space, so that it outlives the action's container."""

    command: tuple[str, ...] = (sys.executable, "-m", "fleet_machine", "await-reboot")

    def started(self, process: "subprocess.Popen[bytes]") -> None:
        """Take note of the helper; nothing is to be done: it is nobody's child any more."""

    def begin_waiting(self, environment: Mapping[str, str], run_folder: Path) -> None:
        """Start `fleet_machine await-reboot` detached; a helper that holds the lock already is enough."""
        run_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        ready = run_folder / READY
        ready.unlink(missing_ok=True)
        try:
            helper = subprocess.Popen(
                list(self.command),
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                close_fds=True,
            )
        except OSError as error:
            raise FleetError(f"The helper that reboots this machine cannot be started: {error}.") from error
        self.started(helper)
        # Not before it has spoken with fleetd once: then all its code is in memory, and the container may go.
        give_up = time.monotonic() + seconds(environment, "FLEET_PATIENCE", PATIENCE)
        while time.monotonic() < give_up:
            status = helper.poll()
            if status == 0 or ready.exists():
                return
            if status is not None:
                raise FleetError(f"The helper that reboots this machine ended with status {status}.")
            time.sleep(START_PAUSE)
        raise FleetError("The helper that reboots this machine does not reach fleetd.")

    def now(self) -> None:
        """Flush the disks and reboot through the kernel's SysRq, which works from a privileged container."""
        os.sync()
        try:
            Path("/proc/sysrq-trigger").write_text("b", encoding="ascii")
        except OSError:
            subprocess.run(["reboot", "-f"], check=False)
