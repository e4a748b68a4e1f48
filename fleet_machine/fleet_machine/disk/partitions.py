"""Reading the partition table of a disk: GPT (UEFI specification, section 5.3), MBR, or none at all."""

import os
import struct
import uuid
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from zlib import crc32

from fleet_machine.disk.source import Disk
from fleet_machine.failure import FleetError

GPT_SIGNATURE = b"EFI PART"
HEADER = struct.Struct("<8sIIIIQQQQ16sQIII")
ENTRY_LIMIT = 1024

ESP_TYPE = uuid.UUID("c12a7328-f81f-11d2-ba4b-00a0c93ec93b")
ROOT_TYPES = frozenset(
    uuid.UUID(text)
    for text in (
        "4f68bce3-e8cd-4db1-96e7-fbcaf984b709",  # x86-64
        "b921b045-1df0-41c3-af44-4c6f280d3fae",  # arm64
        "72ec70a6-cf74-40e6-bd49-4bda08e8f224",  # riscv64
    )
)
LINUX_TYPE = uuid.UUID("0fc63daf-8483-4772-8e79-3d69d8477de4")
ROOT_LABELS = frozenset({"root", "rootfs", "cloudimg-rootfs", "nixos", "/"})
NO_GUID = uuid.UUID(int=0)
MBR_ESP, MBR_LINUX, MBR_PROTECTIVE = 0xEF, 0x83, 0xEE


class PartitionRole(Enum):
    """What a partition is for."""

    ESP = "esp"
    ROOT = "root"
    LINUX = "linux"
    META = "meta"
    OTHER = "other"


class PartitionTableError(FleetError):
    """The partition table cannot be read as what it says it is."""


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition; start and size in bytes. Number 0 is the whole disk."""

    number: int
    start: int
    size: int
    role: PartitionRole
    label: str = ""
    guid: uuid.UUID = NO_GUID


@dataclass(frozen=True, slots=True)
class GptHeader:
    """The fields of a GPT header that this client uses; addresses in logical blocks."""

    raw: bytes
    """The header, `HeaderSize` bytes."""
    my_lba: int
    alternate_lba: int
    first_usable: int
    last_usable: int
    entries_lba: int
    entry_count: int
    entry_size: int

    @property
    def entries_size(self) -> int:
        """The size of the entry array in bytes."""
        return self.entry_count * self.entry_size


def read_gpt_header(fd: int, lba: int, sector: int) -> GptHeader | None:
    """Return the GPT header at a block; None where there is none or its checksum is wrong."""
    block = os.pread(fd, sector, lba * sector)
    if len(block) < HEADER.size or block[:8] != GPT_SIGNATURE:
        return None
    fields = HEADER.unpack_from(block)
    size, checksum = fields[2], fields[3]
    if not HEADER.size <= size <= sector:
        return None
    raw = block[:size]
    if crc32(raw[:16] + bytes(4) + raw[20:]) != checksum:
        return None
    header = GptHeader(raw, fields[5], fields[6], fields[7], fields[8], fields[10], fields[11], fields[12])
    if header.my_lba != lba or not 128 <= header.entry_size <= 4096 or header.entry_count > ENTRY_LIMIT:
        return None
    return header


def partitions_of(disk: Disk) -> tuple[Partition, ...]:
    """Read the table of a disk by its path. Raises OSError and PartitionTableError."""
    fd = os.open(disk.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return read_partitions(fd, disk)
    finally:
        os.close(fd)


def read_partitions(fd: int, disk: Disk) -> tuple[Partition, ...]:
    """Read the table of an open disk; a disk without a table is one partition of number 0."""
    header = read_gpt_header(fd, 1, disk.sector_size)
    if header is not None:
        return _gpt(fd, header, disk)
    mbr = os.pread(fd, 512, 0)
    if mbr[510:512] == b"\x55\xaa":
        found = _mbr(mbr)
        if any(mbr[446 + 16 * index + 4] == MBR_PROTECTIVE for index in range(4)):
            raise PartitionTableError("The disk has a protective MBR but no readable GPT of its sector size.")
        if found and mbr[54:57] != b"FAT" and mbr[82:85] != b"FAT":
            return found
    return (Partition(0, 0, disk.size, PartitionRole.LINUX),)


def with_role(partitions: tuple[Partition, ...], role: PartitionRole) -> Partition:
    """Return the one partition of a role. Raises PartitionTableError when there is none, or more than one."""
    found = [partition for partition in partitions if partition.role is role]
    if len(found) != 1:
        raise PartitionTableError(f"The image has {len(found) or 'no'} {role.value} partitions; needed is exactly one.")
    return found[0]


def root_partition(partitions: tuple[Partition, ...]) -> Partition:
    """Return the root file system's partition: by its type, by its label, or else the largest Linux one.

    Raises PartitionTableError when there is none.
    """
    linux = [partition for partition in partitions if partition.role in (PartitionRole.ROOT, PartitionRole.LINUX)]
    typed = [partition for partition in linux if partition.role is PartitionRole.ROOT]
    labelled = [partition for partition in linux if partition.label.lower() in ROOT_LABELS]
    for found in (typed, labelled):
        if len(found) == 1:
            return found[0]
    if not linux:
        raise PartitionTableError("The image has no partition for a Linux root file system.")
    return max(linux, key=lambda partition: partition.size)


def partition_path(disk: Disk, partition: Partition) -> Path:
    """Return the device node of a partition of a real disk."""
    if partition.number == 0:
        return disk.path
    separator = "p" if disk.path.name[-1:].isdigit() else ""
    return disk.path.with_name(f"{disk.path.name}{separator}{partition.number}")


def _gpt(fd: int, header: GptHeader, disk: Disk) -> tuple[Partition, ...]:
    entries = os.pread(fd, header.entries_size, header.entries_lba * disk.sector_size)
    if len(entries) != header.entries_size or crc32(entries) != struct.unpack_from("<I", header.raw, 88)[0]:
        raise PartitionTableError("The GPT's entries do not have the checksum that its header says.")
    found = []
    for index in range(header.entry_count):
        entry = entries[index * header.entry_size : (index + 1) * header.entry_size]
        kind = uuid.UUID(bytes_le=entry[:16])
        if not kind.int:
            continue
        first, last = struct.unpack_from("<QQ", entry, 32)
        start, size = first * disk.sector_size, (last - first + 1) * disk.sector_size
        if size <= 0 or start + size > disk.size:
            raise PartitionTableError(f"Partition {index + 1} of the image ends behind the end of the disk.")
        label = entry[56:128].decode("utf-16-le", "replace").partition("\0")[0]
        found.append(Partition(index + 1, start, size, _role(kind, label), label, uuid.UUID(bytes_le=entry[16:32])))
    return tuple(found)


def _role(kind: uuid.UUID, label: str) -> PartitionRole:
    if kind == ESP_TYPE:
        return PartitionRole.ESP
    if kind in ROOT_TYPES:
        return PartitionRole.ROOT
    if label == "META":
        return PartitionRole.META
    return PartitionRole.LINUX if kind == LINUX_TYPE else PartitionRole.OTHER


def _mbr(mbr: bytes) -> tuple[Partition, ...]:
    roles = {MBR_ESP: PartitionRole.ESP, MBR_LINUX: PartitionRole.LINUX}
    found = []
    for index in range(4):
        entry = mbr[446 + 16 * index : 462 + 16 * index]
        first, count = struct.unpack_from("<II", entry, 8)
        if entry[4] and count:
            found.append(Partition(index + 1, first * 512, count * 512, roles.get(entry[4], PartitionRole.OTHER)))
    return tuple(found)
