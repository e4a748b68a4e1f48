"""A file tree as a list of values, and its three written forms: cpio (newc), tar, folder.

Everything is owned by root in every form, whoever builds it, and carries one fixed time: the same inputs give the
same bytes.
"""

import io
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

# 2024-01-01T00:00:00Z: later than the zero that some tools take for "no time".
TREE_TIME = 1704067200


@dataclass(frozen=True, slots=True)
class Folder:
    """A directory."""

    path: str
    mode: int = 0o755


@dataclass(frozen=True, slots=True)
class File:
    """A regular file whose content is bytes, or a file of the host that is read when the tree is written."""

    path: str
    content: bytes | Path
    mode: int = 0o644

    def read(self) -> bytes:
        """The content."""
        return self.content if isinstance(self.content, bytes) else self.content.read_bytes()


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    path: str
    target: str


@dataclass(frozen=True, slots=True)
class Device:
    """A character device node."""

    path: str
    major: int
    minor: int
    mode: int = 0o600


type Node = Folder | File | Link | Device


def with_parents(nodes: Iterable[Node]) -> tuple[Node, ...]:
    """The nodes by path, each once (the last one wins), with every missing parent folder before its content.

    A node below a link is refused: an unpacker would follow it.
    """
    by_path: dict[str, Node] = {}
    for node in nodes:
        by_path[node.path] = node
    for path in list(by_path):
        parts = path.split("/")
        for count in range(1, len(parts)):
            parent = "/".join(parts[:count])
            match by_path.setdefault(parent, Folder(parent)):
                case Link() | File() | Device():
                    raise ValueError(f"{path} lies below {parent}, which is not a folder")
    return tuple(by_path[path] for path in sorted(by_path))


def write_cpio(nodes: Iterable[Node], out: BinaryIO) -> None:
    """Write the tree as a newc archive (Linux: Documentation/driver-api/early-userspace/buffer-format)."""
    inode = 0
    for inode, node in enumerate(with_parents(nodes), start=1):
        match node:
            case Folder(path, mode):
                _member(out, inode, path, 0o040000 | mode, b"")
            case File(path, _, mode):
                _member(out, inode, path, 0o100000 | mode, node.read())
            case Link(path, target):
                _member(out, inode, path, 0o120777, target.encode())
            case Device(path, major, minor, mode):
                _member(out, inode, path, 0o020000 | mode, b"", (major, minor))
    _member(out, inode + 1, "TRAILER!!!", 0, b"")


def _member(out: BinaryIO, inode: int, path: str, mode: int, data: bytes, device: tuple[int, int] = (0, 0)) -> None:
    name = path.encode() + b"\0"
    fields = (inode, mode, 0, 0, 1, TREE_TIME, len(data), 0, 0, *device, len(name), 0)
    head = b"070701" + b"".join(b"%08x" % field for field in fields) + name
    out.write(head + b"\0" * (-len(head) % 4))
    out.write(data)
    out.write(b"\0" * (-len(data) % 4))


def write_tar(nodes: Iterable[Node], out: BinaryIO) -> None:
    """Write the tree as a tar archive in the GNU format, as OCI layers are."""
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.GNU_FORMAT) as archive:
        for node in with_parents(nodes):
            info, data = _tar_member(node)
            archive.addfile(info, io.BytesIO(data))


def _tar_member(node: Node) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(node.path)
    info.mtime = TREE_TIME
    info.uname = info.gname = "root"
    data = b""
    match node:
        case Folder(_, mode):
            info.type, info.mode = tarfile.DIRTYPE, mode
        case File(_, _, mode):
            data = node.read()
            info.size, info.mode = len(data), mode
        case Link(_, target):
            info.type, info.linkname, info.mode = tarfile.SYMTYPE, target, 0o777
        case Device(_, major, minor, mode):
            info.type, info.mode, info.devmajor, info.devminor = tarfile.CHRTYPE, mode, major, minor
    return info, data


def python_package(folder: Path, where: str) -> Iterator[File]:
    """The Python sources, byte code and typed marker of a package folder, to be placed at `where`."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.suffix in {".py", ".pyc", ".typed"}:
            yield File(f"{where}/{path.relative_to(folder).as_posix()}", path)
