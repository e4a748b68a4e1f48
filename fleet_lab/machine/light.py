"""A machine without QEMU: a sparse file, a software TPM and short processes, so that a hundred fit on two cores.

It boots like the other kind: from the network only when Tinkerbell allows it, then as an agent that runs the real
fleet_machine; from its disk when there is an image on it, then as the installed system that claims its seed and checks.
"""

import contextlib
import json
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from fleet_lab.agent import ActionExit, Agent
from fleet_lab.machine.boot_log import boot_measurements, event_log
from fleet_lab.machine.forkserver import ForkServer, Job
from fleet_lab.machine.installed import InstalledDisk, loopback_https
from fleet_lab.machine.light_host import LightHost
from fleet_lab.machine.machine import BootOrder, BootTarget, MachineSpec, Netboot
from fleet_lab.machine.swtpm import Swtpm, TpmAuthority
from fleet_lab.machine.talos_node import TalosNode
from fleet_lab.places import LabError

ENTRY = "fleet_lab.machine.light_host:run"
_CLAIM_PAUSE = 1.0
_GPT_SIGNATURE = b"EFI PART"


Post = Callable[[MachineSpec, BootTarget], None]


def no_post(spec: MachineSpec, target: BootTarget) -> None:
    """Firmware that takes no time."""
    del spec, target


@dataclass(frozen=True, slots=True)
class LightSurroundings:
    """What is around light machines.

    `tink` is host:port of the agents' service; `hookos` and `installed` are the Authenticode digests (hex) that a boot
    from the network and from the disk measures; `processes` runs all machines' processes.
    """

    netboot: Netboot
    tink: str
    hookos: Sequence[str]
    installed: Sequence[str]
    processes: ForkServer
    firmware: str = "FleetLab light 1"
    """The version that a new machine comes with."""
    patience: float = 600.0
    command_line: Mapping[str, str] = field(default_factory=dict)
    """The kernel's arguments of an installed Talos: what its signed image would hold."""
    talos_schema: Path | None = None
    post: Post = no_post
    """What firmware does before it starts anything; on real hardware it takes minutes."""


class LightMachine:
    """One machine; its folder keeps disk, TPM, console and what the installed system stored."""

    def __init__(
        self, spec: MachineSpec, folder: Path, sockets: Path, authority: TpmAuthority, around: LightSurroundings
    ) -> None:
        self._spec = spec
        self._folder = folder
        self._around = around
        self._firmware = around.firmware
        self._order = BootOrder(network_first=spec.network_first)
        self._tpm = Swtpm(folder / "tpm", sockets / f"{spec.name}.ctrl", folder / "swtpm.log")
        self._tpm_socket = sockets / f"{spec.name}.tpm"
        self._authority = authority
        self._state = threading.Condition()
        self._wanted = self._closed = self._busy = False
        self._power_cut = threading.Event()
        self._jobs: set[Job] = set()
        self.trouble: str | None = None
        folder.mkdir(parents=True, exist_ok=True)
        sockets.mkdir(parents=True, exist_ok=True, mode=0o700)
        authority.manufacture(folder / "tpm", spec.serial)
        if not self.disk.exists():
            with self.disk.open("wb") as disk:
                disk.truncate(spec.disk_size)
        self._host = self._describe()
        self._thread = threading.Thread(target=self._supervise, name=f"machine {spec.name}", daemon=True)
        self._thread.start()

    @property
    def spec(self) -> MachineSpec:
        """What it is made of."""
        return self._spec

    @property
    def console(self) -> Path:
        """The file with all that it has printed."""
        return self._folder / "console.log"

    @property
    def firmware(self) -> str:
        """The version of its firmware."""
        with self._state:
            return self._firmware

    @property
    def disk(self) -> Path:
        """The file that is its disk."""
        return self._folder / "disk.img"

    def is_on(self) -> bool:
        """Whether it has power."""
        with self._state:
            return self._wanted

    def on(self) -> None:
        """Press the button; nothing happens to a machine that is on."""
        with self._state:
            if not self._wanted:
                self._state.wait_for(lambda: not self._busy, 30)
                self._wanted = True
                self._power_cut.clear()
                self._state.notify_all()

    def off(self) -> None:
        """Cut the power: all its processes end at once."""
        with self._state:
            self._wanted = False
            self._power_cut.set()
            jobs = list(self._jobs)
        for job in jobs:
            with contextlib.suppress(LabError):
                job.kill()
        with self._state:
            self._state.wait_for(lambda: not self._busy, 30)

    def boot_override(self, target: str, *, persistent: bool) -> None:
        """Set where the next boot (or every boot) starts."""
        with self._state:
            self._order.override(target, persistent=persistent)

    def flash(self, firmware: str) -> None:
        """Put another version of the firmware on it, which each boot after this one measures."""
        with self._state:
            self._firmware = firmware

    def swap_tpm(self) -> None:
        """Take the TPM out and put a new one of the same maker in; the next swap puts the first one back.

        Raises LabError when the machine is on.
        """
        if self.is_on():
            raise LabError(f"{self._spec.name} is on: its TPM cannot be swapped")
        inside, beside, moving = (self._folder / name for name in ("tpm", "tpm-beside", "tpm-moving"))
        inside.rename(moving)
        if beside.exists():
            beside.rename(inside)
        moving.rename(beside)
        self._authority.manufacture(inside, self._spec.serial)

    def swap_disk(self, serial: str) -> None:
        """Take the disk out and put an empty one with this serial in. Raises LabError when the machine is on."""
        if self.is_on():
            raise LabError(f"{self._spec.name} is on: its disk cannot be swapped")
        self._spec = replace(self._spec, disk_serial=serial)
        with self.disk.open("wb") as disk:
            disk.truncate(self._spec.disk_size)
        self._host = self._describe()

    def close(self) -> None:
        """Power off and end the thread."""
        self.off()
        with self._state:
            self._closed = True
            self._state.notify_all()
        self._thread.join(30)

    def _describe(self) -> Path:
        spec, folder = self._spec, self._folder
        path = folder / "host.json"
        LightHost(
            disk=str(self.disk),
            disk_serial=spec.disk_serial,
            serial=spec.serial,
            uuid=spec.uuid,
            mac=spec.mac,
            tcti=f"swtpm:path={self._tpm_socket}",
            event_log=str(folder / "event.log"),
            runs=str(folder / "runs"),
            state=str(folder / "state"),
            reboot=str(folder / "reboot"),
        ).save(path)
        return path

    def _supervise(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._wanted or self._closed)
                if self._closed:
                    return
                self._busy = True
                target = self._order.take()
            try:
                self._one_boot(target)
            except (LabError, OSError) as error:
                self.trouble = str(error)
                self._power_cut.wait()
            except Exception as error:  # noqa: BLE001 - a machine whose thread has died would be silent for ever
                self.trouble = f"{type(error).__name__}: {error}"
                self._power_cut.wait()
            with self._state:
                self._busy = False
                self._state.notify_all()

    def _one_boot(self, target: BootTarget) -> None:
        offer = self._around.netboot.offer(self._spec.mac) if target is BootTarget.NETWORK else None
        self._say(f"boots from {'the network as ' + offer.agent_id if offer else 'its disk'} (asked: {target.value})")
        shutil.rmtree(self._folder / "runs", ignore_errors=True)
        for flag in (self._folder / "reboot", self._folder / "reboot.wait"):
            flag.unlink(missing_ok=True)
        self._around.post(self._spec, target)
        self._tpm.start_on_socket(self._tpm_socket)
        try:
            self._measure(self._around.hookos if offer else self._around.installed)
            if offer is not None:
                self._be_hookos(offer.agent_id)
            elif self._has_image():
                self._be_installed()
            else:
                self._say("finds nothing to boot on its disk")
                self._power_cut.wait()
        finally:
            self._tpm.stop()

    def _has_image(self) -> bool:
        with self.disk.open("rb") as disk:
            disk.seek(512)
            return disk.read(8) == _GPT_SIGNATURE

    def _measure(self, images: Sequence[str]) -> None:
        measured = boot_measurements(self._firmware, images)
        (self._folder / "event.log").write_bytes(event_log(measured))
        orders = self._folder / "measurements.json"
        orders.write_text(json.dumps([[event.pcr, event.digest.hex()] for event in measured]))
        if self._process("measure", str(orders)) != 0 and not self._power_cut.is_set():
            raise LabError(f"{self._spec.name} could not extend its PCRs; see {self.console}")

    def _be_hookos(self, agent_id: str) -> None:
        agent = Agent(self._around.tink, agent_id, _Runner(self), log=self._say)
        stopper = threading.Thread(target=self._stop_with_the_power, args=(agent.stop,), daemon=True)
        stopper.start()
        agent.run()
        agent.stop.set()
        stopper.join(5)
        if not self._rebooting():
            self._power_cut.wait()

    def _stop_with_the_power(self, stop: threading.Event) -> None:
        waiter: Job | None = None
        while not stop.is_set():
            if self._power_cut.wait(0.2) or self._rebooting():
                stop.set()
            waiting = self._folder / "reboot.wait"
            if waiter is None and waiting.exists():
                environment = json.loads(waiting.read_text())["environment"]
                waiter = self._start(["await-reboot"], environment)
        if waiter is not None:
            with contextlib.suppress(LabError):
                waiter.kill()

    def _rebooting(self) -> bool:
        return (self._folder / "reboot").exists()

    def _be_installed(self) -> None:
        system = InstalledDisk(self._spec, self.disk)
        if system.is_talos():
            self._be_talos(system)
            return
        if system.apply_nocloud(self._folder / "state"):
            self._say("cloud-init put its seed into place")
        while self._process("claim-seed") != 0:
            if self._power_cut.wait(_CLAIM_PAUSE):
                return
        while not self._power_cut.is_set():
            self._process("boot-check")
            self._power_cut.wait(_CLAIM_PAUSE)

    def _be_talos(self, system: InstalledDisk) -> None:
        around = self._around
        node = TalosNode(
            system.talos_host(around.command_line, around.talos_schema),
            wait=lambda seconds: not self._power_cut.wait(min(seconds, _CLAIM_PAUSE)),
            say=self._say,
            connect=partial(loopback_https, self._spec.address),
        )
        acquired = node.boot()
        if acquired is not None:
            self._say(f"is {acquired.hostname}, configured from {acquired.origin}")
        self._power_cut.wait()

    def _process(self, *arguments: str) -> int | None:
        return self._finish(self._start(arguments, {}))

    def _start(self, arguments: Sequence[str], environment: dict[str, str]) -> Job:
        own = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "FLEET_SOURCE_ADDRESS": self._spec.address,
            "FLEET_PATIENCE": str(self._around.patience),
        }
        job = self._around.processes.start([str(self._host), *arguments], {**environment, **own}, self.console)
        with self._state:
            self._jobs.add(job)
        if self._power_cut.is_set():
            job.kill()
        return job

    def _finish(self, job: Job, timeout: float | None = None) -> int | None:
        status = job.wait(timeout)
        if status is None:
            job.kill()
            job.wait()
        with self._state:
            self._jobs.discard(job)
        return status

    def _say(self, words: str) -> None:
        with self.console.open("a") as console:
            console.write(f"[lab] {self._spec.name} {words}\n")


@dataclass(frozen=True, slots=True)
class _Runner:
    """Runs an action's command with the machine's processes: the real client, without its container."""

    machine: LightMachine

    def run(
        self,
        *,
        name: str,
        image: str,  # noqa: ARG002 - the process stands for every image
        command: Sequence[str],
        environment: Sequence[str],
        volumes: Sequence[str],  # noqa: ARG002
        pid: str,  # noqa: ARG002
        timeout: float,
    ) -> ActionExit:
        self.machine._say(f"runs {name}")  # noqa: SLF001 - a part of the machine
        own = dict(pair.split("=", 1) for pair in environment)
        status = self.machine._finish(self.machine._start(command, own), timeout)  # noqa: SLF001
        return ActionExit(1, timed_out=True) if status is None else ActionExit(status)
