"""A machine made of test parts: a swtpm, files as disks, a clock that does not wait."""

import datetime as dt
import os
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from fleet_machine.disk.commands import KernelCommands
from fleet_machine.disk.source import Disk, DiskError, OpenedDisk
from fleet_machine.disk.volumes import ToolVolumes
from fleet_machine.facts import Dmi
from fleet_machine.surroundings import Surroundings
from fleet_machine.tpm import opened_tpm


class QuickClock:
    """Sleeping takes no time, but the clocks advance by it."""

    def __init__(self, wrong_by=0.0):
        self.slept = []
        self.wrong_by = wrong_by

    def wall(self):
        now = dt.datetime.now(dt.UTC)
        return now + dt.timedelta(seconds=sum(self.slept) + self.wrong_by)

    def boot(self):
        return 1000.0 + sum(self.slept)

    def sleep(self, seconds):
        self.slept.append(seconds)


class FileDisks:
    """Sparse files as disks."""

    def __init__(self, *disks):
        self.known = list(disks)

    def disks(self):
        return tuple(self.known)

    def opened(self, disk, *, write):
        try:
            return OpenedDisk(disk, os.open(disk.path, os.O_RDWR if write else os.O_RDONLY))
        except OSError as error:
            raise DiskError(str(error)) from error


class FixedFacts:
    def dmi(self):
        return Dmi("SN1", "00112233-4455-6677-8899-aabbccddeeff", "Lab", "Light", "1")

    def macs(self):
        return ("52:54:00:00:00:01",)


class FixedLog:
    content = b"log of the firmware"

    def read(self):
        return self.content


class KeptConsole:
    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)

    def __contains__(self, words):
        return any(words in line for line in self.lines)


class NoEntries:
    def available(self):
        return False

    def put(self, target, *, first):
        raise AssertionError


class KeptReboot:
    def __init__(self):
        self.waiting = 0
        self.reboots = 0

    def begin_waiting(self, environment, run_folder):
        self.waiting += 1

    def now(self):
        self.reboots += 1


def no_tpm():
    @contextmanager
    def opened():
        raise AssertionError("this test has no TPM")
        yield

    return opened()


def file_disk(path, size, serial="DISK1", sector=512, **more):
    with Path(path).open("wb") as file:
        file.truncate(size)
    return Disk(Path(path).name, serial, "", "file", size, sector, Path(path), **more)


def a_machine(folder, tcti=None, disks=(), clock=None):
    return Surroundings(
        tpm=partial(opened_tpm, tcti) if tcti else no_tpm,
        disks=FileDisks(*disks),
        commands=KernelCommands(),
        volumes=ToolVolumes(),
        boot_entries=NoEntries(),
        facts=FixedFacts(),
        event_log=FixedLog(),
        run_folder=Path(folder) / "run",
        clock=clock or QuickClock(),
        console=KeptConsole(),
        reboot=KeptReboot(),
    )


__all__ = ["a_machine", "file_disk", "replace"]
