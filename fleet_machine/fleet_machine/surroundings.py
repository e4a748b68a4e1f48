"""Everything outside the actions themselves, as ports: what a real machine has, and what others may put in its place."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from fleet_machine.clock import Clock, SystemClock
from fleet_machine.console import Console, ScreenConsole
from fleet_machine.disk.commands import DiskCommands, KernelCommands
from fleet_machine.disk.source import DiskSource, SysfsDisks
from fleet_machine.disk.volumes import ToolVolumes, VolumeWriter
from fleet_machine.efi import BootEntries, EfivarfsEntries
from fleet_machine.eventlog import EventLogSource, SecurityfsLog
from fleet_machine.facts import FactsSource, SysfsFacts
from fleet_machine.reboot import DetachedReboot, Rebooter
from fleet_machine.tpm import Tpm, opened_tpm

RUN_FOLDERS = Path("/run/fleet")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The machine around an action."""

    tpm: Callable[[], AbstractContextManager[Tpm]]
    """Opens the TPM for the time of a `with` block; may be opened several times, one after the other."""
    disks: DiskSource
    commands: DiskCommands
    """What a disk can be told to do beyond reading and writing."""
    volumes: VolumeWriter
    """Puts files into file systems on the written disk."""
    boot_entries: BootEntries
    facts: FactsSource
    event_log: EventLogSource
    run_folder: Path
    """The folder of this run; lives as long as this boot."""
    clock: Clock
    console: Console
    reboot: Rebooter

    @classmethod
    def of_this_host(cls, environment: Mapping[str, str]) -> "Surroundings":
        """Return the real machine; FLEET_TPM may name a TCTI, FLEET_RUN names the run's folder."""
        console = ScreenConsole()
        folder = RUN_FOLDERS / (Path(environment.get("FLEET_RUN", "")).name or "no-run")
        return cls(
            tpm=partial(opened_tpm, environment.get("FLEET_TPM", "")),
            disks=SysfsDisks(),
            commands=KernelCommands(),
            volumes=ToolVolumes(),
            boot_entries=EfivarfsEntries(),
            facts=SysfsFacts(),
            event_log=SecurityfsLog(console),
            run_folder=folder,
            clock=SystemClock(),
            console=console,
            reboot=DetachedReboot(),
        )
