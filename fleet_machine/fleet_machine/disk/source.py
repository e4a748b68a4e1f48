"""Finding disks, and finding the declared one among them."""

import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fleet_machine.failure import FleetError

SYSFS_SECTOR = 512
"""sysfs counts sizes in units of 512 bytes, whatever the disk's own sectors are."""
PSEUDO = ("loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd", "drbd", "mtd")


class DiskError(FleetError):
    """The declared disk cannot be told apart or used; nothing was written."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of the machine. Sizes in bytes; serial and WWN trimmed, as the disk spells them."""

    name: str
    serial: str
    wwn: str
    model: str
    size: int
    sector_size: int
    path: Path
    """What to open."""
    in_use: tuple[str, ...] = ()
    """Who holds it: mount points, swap, device-mapper and RAID holders."""


@dataclass(frozen=True, slots=True)
class WantedDisk:
    """The disk that the declaration names; an empty WWN matches any."""

    serial: str
    wwn: str = ""
    min_size: int = 0
    """Bytes that the class needs."""


class DiskSource(Protocol):
    """Where disks come from."""

    def disks(self) -> Sequence[Disk]:
        """Return all disks of the machine."""
        ...

    def opened(self, disk: Disk, *, write: bool) -> "OpenedDisk":
        """Open a disk for this process alone; the caller closes it. Raises DiskError."""
        ...


@dataclass(frozen=True, slots=True)
class OpenedDisk:
    """A disk held by file descriptor, so that no renaming can put another in its place."""

    disk: Disk
    fd: int


def find(source: DiskSource, wanted: WantedDisk) -> Disk:
    """Return the one disk that is declared.

    Raises DiskError when none or several match, when it is too small, or when somebody holds it.
    """
    if not folded(wanted.serial):
        raise DiskError("No disk serial is declared (FLEET_DISK_SERIAL): nothing may be erased or written.")
    seen = source.disks()
    same = [disk for disk in seen if folded(disk.serial) == folded(wanted.serial)]
    if wanted.wwn:
        same = [disk for disk in same if plain_wwn(disk.wwn) == plain_wwn(wanted.wwn)]
    shown = ", ".join(f"{disk.name} {disk.serial or 'without serial'}" for disk in seen) or "no disk at all"
    named = f"serial {wanted.serial}" + (f" and WWN {wanted.wwn}" if wanted.wwn else "")
    if not same:
        raise DiskError(f"No disk has the declared {named}. The machine shows: {shown}.")
    if len(same) > 1:
        raise DiskError(
            f"Several disks have the declared {named}: {', '.join(disk.name for disk in same)}. Declare the WWN."
        )
    disk = same[0]
    if disk.size < wanted.min_size:
        raise DiskError(f"The disk {disk.serial} has {disk.size} bytes; its class needs at least {wanted.min_size}.")
    if disk.in_use:
        raise DiskError(f"The disk {disk.serial} ({disk.name}) is in use: {', '.join(disk.in_use)}.")
    return disk


@contextmanager
def held(source: DiskSource, wanted: WantedDisk, *, write: bool = True) -> Iterator[OpenedDisk]:
    """Find the declared disk, open it, and make sure that what was opened is what is declared. Raises DiskError."""
    disk = find(source, wanted)
    opened = source.opened(disk, write=write)
    try:
        if folded(opened.disk.serial) != folded(wanted.serial):
            raise DiskError(
                f"{disk.name} has another serial now ({opened.disk.serial}) than when it was found ({disk.serial})."
            )
        yield opened
    finally:
        os.close(opened.fd)


class SysfsDisks:
    """The disks of this host."""

    def __init__(self, sysfs: Path = Path("/sys"), dev: Path = Path("/dev"), proc: Path = Path("/proc")) -> None:
        """Read below these folders."""
        self._sysfs, self._dev, self._proc = sysfs, dev, proc

    def disks(self) -> tuple[Disk, ...]:
        """Return every disk that is no pseudo device, optical drive or empty reader, by name."""
        folders = sorted((self._sysfs / "block").glob("*"))
        found = (self._disk(folder) for folder in folders if not folder.name.startswith(PSEUDO))
        return tuple(disk for disk in found if disk is not None and disk.size > 0)

    def opened(self, disk: Disk, *, write: bool) -> OpenedDisk:
        """Open the device exclusively (the kernel refuses when it is mounted) and read its serial again."""
        try:
            fd = os.open(disk.path, (os.O_RDWR if write else os.O_RDONLY) | os.O_EXCL | os.O_CLOEXEC)
        except OSError as error:
            raise DiskError(f"The disk {disk.serial} cannot be opened for this action alone: {error}.") from error
        status = os.fstat(fd)
        number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        again = self._disk(self._sysfs / "dev/block" / number) if stat.S_ISBLK(status.st_mode) else None
        if again is None:
            os.close(fd)
            raise DiskError(f"{disk.path} is no disk any more.")
        return OpenedDisk(again, fd)

    def _disk(self, folder: Path) -> Disk | None:
        try:
            name = folder.resolve().name
            size = int((folder / "size").read_text()) * SYSFS_SECTOR
            sector = int((folder / "queue/logical_block_size").read_text())
        except (OSError, ValueError):
            return None
        return Disk(
            name,
            _serial(folder),
            _attribute(folder, "wwid", "device/wwid"),
            _attribute(folder, "device/model"),
            size,
            sector,
            self._dev / name,
            tuple(self._users(folder, name)),
        )

    def _users(self, folder: Path, name: str) -> Iterator[str]:
        parts = {name, *(part.parent.name for part in folder.glob(f"{name}*/partition"))}
        for part in sorted(parts):
            holders = (folder if part == name else folder / part) / "holders"
            yield from (f"held by {holder.name}" for holder in sorted(holders.glob("*")))
        devices = {str(self._dev / part) for part in parts}
        for table, words in (("mounts", "mounted at {1}"), ("swaps", "used as swap")):
            for line in _lines(self._proc / table):
                fields = line.split()
                if fields and os.path.realpath(fields[0]) in devices:
                    yield words.format(*fields)


def folded(serial: str) -> str:
    """Return a serial as it is compared: trimmed and case-folded."""
    return serial.strip().casefold()


def plain_wwn(wwn: str) -> str:
    """Return a WWN without the prefix that names its kind (`0x`, `naa.`, `eui.`, `t10.`), lower case."""
    text = wwn.strip().lower()
    for prefix in ("0x", "naa.", "eui.", "uuid.", "t10.", "nvme."):
        text = text.removeprefix(prefix)
    return text


def _serial(folder: Path) -> str:
    """Return the serial from sysfs: NVMe and virtio show it plainly, SCSI and SATA in VPD page 0x80."""
    plain = _attribute(folder, "device/serial", "serial")
    if plain:
        return plain
    try:
        page = (folder / "device/vpd_pg80").read_bytes()
    except OSError:
        return ""
    return page[4:].decode("ascii", "replace").strip("\0 ").strip()


def _attribute(folder: Path, *names: str) -> str:
    for name in names:
        try:
            text = (folder / name).read_text(encoding="utf-8", errors="replace").strip("\0 \n")
        except OSError:
            continue
        if text:
            return text
    return ""


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
