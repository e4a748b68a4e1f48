"""EFI boot entries, through efivarfs (UEFI specification, section 3.1.3 "Load Options")."""

import os
import struct
import subprocess
import uuid
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fleet_machine.failure import FleetError

EFIVARS = Path("/sys/firmware/efi/efivars")
GLOBAL = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
NON_VOLATILE_BOOT_RUNTIME = 0x7
ACTIVE = 0x1
LABEL_PREFIX = "fleet: "


@dataclass(frozen=True, slots=True)
class LoadTarget:
    """What a boot entry starts: a file on a GPT partition."""

    label: str
    partition_number: int
    first_lba: int
    sectors: int
    partition_guid: uuid.UUID
    file: str
    """With backslashes, as EFI spells it: `\\EFI\\BOOT\\BOOTX64.EFI`."""


class BootEntries(Protocol):
    """The firmware's boot entries."""

    def available(self) -> bool:
        """Return whether this machine started by UEFI and its variables can be written."""
        ...

    def put(self, target: LoadTarget, *, first: bool) -> str:
        """Make one entry for the target, replacing earlier ones of this client; return its name (`Boot0003`).

        With `first` it comes first in the boot order, else right behind the entry that is first now.
        Raises FleetError.
        """
        ...


class EfivarfsEntries:
    """The entries of this host."""

    def __init__(self, folder: Path = EFIVARS) -> None:
        """Use efivarfs mounted at `folder`."""
        self._folder = folder

    def available(self) -> bool:
        """Return whether efivarfs shows boot entries; a container that lacks it gets it mounted."""
        missing = self._folder == EFIVARS and EFIVARS.is_dir() and not any(EFIVARS.iterdir())
        if missing and os.geteuid() == 0:
            command = ["mount", "-t", "efivarfs", "-o", "nosuid,nodev,noexec", "efivarfs", str(self._folder)]
            subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True)
        return self._folder.is_dir() and any(self._folder.glob("Boot*"))

    def put(self, target: LoadTarget, *, first: bool) -> str:
        """Write the entry, then the order, so that the order never names an entry that is not there."""
        order = self._order()
        ours = [number for number in self._numbers() if self._is_ours(number)]
        number = ours[0] if ours else _free(self._numbers())
        self._write(f"Boot{number:04X}", load_option(target))
        rest = [entry for entry in order if entry not in {number, *ours}]
        wanted = [number, *rest] if first else [*rest[:1], number, *rest[1:]]
        if wanted != order:
            self._write("BootOrder", struct.pack(f"<{len(wanted)}H", *wanted))
        for old in ours[1:]:
            self._remove(f"Boot{old:04X}")
        return f"Boot{number:04X}"

    def _order(self) -> list[int]:
        raw = self._read("BootOrder")
        return list(struct.unpack(f"<{len(raw) // 2}H", raw[: len(raw) // 2 * 2]))

    def _numbers(self) -> list[int]:
        numbers = []
        for path in self._folder.glob(f"Boot????-{GLOBAL}"):
            with suppress(ValueError):
                numbers.append(int(path.name[4:8], 16))
        return sorted(numbers)

    def _is_ours(self, number: int) -> bool:
        text, _, _ = self._read(f"Boot{number:04X}")[6:].decode("utf-16-le", "replace").partition("\0")
        return text.startswith(LABEL_PREFIX)

    def _read(self, name: str) -> bytes:
        try:
            return (self._folder / f"{name}-{GLOBAL}").read_bytes()[4:]
        except OSError:
            return b""

    def _write(self, name: str, content: bytes) -> None:
        path = self._folder / f"{name}-{GLOBAL}"
        self._changeable(path)
        try:
            # One write with the attributes in front: that is how efivarfs takes a variable.
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                os.write(fd, struct.pack("<I", NON_VOLATILE_BOOT_RUNTIME) + content)
            finally:
                os.close(fd)
        except OSError as error:
            raise FleetError(f"The firmware does not take the boot variable {name}: {error}.") from error

    def _remove(self, name: str) -> None:
        path = self._folder / f"{name}-{GLOBAL}"
        self._changeable(path)
        with suppress(OSError):
            path.unlink()

    def _changeable(self, path: Path) -> None:
        """Clear the immutable flag that the kernel puts on variables whose loss could brick a machine."""
        import fcntl

        get_flags, set_flags, immutable = 0x80086601, 0x40086602, 0x10
        with suppress(OSError):
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                flags = struct.unpack("@l", fcntl.ioctl(fd, get_flags, bytes(8)))[0]
                if flags & immutable:
                    fcntl.ioctl(fd, set_flags, struct.pack("@l", flags & ~immutable))
            finally:
                os.close(fd)


def load_option(target: LoadTarget) -> bytes:
    """Return an EFI_LOAD_OPTION whose path is a hard drive and a file (UEFI, sections 3.1.3 and 10.3.5)."""
    drive = struct.pack("<BBHIQQ", 4, 1, 42, target.partition_number, target.first_lba, target.sectors)
    drive += target.partition_guid.bytes_le + b"\x02\x02"
    name = (target.file + "\0").encode("utf-16-le")
    file = struct.pack("<BBH", 4, 4, 4 + len(name)) + name
    path = drive + file + struct.pack("<BBH", 0x7F, 0xFF, 4)
    label = (LABEL_PREFIX + target.label + "\0").encode("utf-16-le")
    return struct.pack("<IH", ACTIVE, len(path)) + label + path


def _free(numbers: Sequence[int]) -> int:
    for number in range(0x10000):
        if number not in numbers:
            return number
    raise FleetError("The firmware has no room for another boot entry.")
