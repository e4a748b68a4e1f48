"""fleet_machine on a machine that is only processes: a file is its disk, a file its event log, a swtpm its TPM."""

import json
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fleet_machine.__main__ import parser
from fleet_machine.actions import run_action
from fleet_machine.await_reboot import await_reboot
from fleet_machine.clock import SystemClock
from fleet_machine.console import ScreenConsole
from fleet_machine.disk.commands import KernelCommands
from fleet_machine.disk.source import Disk, DiskError, OpenedDisk
from fleet_machine.disk.volumes import ToolVolumes
from fleet_machine.efi import LoadTarget
from fleet_machine.facts import Dmi
from fleet_machine.seed.commands import run_boot_check, run_claim_seed
from fleet_machine.surroundings import Surroundings
from fleet_machine.tpm import opened_tpm
from fleet_machine.tpm.calls import opened

# To machines in QEMU the host is at this address; a light machine is on the host itself.
_HOST_SEEN_FROM_QEMU = "10.0.2.2"
_LOOPBACK = "127.0.0.1"
_SHA256 = 0x000B


@dataclass(frozen=True, slots=True)
class LightHost:
    """What one light machine is made of, as its processes are told."""

    disk: str
    disk_serial: str
    serial: str
    uuid: str
    mac: str
    tcti: str
    event_log: str
    runs: str
    state: str
    reboot: str
    """A file that is written when the machine wants to reboot."""

    def save(self, path: Path) -> None:
        """Write it for `load`."""
        path.write_text(json.dumps(asdict(self)))

    @classmethod
    def load(cls, path: Path) -> "LightHost":
        """Read what `save` wrote."""
        return cls(**json.loads(path.read_text()))


@dataclass(frozen=True, slots=True)
class _FileDisk:
    """One file as the machine's only disk."""

    host: LightHost

    def disks(self) -> tuple[Disk, ...]:
        path = Path(self.host.disk)
        return (Disk("vda", self.host.disk_serial, "", "light", path.stat().st_size, 512, path),)

    def opened(self, disk: Disk, *, write: bool) -> OpenedDisk:
        try:
            return OpenedDisk(disk, os.open(disk.path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC))
        except OSError as error:
            raise DiskError(f"The disk {disk.serial} cannot be opened: {error}.") from error


@dataclass(frozen=True, slots=True)
class _Facts:
    host: LightHost

    def dmi(self) -> Dmi:
        return Dmi(self.host.serial, self.host.uuid, "FleetLab", "Light", "1")

    def macs(self) -> tuple[str, ...]:
        return (self.host.mac,)


@dataclass(frozen=True, slots=True)
class _FileLog:
    host: LightHost

    def read(self) -> bytes | None:
        return Path(self.host.event_log).read_bytes()


class _NoBootEntries:
    """Firmware without variables: the loader's fallback path is used."""

    def available(self) -> bool:
        return False

    def put(self, target: LoadTarget, *, first: bool) -> str:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _Reboot:
    """Asks the machine around these processes: it starts the waiting one, and does the reboot."""

    host: LightHost

    def begin_waiting(self, environment: Mapping[str, str], run_folder: Path) -> None:
        waiting = Path(self.host.reboot + ".wait")
        beside = waiting.with_suffix(".new")
        beside.write_text(json.dumps({"environment": dict(environment)}))
        beside.rename(waiting)  # in one step: the machine reads it as soon as it is there
        run_folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def now(self) -> None:
        Path(self.host.reboot).touch()


def surroundings(host: LightHost, environment: Mapping[str, str]) -> Surroundings:
    """The machine around an action."""
    return Surroundings(
        tpm=partial(opened_tpm, host.tcti),
        disks=_FileDisk(host),
        commands=KernelCommands(),
        volumes=ToolVolumes(),
        boot_entries=_NoBootEntries(),
        facts=_Facts(host),
        event_log=_FileLog(host),
        run_folder=Path(host.runs) / (environment.get("FLEET_RUN") or "no-run"),
        clock=SystemClock(),
        console=ScreenConsole(screens=()),
        reboot=_Reboot(host),
    )


def run(arguments: Sequence[str]) -> int:
    """HOST.json measure MEASUREMENTS.json, or HOST.json and the arguments of `python3 -m fleet_machine`."""
    _reach_the_host_by_loopback()
    host = LightHost.load(Path(arguments[0]))
    if arguments[1] == "measure":
        return _measure(host, json.loads(Path(arguments[2]).read_text()))
    asked = parser().parse_args(arguments[1:])
    environment = dict(os.environ)
    around = surroundings(host, environment)
    match asked.command:
        case "action":
            return run_action(asked.name, environment, around)
        case "await-reboot":
            return await_reboot(around, environment)
        case "claim-seed":
            return run_claim_seed(around, environment, asked.ticket, Path(host.state))
        case "boot-check":
            return run_boot_check(around, environment, Path(host.state), once=asked.once)
    raise NotImplementedError(asked.command)


def _measure(host: LightHost, measurements: list[list[Any]]) -> int:
    """Extend the PCRs, as firmware does before it starts anything."""
    from tpm2_pytss.constants import ESYS_TR
    from tpm2_pytss.types import TPML_DIGEST_VALUES, TPMT_HA, TPMU_HA

    with opened(host.tcti) as tpm:
        for pcr, digest in measurements:
            value = TPMT_HA(hashAlg=_SHA256, digest=TPMU_HA(sha256=bytes.fromhex(digest)))
            tpm.pcr_extend(ESYS_TR(pcr), TPML_DIGEST_VALUES([value]))
    return 0


def _reach_the_host_by_loopback() -> None:
    known = socket.getaddrinfo

    def getaddrinfo(host: Any, *arguments: Any, **named: Any) -> Any:
        return known(_LOOPBACK if host == _HOST_SEEN_FROM_QEMU else host, *arguments, **named)

    socket.getaddrinfo = getaddrinfo
