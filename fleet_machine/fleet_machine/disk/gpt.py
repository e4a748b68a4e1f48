"""Changing a GPT: moving the backup header to the end of the disk, and clearing a partition table."""

import os
import struct
from zlib import crc32

from fleet_machine.disk.partitions import MBR_PROTECTIVE, PartitionTableError, read_gpt_header
from fleet_machine.disk.source import Disk

CLEARED = 1 << 20
"""Bytes cleared at each end of a disk: every kind of partition table lies within."""
OTHER_SECTOR = {512: 4096, 4096: 512}


def relocate_backup(fd: int, disk: Disk) -> bool:
    """Move the GPT's backup to the end of the disk and let the table use all of it (UEFI, section 5.3.2).

    An image that is smaller than the disk carries its backup at the image's end. Returns False where there is no GPT.
    Raises PartitionTableError when the image was made for another sector size.
    """
    sector = disk.sector_size
    header = read_gpt_header(fd, 1, sector)
    if header is None:
        other = OTHER_SECTOR.get(sector)
        if other and read_gpt_header(fd, 1, other) is not None:
            raise PartitionTableError(f"The image is made for sectors of {other} bytes; the disk has {sector}.")
        return False
    last = disk.size // sector - 1
    if header.alternate_lba == last:
        return True
    if header.alternate_lba > last:
        raise PartitionTableError("The image's partition table is made for a larger disk.")
    entries = os.pread(fd, header.entries_size, header.entries_lba * sector)
    blocks = -(-header.entries_size // sector)
    usable = last - blocks - 1
    backup = _header(header.raw, my=last, alternate=1, last_usable=usable, entries=last - blocks)
    primary = _header(header.raw, my=1, alternate=last, last_usable=usable, entries=header.entries_lba)
    # The new backup is complete before the primary points to it: a power cut leaves one good table.
    write_all(fd, entries.ljust(blocks * sector, b"\0"), (last - blocks) * sector)
    write_all(fd, backup.ljust(sector, b"\0"), last * sector)
    os.fsync(fd)
    write_all(fd, primary.ljust(sector, b"\0"), sector)
    _stretch_protective_mbr(fd, last)
    os.fsync(fd)
    # The image's own backup would be found by a tool that looks for lost tables.
    write_all(fd, bytes(sector), header.alternate_lba * sector)
    os.fsync(fd)
    return True


def clear_table(fd: int, size: int) -> None:
    """Overwrite both ends of the disk with zeros: nothing boots or mounts from it any more."""
    write_all(fd, bytes(min(CLEARED, size)), 0)
    write_all(fd, bytes(min(CLEARED, size)), max(0, size - CLEARED))
    os.fsync(fd)


def write_all(fd: int, content: bytes | memoryview, offset: int) -> None:
    """Write every byte. Raises OSError."""
    view = memoryview(content)
    while view:
        written = os.pwrite(fd, view, offset)
        view = view[written:]
        offset += written


def _header(raw: bytes, *, my: int, alternate: int, last_usable: int, entries: int) -> bytes:
    changed = bytearray(raw)
    struct.pack_into("<QQ", changed, 24, my, alternate)
    struct.pack_into("<Q", changed, 48, last_usable)
    struct.pack_into("<Q", changed, 72, entries)
    struct.pack_into("<I", changed, 16, 0)
    struct.pack_into("<I", changed, 16, crc32(bytes(changed)))
    return bytes(changed)


def _stretch_protective_mbr(fd: int, last: int) -> None:
    mbr = bytearray(os.pread(fd, 512, 0))
    for index in range(4):
        at = 446 + 16 * index
        if mbr[510:512] == b"\x55\xaa" and mbr[at + 4] == MBR_PROTECTIVE:
            struct.pack_into("<I", mbr, at + 12, min(last, 0xFFFFFFFF))
            # A hybrid table has real partitions beside the protective one; those stay as they are.
            write_all(fd, bytes(mbr), 0)
            return
