"""The image of the class `lab-alpine`: boots by itself, claims its seed, then proves its boot again and again."""

from pathlib import Path

import zstandard

from fleet_lab.images.action import (
    MACHINE_FILES,
    fleet_machine_nodes,
    fleet_machine_sources,
    machine_base,
)
from fleet_lab.images.cache import ImageCache, content_key
from fleet_lab.images.disk import DiskImage, Esp, RootFileSystem, write_image
from fleet_lab.images.filetree import File, Folder, Link, Node, write_cpio
from fleet_lab.images.initrd import MODULES, initrd_nodes
from fleet_lab.images.kernel import kernel_of
from fleet_lab.images.packages import Suite, extracted_root
from fleet_lab.images.uki import build_uki
from fleet_lab.places import CHECKOUT

COMMAND_LINE = "console=ttyS0 quiet loglevel=4 panic=10"
_OS_RELEASE = 'ID=fleet-lab-alpine\nNAME="lab-alpine"\n'
_DEPLOY = CHECKOUT / "deploy"
_TOOLS = (
    "sbin/blkid",
    "sbin/debugfs",
    "bin/mount",
    "bin/umount",
    "usr/bin/mtools",
    *(f"usr/bin/{name}" for name in ("mcopy", "mtype", "mmd", "mdir", "mdel")),
    *(f"usr/lib/x86_64-linux-gnu/gconv/{name}" for name in ("gconv-modules*", "IBM850.so", "UTF-16.so", "UTF-32.so")),
)
_DISK_ID = "6E1B1A4C-3C1D-4D6A-8F5B-0A1C00000000"
_ROOT_UUID = "9d0f6f5e-55c6-4e1a-9a53-0c1d2e3f4a5b"


def build_alpine(cache: ImageCache, suite: Suite) -> DiskImage:
    """Build (or find) the image.

    Raises:
        ImageBuildError: a tool is missing or failed.
    """
    root = extracted_root(cache, suite)
    files = [path.read_bytes() for path in sorted((_DEPLOY / "alpine").glob("lab-*"))]
    files.append((_DEPLOY / "hookos" / "udhcpc.script").read_bytes())
    inputs = (*MACHINE_FILES, *_TOOLS, *MODULES, COMMAND_LINE)
    key = content_key("alpine", root.name, fleet_machine_sources(), *inputs, *files)
    return DiskImage.load(cache.get("lab-alpine", key, lambda out: _build(root, out)))


def _build(root: Path, out: Path) -> None:
    work = out.with_name("work")
    work.mkdir()
    initrd = work / "initrd"
    with initrd.open("wb") as file, zstandard.ZstdCompressor(level=10).stream_writer(file, closefd=False) as stream:
        write_cpio(initrd_nodes(root), stream)
    uki = work / "lab-alpine.efi"
    build_uki(root, kernel_of(root).image, initrd, COMMAND_LINE, _OS_RELEASE, uki)
    system = (*machine_base(root, _TOOLS), *fleet_machine_nodes(root, work / "scratch"), *_system_nodes())
    esp = Esp({"EFI/BOOT/BOOTX64.EFI": uki}, size=48 << 20)
    write_image(out, RootFileSystem(system, "fleet-root", _ROOT_UUID), esp, _DISK_ID)


def _system_nodes() -> tuple[Node, ...]:
    applets = ("init", "reboot", "poweroff", "udhcpc", "ip", "hostname")
    commands = ("cat", "cut", "ln", "ls", "mkdir", "rm", "sed", "sleep", "sync", "echo", "seq", "tail", "dmesg")
    deploy = _DEPLOY / "alpine"
    return (
        *(Link(f"usr/sbin/{name}", "../bin/busybox") for name in applets),
        *(Link(f"usr/bin/{name}", "busybox") for name in commands),
        File("etc/inittab", deploy / "lab-inittab"),
        File("etc/init.d/rcS", deploy / "lab-rcS", 0o755),
        File("etc/udhcpc.script", _DEPLOY / "hookos" / "udhcpc.script", 0o755),
        File("usr/sbin/fleet-service", deploy / "lab-service", 0o755),
        File("etc/hostname", b"lab-alpine\n"),
        File("etc/os-release", _OS_RELEASE.encode()),
        Folder("var/lib/fleet", 0o700),
    )
