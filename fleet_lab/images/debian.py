"""A small Debian whose own cloud-init applies the seed at its first boot: what a cloud image is, without its weight.

Made by mmdebstrap with all maintainer scripts, so it needs root or user namespaces; the kernel and a small initrd are
those of the lab's other images.
"""

import os
from pathlib import Path

import zstandard

from fleet_lab.images.action import fleet_machine_nodes, fleet_machine_sources
from fleet_lab.images.cache import ImageCache, content_key
from fleet_lab.images.disk import DiskImage, Esp, RootFileSystem, write_image
from fleet_lab.images.filetree import File, Folder, Link, Node, write_cpio
from fleet_lab.images.initrd import initrd_nodes
from fleet_lab.images.kernel import kernel_of
from fleet_lab.images.packages import Suite, extracted_root, run
from fleet_lab.images.uki import build_uki
from fleet_lab.places import CHECKOUT

COMMAND_LINE = "console=ttyS0 quiet loglevel=4 panic=10 systemd.show_status=1 systemd.log_color=0"
_PACKAGES = (
    "systemd-sysv",
    "udev",
    "dbus",
    "cloud-init",
    "iproute2",
    "mtools",
    "python3-tpm2-pytss",
    "python3-cryptography",
    "python3-zstandard",
)
_UNWANTED = (
    "/usr/share/doc/*",
    "/usr/share/man/*",
    "/usr/share/locale/*",
    "/usr/share/i18n/*",
    "/usr/lib/udev/hwdb.d/*",
    "/lib/udev/hwdb.d/*",
)
# What maintainer scripts still need, and the installed system does not.
_REMOVED = ("usr/share/perl", "usr/lib/x86_64-linux-gnu/perl", "usr/lib/x86_64-linux-gnu/perl5", "var/cache", "var/log")
_MASKED = ("getty@tty1.service", "systemd-udev-settle.service", "systemd-hwdb-update.service", "e2scrub_reap.service")
_DISK_ID = "6E1B1A4C-3C1D-4D6A-8F5B-0A1F00000000"
_ROOT_UUID = "3c9be6d2-6d0b-4f0e-a7a5-5d8b1e0f2a64"
_CLOUD = b"""\
datasource_list: [NoCloud]
# Modules that a machine without packages to install, disks to grow and shells to log in to has no use for are left out.
cloud_init_modules: [write_files, set_hostname, update_hostname, update_etc_hosts]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts_user, final_message]
"""
_CONSOLE = b"[Service]\nStandardOutput=journal+console\nStandardError=journal+console\n"
_UNITS = ("fleet-claim-seed.service", "fleet-boot-check.service", "fleet-boot-check.timer")
_DEPLOY = CHECKOUT / "deploy"


def build_debian(cache: ImageCache, suite: Suite) -> DiskImage:
    """Build (or find) the image.

    Raises:
        ImageBuildError: a tool is missing or failed; mmdebstrap needs root, or user namespaces and newuidmap.
    """
    root = extracted_root(cache, suite)
    base = _base(cache, suite)
    units = [(_DEPLOY / "debian" / name).read_bytes() for name in _UNITS]
    initrd = (_DEPLOY / "alpine" / "lab-init").read_bytes()
    key = content_key(
        "debian", root.name, base.name, fleet_machine_sources(), COMMAND_LINE, initrd, repr(_nodes()), *units
    )
    return DiskImage.load(cache.get("lab-debian", key, lambda out: _build(root, base, out)))


def _base(cache: ImageCache, suite: Suite) -> Path:
    key = content_key("debian-base", "1", suite.name, *_PACKAGES, *_UNWANTED, *_REMOVED)
    return cache.get("debian-base", key, lambda out: _bootstrap(suite, out))


def _bootstrap(suite: Suite, out: Path) -> None:
    mirror = os.environ.get("FLEET_LAB_MIRROR")
    archive = out.with_suffix(".tar")
    run(
        "mmdebstrap",
        "--variant=essential",
        f"--components={suite.components}",
        '--aptopt=APT::Install-Recommends "false"',
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _UNWANTED),
        f"--include={','.join(_PACKAGES)}",
        "--customize-hook=" + " ".join(["rm", "-rf", *(f'"$1"/{path}' for path in _REMOVED)]),
        '--customize-hook=mkdir -p "$1"/var/cache "$1"/var/log',
        suite.name,
        archive,
        *([mirror] if mirror else []),
    )
    archive.rename(out)


def _build(root: Path, base: Path, out: Path) -> None:
    work = out.with_name("work")
    work.mkdir()
    initrd = work / "initrd"
    with initrd.open("wb") as file, zstandard.ZstdCompressor(level=10).stream_writer(file, closefd=False) as stream:
        write_cpio(initrd_nodes(root), stream)
    uki = work / "lab-debian.efi"
    build_uki(root, kernel_of(root).image, initrd, COMMAND_LINE, 'ID=debian\nNAME="lab-debian"\n', uki)
    system = (*fleet_machine_nodes(root, work / "scratch"), *_nodes())
    files = RootFileSystem(system, "fleet-root", _ROOT_UUID, spare=96 << 20, archive=base)
    write_image(out, files, Esp({"EFI/BOOT/BOOTX64.EFI": uki}, size=48 << 20), _DISK_ID)


def _nodes() -> tuple[Node, ...]:
    where = "etc/systemd/system"
    return (
        *(File(f"{where}/{name}", _DEPLOY / "debian" / name) for name in _UNITS),
        *(File(f"{where}/{name}.d/console.conf", _CONSOLE) for name in _UNITS if name.endswith(".service")),
        *(Link(f"{where}/{name}", "/dev/null") for name in _MASKED),
        Link(
            f"{where}/multi-user.target.wants/systemd-networkd.service", "/lib/systemd/system/systemd-networkd.service"
        ),
        Link(
            f"{where}/network-online.target.wants/systemd-networkd-wait-online.service",
            "/lib/systemd/system/systemd-networkd-wait-online.service",
        ),
        File("etc/cloud/cloud.cfg.d/99-lab.cfg", _CLOUD),
        # Empty: made at the first boot, once a machine.
        File("etc/machine-id", b""),
        File("etc/hostname", b"unconfigured\n"),
        File("etc/fstab", b""),
        Folder("var/lib/cloud/seed"),
    )
