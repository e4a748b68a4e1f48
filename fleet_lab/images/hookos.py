"""The HookOS stand-in: one UKI that holds kernel, agent and container runtime, and nothing that differs by machine."""

import shutil
from collections.abc import Iterable
from pathlib import Path

import zstandard

from fleet_lab.images.cache import ImageCache, content_key
from fleet_lab.images.filetree import Device, File, Folder, Link, Node, write_cpio
from fleet_lab.images.kernel import kernel_of, module_nodes
from fleet_lab.images.packages import Suite, extracted_root
from fleet_lab.images.selection import MERGED_LINKS, select
from fleet_lab.images.uki import MeasuredImage, build_uki
from fleet_lab.places import CHECKOUT

COMMAND_LINE = "console=ttyS0 quiet loglevel=4 panic=-1"
_OS_RELEASE = 'ID=fleet-lab-hookos\nNAME="HookOS stand-in of the lab"\n'
_LAB = CHECKOUT / "fleet_lab"
_DEPLOY = CHECKOUT / "deploy" / "hookos"

MODULES = (
    "virtio_pci",
    "virtio_blk",
    "virtio_net",
    "virtio_rng",
    "nvme",
    "ext4",
    "vfat",
    "nls_ascii",
    "nls_cp437",
    "overlay",
    "loop",
    "efivarfs",
)

PYTHON = ("usr/bin/python3", "usr/bin/python3.[0-9]*", "usr/lib/python3.[0-9]*")

_FILES = (
    "bin/busybox",
    "usr/bin/crun",
    *PYTHON,
    "usr/lib/python3/dist-packages/grpc",
)

ACCOUNTS: tuple[Node, ...] = (
    File("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    File("etc/group", b"root:x:0:\nnogroup:x:65534:\n"),
    File("etc/hosts", b"127.0.0.1 localhost\n"),
)


def build_hookos(cache: ImageCache, suite: Suite, permitted: Iterable[str]) -> MeasuredImage:
    """Build (or find) the UKI that runs only the action images with the given manifest digests.

    Raises:
        ImageBuildError: a tool is missing or failed.
    """
    root = extracted_root(cache, suite)
    base = _base(cache, root)
    overlay = tuple(_overlay(sorted(permitted)))
    inputs = [node.path.encode() + b"\0" + node.read() for node in overlay if isinstance(node, File)]
    key = content_key("hookos", COMMAND_LINE, base.name, *inputs)
    folder = cache.get("hookos", key, lambda out: _build(root, base, overlay, out))
    return MeasuredImage(folder / "hookos.efi", folder / "vmlinuz")


def _base(cache: ImageCache, root: Path) -> Path:
    """The part of the initrd that only changes with the packages, compressed once."""
    key = content_key("hookos-base", "3", root.name, *_FILES, *MODULES)
    return cache.get("hookos-base", key, lambda out: _write_base(root, out))


def _write_base(root: Path, out: Path) -> None:
    nodes = (
        *MERGED_LINKS,
        *(Folder(name) for name in ("dev", "proc", "sys", "run", "tmp", "usr/bin", "usr/sbin")),
        Device("dev/console", 5, 1),
        Device("dev/null", 1, 3, 0o666),
        *(node for node in select(root, _FILES) if node.path not in {link.path for link in MERGED_LINKS}),
        *module_nodes(kernel_of(root), MODULES),
        *ACCOUNTS,
    )
    compressor = zstandard.ZstdCompressor(level=10, threads=-1)
    with out.open("wb") as file, compressor.stream_writer(file, closefd=False) as stream:
        write_cpio(nodes, stream)


def _overlay(permitted: list[str]) -> Iterable[Node]:
    yield File("init", _DEPLOY / "init", 0o755)
    yield File("etc/udhcpc.script", _DEPLOY / "udhcpc.script", 0o755)
    yield File("etc/fleet/action-images", "".join(f"{digest}\n" for digest in permitted).encode())
    where = "usr/lib/python3/dist-packages/fleet_lab"
    yield File(f"{where}/__init__.py", _LAB / "__init__.py")
    yield from (File(f"{where}/{path.name}", path) for path in sorted(_LAB.glob("agent*.py")))
    yield from (File(f"{where}/hookos/{path.name}", path) for path in sorted((_LAB / "hookos").glob("*.py")))
    yield Link("usr/bin/sh", "busybox")


def _build(root: Path, base: Path, overlay: Iterable[Node], out: Path) -> None:
    out.mkdir()
    initrd = out / "initrd"
    with initrd.open("wb") as file:
        file.write(base.read_bytes())
        file.write(b"\0" * (-file.tell() % 4))
        write_cpio(overlay, file)
    kernel = shutil.copyfile(kernel_of(root).image, out / "vmlinuz")
    build_uki(root, kernel, initrd, COMMAND_LINE, _OS_RELEASE, out / "hookos.efi")
