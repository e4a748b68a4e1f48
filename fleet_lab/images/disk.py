"""Disk images with a GPT, an ESP and an ext4 root, made without privileges: no loop device, no mount."""

import hashlib
import json
import os
import shlex
import shutil
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import zstandard

from fleet_lab.images.filetree import TREE_TIME, Device, Node, write_tar
from fleet_lab.images.packages import ImageBuildError, run

_MIB = 1 << 20
_FIRST = 1 * _MIB
_ESP_TYPE = "C12A7328-F81F-11D2-BA4B-00A0C93EC93B"
_ROOT_TYPE = "4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709"
LINUX_TYPE = "0FC63DAF-8483-4772-8E79-3D69D8477DE4"
_BLOCK = 1 << 20
# A FAT with fewer than 4,085 clusters is FAT12; some are taken by the tables.
_FAT16_CLUSTERS = 4200


@dataclass(frozen=True, slots=True)
class DiskImage:
    """A compressed disk image, and what classes.json says of it: size and SHA-256 of the raw bytes."""

    path: Path
    size: int
    sha256: str

    @classmethod
    def load(cls, folder: Path) -> "DiskImage":
        """Read what `write_image` left in a folder."""
        facts = json.loads((folder / "facts.json").read_text())
        return cls(folder / "disk.img.zst", facts["size"], facts["sha256"])


@dataclass(frozen=True, slots=True)
class RootFileSystem:
    """What goes into the ext4 root; `spare` bytes stay free in it. The nodes lie over a tar archive, if there is one."""

    nodes: tuple[Node, ...]
    label: str
    uuid: str
    spare: int = 24 * _MIB
    archive: Path | None = None
    type: str = _ROOT_TYPE
    """GPT type of the partition."""
    gpt_label: str = ""


@dataclass(frozen=True, slots=True)
class Esp:
    """Files of the EFI system partition by path, and its size in bytes."""

    files: Mapping[str, Path]
    size: int


@dataclass(frozen=True, slots=True)
class RawPartition:
    """A partition that is no file system; its GPT label and its bytes."""

    label: str
    content: bytes


def write_image(
    folder: Path, root: RootFileSystem, esp: Esp | None, disk_id: str, raw_partitions: Sequence[RawPartition] = ()
) -> None:
    """Write `disk.img.zst` and `facts.json` into a new folder; the root comes last, and its GPT label is its own.

    Raises:
        ImageBuildError: a tool is missing or failed.
    """
    folder.mkdir()
    raw = folder / "disk.img"
    parts: list[tuple[str, str, Path]] = []
    if esp is not None:
        parts.append((_ESP_TYPE, "", _esp(folder / "esp", esp)))
    for partition in raw_partitions:
        content = folder / partition.label
        content.write_bytes(partition.content)
        parts.append((LINUX_TYPE, partition.label, content))
    parts.append((root.type, root.gpt_label, _ext4(folder / "root", root)))
    _assemble(raw, parts, disk_id)
    _compress(raw, folder / "disk.img.zst")
    with raw.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    (folder / "facts.json").write_text(json.dumps({"size": raw.stat().st_size, "sha256": digest}))
    for path in (raw, *(part for _, _, part in parts)):
        path.unlink()


def _esp(out: Path, esp: Esp) -> Path:
    with out.open("wb") as file:
        file.truncate(esp.size)
    # FAT16 with clusters as large as it allows: firmware reads it far quicker than the smallest FAT32, and knows both.
    cluster = next(sectors for sectors in (16, 8, 4, 2, 1) if esp.size // (512 * sectors) >= _FAT16_CLUSTERS)
    run("mkfs.fat", "-F", "16", "-s", str(cluster), "-n", "FLEET-ESP", "-i", "f1ee7e50", "--invariant", out)
    folders = {str(parent) for name in esp.files for parent in Path(name).parents if str(parent) != "."}
    for folder in sorted(folders):
        run("mmd", "-i", out, f"::{folder}")
    for name, source in esp.files.items():
        run("mcopy", "-i", out, source, f"::{name}")
    return out


def _ext4(out: Path, root: RootFileSystem) -> Path:
    tree, archives = out.with_name("tree"), [root.archive] if root.archive is not None else []
    tree.mkdir()
    layer = out.with_name("layer.tar")
    with layer.open("wb") as file:
        write_tar(tuple(node for node in root.nodes if not isinstance(node, Device)), file)
    archives.append(layer)
    size = -(-(int(sum(map(_used, archives)) * 1.05) + root.spare) // _MIB)
    options = ["-q", "-t", "ext4", "-L", root.label, "-U", root.uuid, "-E", "hash_seed=" + root.uuid]
    options += ["-J", "size=4", "-m", "0", "-d", str(tree)]
    unpack = [["tar", "-C", str(tree), "--numeric-owner", "--exclude=./dev/*", "-xpf", str(each)] for each in archives]
    steps = [*unpack, ["mke2fs", *options, str(out), f"{size}M"]]
    # An ordinary user's files must be root's in the image: owners last as long as one fakeroot does.
    wrapper = [] if os.getuid() == 0 else ["fakeroot", "--"]
    environment = {"SOURCE_DATE_EPOCH": str(TREE_TIME), "E2FSPROGS_FAKE_TIME": str(TREE_TIME)}
    run(*wrapper, "sh", "-ec", "\n".join(shlex.join(step) for step in steps), environment=environment)
    shutil.rmtree(tree)
    layer.unlink()
    return out


def _used(archive: Path) -> int:
    """The room that an archive's members take in a file system, in bytes."""
    with tarfile.open(archive) as members:
        return sum(-(-member.size // 4096) * 4096 + 512 for member in members)


def _assemble(raw: Path, parts: Iterable[tuple[str, str, Path]], disk_id: str) -> None:
    """Partition table and partitions into one sparse file; behind the last one is room for the backup table."""
    lines = ["label: gpt", f"label-id: {disk_id}", "unit: sectors"]
    start = _FIRST
    with raw.open("wb") as file:
        for number, (kind, label, part) in enumerate(parts, start=1):
            size = part.stat().st_size
            guid = f"{disk_id[:-1]}{number}"
            name = f', name="{label}"' if label else ""
            lines.append(f"start={start // 512}, size={size // 512}, type={kind}, uuid={guid}{name}")
            _copy_sparse(part, file, start)
            start += size
        file.truncate(start + _FIRST)
    script = raw.with_name("table")
    script.write_text("\n".join(lines) + "\n")
    with script.open("rb") as table:
        run("sfdisk", "--quiet", "--no-reread", "--no-tell-kernel", raw, stdin=table)
    script.unlink()


def _copy_sparse(source: Path, sink: BinaryIO, start: int) -> None:
    with source.open("rb") as file:
        while block := file.read(_BLOCK):
            if block.count(0) != len(block):
                sink.seek(start)
                sink.write(block)
            start += len(block)


def _compress(raw: Path, out: Path) -> None:
    compressor = zstandard.ZstdCompressor(level=9, threads=-1, write_content_size=True)
    with raw.open("rb") as source, out.open("wb") as sink:
        compressor.copy_stream(source, sink, size=raw.stat().st_size)


__all__ = ["LINUX_TYPE", "DiskImage", "Esp", "ImageBuildError", "RawPartition", "RootFileSystem", "write_image"]
