"""What a disk can be told beyond reading and writing, as a port: ioctls of the Linux block layer, NVMe and SCSI."""

import ctypes
import fcntl
import os
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from fleet_machine.disk.source import Disk

# linux/fs.h
BLKRRPART, BLKFLSBUF = 0x125F, 0x1261
BLKDISCARD, BLKSECDISCARD, BLKZEROOUT = 0x1277, 0x127D, 0x127F
# linux/falloc.h
FALLOC_KEEP_SIZE, FALLOC_PUNCH_HOLE = 0x01, 0x02
# linux/nvme_ioctl.h: struct nvme_passthru_cmd is 72 bytes.
NVME_ADMIN, NVME_ID = 0xC0484E41, 0x4E40
# scsi/sg.h
SG_IO = 0x2285


@dataclass(frozen=True, slots=True)
class SgAnswer:
    """How a SCSI command ended."""

    status: int
    sense: bytes
    data: bytes


class DiskCommands(Protocol):
    """Commands to an open disk. Every one raises OSError when the disk or its driver does not know it."""

    def discard(self, fd: int, start: int, length: int) -> None:
        """Tell the disk that a range (bytes) holds nothing any more; what it then reads as is the disk's choice."""
        ...

    def secure_discard(self, fd: int, start: int, length: int) -> None:
        """Discard a range together with all copies that the disk may hold of it."""
        ...

    def zero_out(self, fd: int, start: int, length: int) -> None:
        """Make a range (bytes) read as zeros, by whatever the disk has for it."""
        ...

    def forget_cache(self, fd: int) -> None:
        """Write out and drop what the kernel holds of the disk, so that the next read comes from the disk."""
        ...

    def reread_partitions(self, fd: int) -> None:
        """Make the kernel look at the partition table again."""
        ...

    def nvme_admin(self, fd: int, command: "NvmeCommand") -> tuple[int, bytes]:
        """Send an NVMe admin command; return its result (dword 0) and the data read."""
        ...

    def nvme_namespace(self, fd: int) -> int:
        """Return the NVMe namespace id of an open disk."""
        ...

    def scsi(self, fd: int, cdb: bytes, *, read: int, write: bytes, timeout: float) -> SgAnswer:
        """Send a SCSI command (ATA by pass-through); `read` bytes are expected, or `write` is sent; seconds."""
        ...

    def namespaces(self, disk: Disk) -> tuple[str, ...]:
        """Return the names of all namespaces of the disk's NVMe controller; empty for another disk."""
        ...


@dataclass(frozen=True, slots=True)
class NvmeCommand:
    """An NVMe admin command (NVM Express Base Specification, section 5)."""

    opcode: int
    nsid: int = 0
    cdw10: int = 0
    cdw11: int = 0
    read: int = 0
    timeout_ms: int = 60_000

    def packed(self, address: int) -> bytes:
        """Return struct nvme_passthru_cmd with the data buffer at `address`."""
        head = struct.pack("<BBHIIIQQII", self.opcode, 0, 0, self.nsid, 0, 0, 0, address, 0, self.read)
        return head + struct.pack("<IIIIIIII", self.cdw10, self.cdw11, 0, 0, 0, 0, self.timeout_ms, 0)


class KernelCommands:
    """The real commands."""

    def __init__(self, sysfs: Path = Path("/sys")) -> None:
        """Read below `sysfs`."""
        self._sysfs = sysfs

    def discard(self, fd: int, start: int, length: int) -> None:
        """BLKDISCARD; a disk that is a file gives its blocks back to the file system."""
        try:
            fcntl.ioctl(fd, BLKDISCARD, struct.pack("=QQ", start, length))
        except OSError:
            if _is_block(fd):
                raise
            _punch_hole(fd, start, length)

    def secure_discard(self, fd: int, start: int, length: int) -> None:
        """BLKSECDISCARD."""
        fcntl.ioctl(fd, BLKSECDISCARD, struct.pack("=QQ", start, length))

    def zero_out(self, fd: int, start: int, length: int) -> None:
        """BLKZEROOUT; a hole in a disk that is a file."""
        if _is_block(fd):
            fcntl.ioctl(fd, BLKZEROOUT, struct.pack("=QQ", start, length))
        else:
            _punch_hole(fd, start, length)

    def forget_cache(self, fd: int) -> None:
        """Fsync, then BLKFLSBUF and POSIX_FADV_DONTNEED."""
        os.fsync(fd)
        with suppress(OSError):
            fcntl.ioctl(fd, BLKFLSBUF, 0)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def reread_partitions(self, fd: int) -> None:
        """BLKRRPART; nothing to do for a disk that is a file."""
        if _is_block(fd):
            fcntl.ioctl(fd, BLKRRPART, 0)

    def nvme_admin(self, fd: int, command: NvmeCommand) -> tuple[int, bytes]:
        """NVME_IOCTL_ADMIN_CMD; a status of the controller is raised as OSError."""
        buffer = ctypes.create_string_buffer(max(command.read, 1))
        packed = bytearray(command.packed(ctypes.addressof(buffer) if command.read else 0))
        status = fcntl.ioctl(fd, NVME_ADMIN, packed, True)
        if status:
            raise OSError(status, f"the NVMe controller answers with status 0x{status:x}")
        return struct.unpack("<I", packed[-4:])[0], buffer.raw[: command.read]

    def nvme_namespace(self, fd: int) -> int:
        """NVME_IOCTL_ID."""
        return fcntl.ioctl(fd, NVME_ID)

    def scsi(self, fd: int, cdb: bytes, *, read: int, write: bytes, timeout: float) -> SgAnswer:
        """SG_IO with struct sg_io_hdr (interface version 3)."""
        data = ctypes.create_string_buffer(write or bytes(max(read, 1)), max(read, len(write), 1))
        sense, command = ctypes.create_string_buffer(64), ctypes.create_string_buffer(cdb, len(cdb))
        direction = -3 if read else -2 if write else -1
        header = bytearray(
            struct.pack(
                "@iiBBHIPPPIIiP4BHHiII",
                ord("S"),
                direction,
                len(cdb),
                64,
                0,
                read or len(write),
                ctypes.addressof(data),
                ctypes.addressof(command),
                ctypes.addressof(sense),
                int(timeout * 1000),
                0,
                0,
                0,
                *(0, 0, 0, 0),
                *(0, 0, 0, 0, 0),
            )
            + bytes(4)  # the structure's size is a multiple of its pointers'
        )
        fcntl.ioctl(fd, SG_IO, header, True)
        fields = struct.unpack("@iiBBHIPPPIIiP4BHHiII", bytes(header[:84]))
        if fields[17] or fields[18] & ~0x8:
            raise OSError(5, f"the disk's driver failed (host 0x{fields[17]:x}, driver 0x{fields[18]:x})")
        return SgAnswer(fields[13], sense.raw, data.raw[:read])

    def namespaces(self, disk: Disk) -> tuple[str, ...]:
        """Return the block devices below the disk's NVMe controller in sysfs."""
        if not disk.name.startswith("nvme"):
            return ()
        controller = (self._sysfs / "block" / disk.name / "device").resolve()
        return tuple(sorted(path.name for path in controller.glob("nvme*n*") if (path / "size").exists()))


def _is_block(fd: int) -> bool:
    return bool(os.fstat(fd).st_rdev)


def _punch_hole(fd: int, start: int, length: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    mode = FALLOC_PUNCH_HOLE | FALLOC_KEEP_SIZE
    if libc.fallocate(fd, mode, ctypes.c_int64(start), ctypes.c_int64(length)) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
