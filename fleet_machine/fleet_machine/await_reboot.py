"""The helper that outlives the `finish` action: it reboots the host once fleetd has latched the success."""

import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from fleet_machine.enroll import connected
from fleet_machine.failure import FleetError
from fleet_machine.reboot import READY
from fleet_machine.runcalls import RunCalls
from fleet_machine.settings import RunSettings
from fleet_machine.surroundings import Surroundings

POLL = 3.0
LOCK = "await-reboot.lock"


def await_reboot(around: Surroundings, environment: Mapping[str, str]) -> int:
    """Ask fleetd until it says yes, then reboot; return 0 at once when another helper does so already."""
    leave_container()
    around.run_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with (around.run_folder / LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return 0
        calls = RunCalls(around, connected(around, environment), RunSettings.from_environment(environment), "finish")
        while True:
            try:
                allowed = calls.may_reboot()
                (around.run_folder / READY).touch()
                if allowed:
                    around.console.say("Rebooting from the disk.")
                    around.reboot.now()
                    return 0
            except (FleetError, OSError) as error:
                around.console.say(f"Waiting to reboot: {error}")
            around.clock.sleep(POLL)


def leave_container() -> None:
    """Move this process out of the action's control group, with which the container's end would kill it.

    That needs `pid: host` in the Template; elsewhere it changes nothing.
    """
    for root in (Path("/proc/1/root/sys/fs/cgroup"), Path("/sys/fs/cgroup")):
        with suppress(OSError):
            (root / "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")
            return
