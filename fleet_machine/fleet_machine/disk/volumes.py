"""Files in the file systems of a written disk.

ext2/3/4 by debugfs and FAT by mtools need no mount, no privilege and no kernel module; XFS and btrfs are mounted, and
so are the others where the tools are not there.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath
from typing import Protocol

from fleet_machine.disk.partitions import Partition
from fleet_machine.disk.source import Disk
from fleet_machine.failure import FleetError

TIMEOUT = 120.0


class VolumeError(FleetError):
    """A file system cannot take or give the file."""


class FileSystem(Enum):
    """File systems that can be told apart."""

    EXT = "ext4"
    FAT = "vfat"
    XFS = "xfs"
    BTRFS = "btrfs"
    UNKNOWN = "unknown"


class VolumeWriter(Protocol):
    """Puts files into file systems on a disk, and reads them."""

    def write(self, disk: Disk, partition: Partition, files: Mapping[str, bytes]) -> None:
        """Write files (path below the file system's root, content), 0600 and root's; on the disk when this returns.

        Raises VolumeError.
        """
        ...

    def read(self, disk: Disk, partition: Partition, path: str) -> bytes | None:
        """Return a file's content; None when there is none. Raises VolumeError."""
        ...

    def holds(self, disk: Disk, partition: Partition, path: str) -> bool:
        """Return whether there is such a file. Raises VolumeError."""
        ...


def file_system_of(disk: Disk, partition: Partition) -> FileSystem:
    """Tell the file system of a partition by its magic numbers. Raises OSError."""
    fd = os.open(disk.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        head = os.pread(fd, 0x10050, partition.start)
    finally:
        os.close(fd)
    if head[0x438:0x43A] == b"\x53\xef":
        return FileSystem.EXT
    if head[:4] == b"XFSB":
        return FileSystem.XFS
    if head[0x10040:0x10048] == b"_BHRfS_M":
        return FileSystem.BTRFS
    if head[510:512] == b"\x55\xaa" and (head[54:57] == b"FAT" or head[82:85] == b"FAT"):
        return FileSystem.FAT
    return FileSystem.UNKNOWN


def checked_path(path: str) -> PurePosixPath:
    """Return a path below a root, of plain names only. Raises VolumeError."""
    pure = PurePosixPath(path)
    plain = all(part not in ("", ".", "..") and all(c.isalnum() or c in "-_.+" for c in part) for part in pure.parts)
    if pure.is_absolute() or not pure.parts or not plain or not path.isascii():
        raise VolumeError(f"The seed holds a file name that is not allowed: {path[:100]!r}.")
    return pure


@dataclass(frozen=True, slots=True)
class ToolVolumes:
    """Chooses the tool by the file system."""

    def write(self, disk: Disk, partition: Partition, files: Mapping[str, bytes]) -> None:
        """Write files and read them back."""
        paths = {checked_path(path): content for path, content in files.items()}
        kind = file_system_of(disk, partition)
        if kind is FileSystem.UNKNOWN:
            raise VolumeError(f"Partition {partition.number} has no file system that a seed can be written to.")
        if _has_tool(kind):
            (_ext_write if kind is FileSystem.EXT else _fat_write)(disk, partition, paths)
        else:
            _mounted_write(disk, partition, kind, paths)
        _flush(disk)
        for path, content in paths.items():
            if self.read(disk, partition, str(path)) != content:
                raise VolumeError(f"{path} does not read back as it was written.")

    def read(self, disk: Disk, partition: Partition, path: str) -> bytes | None:
        """Read one file."""
        pure = checked_path(path)
        kind = file_system_of(disk, partition)
        if kind is FileSystem.UNKNOWN:
            return None
        if not _has_tool(kind):
            with mounted(disk, partition, kind, "ro") as root:
                return _read_below(root, pure)
        if kind is FileSystem.EXT:
            done = _run(["debugfs", "-R", f"cat /{pure}", _ext_name(disk, partition)], check=False)
            missing = b"File not found" in done.stderr or b"Can't open" in done.stderr
            return None if missing else done.stdout
        done = _run(["mtype", "-i", _fat_name(disk, partition), f"::/{pure}"], check=False)
        return done.stdout if done.returncode == 0 else None

    def holds(self, disk: Disk, partition: Partition, path: str) -> bool:
        """Look for one file without reading it where the tool can."""
        pure = checked_path(path)
        if file_system_of(disk, partition) is FileSystem.FAT and _has_tool(FileSystem.FAT):
            return _run(["mdir", "-b", "-i", _fat_name(disk, partition), f"::/{pure}"], check=False).returncode == 0
        return self.read(disk, partition, path) is not None


def _flush(disk: Disk) -> None:
    """Bring everything to the disk: mtools does not."""
    fd = os.open(disk.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _ext_write(disk: Disk, partition: Partition, files: Mapping[PurePosixPath, bytes]) -> None:
    # debugfs makes a second folder of the same name without a word, so only missing ones are made.
    parents = {parent: None for path in files for parent in reversed(path.parents[:-1])}
    commands = [f"mkdir /{parent}" for parent in parents if not _ext_has(disk, partition, parent)]
    sources: list[int] = []
    try:
        for path, content in files.items():
            sources.append(_in_memory(content))
            commands += [
                f"cd /{path.parent}" if len(path.parts) > 1 else "cd /",
                f"rm {path.name}",
                f"write /proc/self/fd/{sources[-1]} {path.name}",
                f"sif {path.name} mode 0100600",
                f"sif {path.name} uid 0",
                f"sif {path.name} gid 0",
            ]
        script = "\n".join(commands) + "\n"
        # The script comes from a file of its own: debugfs ends its work before it exits, whatever the commands did.
        fd = _in_memory(script.encode())
        sources.append(fd)
        _run(["debugfs", "-w", "-f", f"/proc/self/fd/{fd}", _ext_name(disk, partition)], pass_fds=tuple(sources))
    finally:
        for fd in sources:
            os.close(fd)


def _ext_has(disk: Disk, partition: Partition, path: PurePosixPath) -> bool:
    done = _run(["debugfs", "-R", f"stat /{path}", _ext_name(disk, partition)])
    return b"Inode:" in done.stdout


def _fat_write(disk: Disk, partition: Partition, files: Mapping[PurePosixPath, bytes]) -> None:
    image = _fat_name(disk, partition)
    for path, content in files.items():
        for parent in reversed(path.parents[:-1]):
            _run(["mmd", "-D", "s", "-i", image, f"::/{parent}"], check=False)
        fd = _in_memory(content)
        try:
            _run(["mcopy", "-D", "o", "-i", image, f"/proc/self/fd/{fd}", f"::/{path}"], pass_fds=(fd,))
        finally:
            os.close(fd)


def _mounted_write(disk: Disk, partition: Partition, kind: FileSystem, files: Mapping[PurePosixPath, bytes]) -> None:
    with mounted(disk, partition, kind, "rw") as root:
        for path, content in files.items():
            folder = os.dup(root)
            for part in path.parts[:-1]:
                folder = _enter(folder, part)
            try:
                flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
                with os.fdopen(os.open(path.name, flags, 0o600, dir_fd=folder), "wb") as file:
                    os.fchmod(file.fileno(), 0o600)
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise VolumeError(f"{path} cannot be written: {error}.") from error
            finally:
                os.close(folder)


@contextmanager
def mounted(disk: Disk, partition: Partition, kind: FileSystem, mode: str) -> Iterator[int]:
    """Mount a partition for the block; yield a descriptor of its root. Raises VolumeError."""
    with tempfile.TemporaryDirectory(prefix="fleet-mount-") as folder:
        options = f"loop,offset={partition.start},sizelimit={partition.size},{mode},nosuid,nodev,noexec"
        if kind is FileSystem.XFS:
            options += ",nouuid"
        _run(["mount", "-t", kind.value, "-o", options, str(disk.path), folder])
        try:
            root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                yield root
            finally:
                os.close(root)
        finally:
            _run(["umount", folder])


def _enter(folder: int, name: str) -> int:
    """Open, or make and open, a folder below another, never through a symbolic link: an image's could lead outside."""
    try:
        with suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=folder)
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError as error:
        raise VolumeError(f"The folder {name} of the image cannot be used: {error}.") from error
    finally:
        os.close(folder)


def _read_below(root: int, path: PurePosixPath) -> bytes | None:
    folder = os.dup(root)
    try:
        for part in path.parts[:-1]:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = inner
        file = os.open(path.name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        with os.fdopen(file, "rb") as opened:
            return opened.read()
    except FileNotFoundError:
        return None
    finally:
        os.close(folder)


def _has_tool(kind: FileSystem) -> bool:
    tool = {FileSystem.EXT: "debugfs", FileSystem.FAT: "mcopy"}.get(kind)
    return tool is not None and shutil.which(tool, path=_path()) is not None


def _ext_name(disk: Disk, partition: Partition) -> str:
    return f"{disk.path}?offset={partition.start}" if partition.start else str(disk.path)


def _fat_name(disk: Disk, partition: Partition) -> str:
    return f"{disk.path}@@{partition.start}"


def _in_memory(content: bytes) -> int:
    """Return a descriptor of an anonymous file: a seed is never put on a disk of the installer."""
    fd = os.memfd_create("seed", 0)
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _run(
    command: list[str], *, check: bool = True, pass_fds: tuple[int, ...] = ()
) -> "subprocess.CompletedProcess[bytes]":
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=TIMEOUT,
            pass_fds=pass_fds,
            env={**os.environ, "MTOOLS_SKIP_CHECK": "1", "LC_ALL": "C.UTF-8", "PATH": _path()},
        )
    except FileNotFoundError as error:
        raise VolumeError(f"The action image lacks the program {command[0]}.") from error
    except subprocess.TimeoutExpired as error:
        raise VolumeError(f"{command[0]} hangs.") from error
    if check and done.returncode != 0:
        words = done.stderr.decode("utf-8", "replace").strip()[-300:]
        raise VolumeError(f"{command[0]} failed: {words}")
    return done


def _path() -> str:
    return os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
