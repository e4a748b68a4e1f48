"""The firmware's event log, from securityfs."""

import os
import subprocess
from pathlib import Path
from typing import Protocol

from fleet_machine.console import Console

LIMIT = 512 * 1024
SECURITYFS = Path("/sys/kernel/security")


class EventLogSource(Protocol):
    """Where the event log comes from."""

    def read(self) -> bytes | None:
        """Return the log; None where the machine has none."""
        ...


class SecurityfsLog:
    """The log of this host's firmware."""

    def __init__(self, console: Console, securityfs: Path = SECURITYFS) -> None:
        """Read below `securityfs`; what is missing is said on the console."""
        self._console = console
        self._securityfs = securityfs

    def read(self) -> bytes | None:
        """Return the log, read to its end: securityfs gives its size as 0.

        A container that lacks securityfs gets it mounted. None, said on the console, when there is no log.
        """
        path = self._securityfs / "tpm0/binary_bios_measurements"
        if not path.exists():
            self._mount()
        try:
            log = read_to_end(path)
        except OSError as error:
            self._console.say(f"No event log of the firmware: {error}. Its boot cannot be judged.")
            return None
        if len(log) > LIMIT:
            self._console.say(f"The event log of the firmware is longer than {LIMIT} bytes: it is left out.")
            return None
        return log

    def _mount(self) -> None:
        if not self._securityfs.is_dir() or os.geteuid() != 0:
            return
        # Never with "ro": securityfs exists once, and the host's own mount would become read-only with it.
        subprocess.run(
            ["mount", "-t", "securityfs", "-o", "nosuid,nodev,noexec", "securityfs", str(self._securityfs)],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def read_to_end(path: Path) -> bytes:
    """Read a file whose size is not known, at most one byte over the limit that fleetd takes."""
    content = bytearray()
    with path.open("rb", buffering=0) as log:
        while len(content) <= LIMIT and (chunk := log.read(64 * 1024)):
            content += chunk
    return bytes(content)
