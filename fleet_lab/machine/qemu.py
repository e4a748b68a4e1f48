"""A UEFI machine with a TPM in QEMU: power, boot order, netboot, serial console."""

import contextlib
import json
import os
import shlex
import socket
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fleet_lab.machine import forwarder
from fleet_lab.machine.accelerator import accelerator
from fleet_lab.machine.firmware import firmware_code, new_variables
from fleet_lab.machine.machine import BootOrder, BootTarget, MachineSpec, Netboot, NetbootOffer
from fleet_lab.machine.swtpm import Swtpm, TpmAuthority
from fleet_lab.places import LabError
from fleet_lab.services.process import Child

# To the guest the host's services are at 10.0.2.2, each carried by its own forwarder; QEMU's own way to the host
# moves out of the way, so that nothing but the named services can be reached.
HOST_ADDRESS = "10.0.2.2"
_QEMU_HOST = "10.0.2.254"
_QEMU_DNS = "10.0.2.253"
TINK_PORT = 42113


@dataclass(frozen=True, slots=True)
class Service:
    """A service of the host that machines may reach: the port they use, and where it listens on loopback."""

    guest_port: int
    host_port: int
    host: str = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is around a machine: the UKI that netboot serves, who decides netboot, and the services of the host."""

    hookos: Path
    netboot: Netboot
    services: Sequence[Service]


def disk_files(spec: MachineSpec, folder: Path) -> dict[str, Path]:
    """Return the file of each disk by its serial; the first is the declared one."""
    return {spec.disk_serial: folder / "disk.img"} | {serial: folder / f"{serial}.img" for serial in spec.other_disks}


def qemu_command(
    spec: MachineSpec,
    folder: Path,
    sockets: Path,
    around: Surroundings,
    offer: NetbootOffer | None,
    write_rate: int | None = None,
) -> list[str]:
    """Return QEMU's command line: netboot of the UKI when there is an offer, otherwise the disk.

    `write_rate` is what each disk takes, in bytes a second; None is what the host's disk takes.
    """
    identity = f"type=1,manufacturer=FleetLab,product=Lab,serial={spec.serial},uuid={spec.uuid}"
    command = ["qemu-system-x86_64", "-name", spec.name, "-nodefaults", "-display", "none", "-no-reboot"]
    how = accelerator()
    # Emulating what newer processors can do costs more than it gains.
    processor = "qemu64" if how == "tcg" else "max"
    command += ["-machine", "q35", "-accel", how, "-cpu", processor, "-smp", "1", "-m", "1536"]
    command += ["-smbios", identity, "-uuid", spec.uuid]
    command += ["-drive", f"if=pflash,format=raw,unit=0,readonly=on,file={firmware_code()}"]
    command += ["-drive", f"if=pflash,format=raw,unit=1,file={folder / 'vars.fd'}"]
    command += ["-chardev", f"socket,id=tpm,path={sockets / 'tpm'}", "-tpmdev", "emulator,id=tpm0,chardev=tpm"]
    command += ["-device", "tpm-tis,tpmdev=tpm0"]
    rate = f",throttling.bps-write={write_rate}" if write_rate else ""
    for number, (serial, file) in enumerate(disk_files(spec, folder).items()):
        command += ["-drive", f"if=none,id=disk{number},format=raw,discard=unmap,file={file}{rate}"]
        device = "nvme" if spec.disk_bus == "nvme" else "virtio-blk-pci"
        command += ["-device", f"{device},drive=disk{number},serial={serial}"]
    command += ["-netdev", _network(spec, around, offer)]
    command += ["-device", f"virtio-net-pci,netdev=net,mac={spec.mac},romfile="]
    command += ["-object", "rng-random,id=rng,filename=/dev/urandom", "-device", "virtio-rng-pci,rng=rng"]
    command += ["-chardev", f"file,id=console,path={folder / 'console.log'},append=on", "-serial", "chardev:console"]
    command += ["-qmp", f"unix:{sockets / 'qmp'},server=on,wait=off"]
    if offer is not None:
        command += ["-kernel", str(around.hookos)]
    return command


def _network(spec: MachineSpec, around: Surroundings, offer: NetbootOffer | None) -> str:
    parts = ["user,id=net", "net=10.0.2.0/24", f"host={_QEMU_HOST}", f"dns={_QEMU_DNS}"]
    if offer is not None:
        parts += [f"hostname={offer.agent_id}", f"tftp-server-name={HOST_ADDRESS}"]
    for service in around.services:
        program = [sys.executable, "-I", "-S", str(Path(forwarder.__file__)), spec.address]
        command = shlex.join([*program, service.host, str(service.host_port)]).replace(",", ",,")
        parts.append(f"guestfwd=tcp:{HOST_ADDRESS}:{service.guest_port}-cmd:{command}")
    return ",".join(parts)


class QemuMachine:
    """One machine; its folder keeps disk, firmware variables, TPM and console from one power-on to the next.

    A thread of its own starts and watches QEMU: whoever presses the button may be a thread that ends at once.
    """

    def __init__(
        self, spec: MachineSpec, folder: Path, sockets: Path, authority: TpmAuthority, around: Surroundings
    ) -> None:
        self._spec = spec
        self._folder = folder
        self._sockets = sockets
        self._around = around
        self._order = BootOrder(network_first=spec.network_first)
        self._tpm = Swtpm(folder / "tpm", sockets / "tpm", folder / "swtpm.log")
        self._state = threading.Condition()
        self._wanted = False
        self._running: Child | None = None
        self._closed = False
        self.trouble: str | None = None
        self.write_rate: int | None = None
        """What each disk takes from the next boot on, in bytes a second; None is what the host's disk takes."""
        folder.mkdir(parents=True, exist_ok=True)
        sockets.mkdir(parents=True, exist_ok=True, mode=0o700)
        _check_socket_path(sockets / "tpm")
        authority.manufacture(folder / "tpm", spec.serial)
        new_variables(folder / "vars.fd")
        self._make_disks()
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
            self._wanted = True
            self._state.notify_all()

    def off(self) -> None:
        """Cut the power, as pulling the plug would; returns when QEMU and the TPM are gone."""
        with self._state:
            self._wanted = False
            if self._running is not None:
                self._running.kill()
            self._state.notify_all()
            self._state.wait_for(lambda: self._running is None or self._wanted, 30)

    def boot_override(self, target: str, *, persistent: bool) -> None:
        """Set where the next boot (or every boot) starts."""
        with self._state:
            self._order.override(target, persistent=persistent)

    def swap_disk(self, serial: str) -> None:
        """Take the disk out and put another one in; the one taken out keeps its content as `SERIAL.img`.

        Raises LabError when the machine is on.
        """
        if self.is_on():
            raise LabError(f"{self._spec.name} is on: its disk cannot be swapped")
        self.disk.rename(self._folder / f"{self._spec.disk_serial}.img")
        put = self._folder / f"{serial}.img"
        if put.exists():
            put.rename(self.disk)
        self._spec = replace(self._spec, disk_serial=serial)
        self._make_disks()

    def close(self) -> None:
        """Power off and end the thread."""
        self.off()
        with self._state:
            self._closed = True
            self._state.notify_all()
        self._thread.join(30)

    def _make_disks(self) -> None:
        for file in disk_files(self._spec, self._folder).values():
            if not file.exists():
                with file.open("wb") as disk:
                    disk.truncate(self._spec.disk_size)

    def _supervise(self) -> None:
        while True:
            with self._state:
                self._state.wait_for(lambda: self._wanted or self._closed)
                if self._closed:
                    return
            try:
                again = self._one_boot()
            except (LabError, OSError) as error:
                self.trouble, again = str(error), False
            with self._state:
                self._running = None
                self._wanted = self._wanted and again
                self._state.notify_all()

    def _one_boot(self) -> bool:
        """Boot once; return whether the guest asked for a reboot (a machine that powers itself off stays off)."""
        with self._state:
            target = self._order.take()
        offer = self._around.netboot.offer(self._spec.mac) if target is BootTarget.NETWORK else None
        self._say(f"boots from {'the network as ' + offer.agent_id if offer else 'its disk'} (asked: {target.value})")
        self._tpm.start_for_qemu()
        qmp = self._sockets / "qmp"
        qmp.unlink(missing_ok=True)
        command = qemu_command(self._spec, self._folder, self._sockets, self._around, offer, self.write_rate)
        try:
            with self._state:
                if not self._wanted:
                    return False
                self._running = child = Child("qemu", command, self._folder / "qemu.log").start()
            with contextlib.suppress(LabError):
                child.wait_until(qmp.exists, 20)
            reasons = _shutdown_reasons(qmp)
            assert child.process is not None
            child.process.wait()
            if child.process.returncode > 0:
                raise LabError(f"QEMU ended with status {child.process.returncode}; {child.tail()}")
            return "guest-reset" in reasons
        finally:
            self._tpm.stop()

    def _say(self, words: str) -> None:
        with self.console.open("a") as console:
            console.write(f"\n[lab] {self._spec.name} {words}\n")


def _shutdown_reasons(path: Path) -> list[str]:
    """Read QMP's events until QEMU ends; the reasons of its SHUTDOWN events."""
    reasons: list[str] = []
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(str(path))
            stream = connection.makefile("rwb")
            stream.readline()
            stream.write(b'{"execute": "qmp_capabilities"}\n')
            stream.flush()
            for line in stream:
                message = json.loads(line)
                if message.get("event") == "SHUTDOWN":
                    reasons.append(message["data"]["reason"])
        except (OSError, ValueError):
            pass
    return reasons


def _check_socket_path(path: Path) -> None:
    if len(os.fsencode(path)) > 107:
        raise LabError(f"{path} is too long for a UNIX socket (107 bytes)")
