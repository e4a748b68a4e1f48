"""The image of light machines: the layout of an installed system, with nothing in it that would have to run.

Needs no package of a distribution: light machines and their tests start on a host that never built another image.
"""

from pathlib import Path

from fleet_lab.images.cache import ImageCache, content_key
from fleet_lab.images.disk import LINUX_TYPE, DiskImage, Esp, RawPartition, RootFileSystem, write_image
from fleet_lab.images.filetree import File, Folder, Node
from fleet_machine.disk import talos_meta

_DISK_ID = "6E1B1A4C-3C1D-4D6A-8F5B-0A1E00000000"
_ROOT_UUID = "1f0c2a77-51a3-4a52-9bb3-6f6f2f1d9c10"
_TALOS_DISK_ID = "6E1B1A4C-3C1D-4D6A-8F5B-0A2000000000"
_STATE_UUID = "7d0c9a54-0a3b-4d7e-8a55-2c6d1b7f3e42"
_LEGACY = b"legacy".ljust(512, b"\0")
_LOADER = b"MZ" + bytes(510)

_NODES: tuple[Node, ...] = (
    Folder("var/lib/cloud/seed"),
    File("etc/os-release", b'ID=fleet-lab-light\nNAME="light machine of the lab"\n'),
)


def build_light(cache: ImageCache) -> DiskImage:
    """Build (or find) the image.

    Raises:
        ImageBuildError: a tool is missing or failed.
    """
    key = content_key("light", repr(_NODES), _LOADER)
    return DiskImage.load(cache.get("lab-light", key, _build))


def build_light_talos(cache: ImageCache) -> DiskImage:
    """Build (or find) the image of light Talos nodes: ESP, META with a tag of its own, and an empty STATE.

    Raises:
        ImageBuildError: a tool is missing or failed.
    """
    key = content_key("light-talos", "1", _LOADER)
    return DiskImage.load(cache.get("lab-light-talos", key, _build_talos))


def _build_talos(out: Path) -> None:
    loader = out.with_name("loader")
    loader.write_bytes(_LOADER)
    meta = talos_meta.encode({talos_meta.BOOT_LOADER: b"sd-boot"}) * 2
    # The legacy block at the partition's end belongs to boot loaders of old: whatever is there has to stay.
    partition = RawPartition("META", meta.ljust((1 << 20) - len(_LEGACY), b"\0") + _LEGACY)
    state = RootFileSystem((), "STATE", _STATE_UUID, spare=12 << 20, type=LINUX_TYPE, gpt_label="STATE")
    write_image(out, state, Esp({"EFI/BOOT/BOOTX64.EFI": loader}, size=4 << 20), _TALOS_DISK_ID, [partition])


def _build(out: Path) -> None:
    loader = out.with_name("loader")
    loader.write_bytes(_LOADER)
    files = RootFileSystem(_NODES, "root", _ROOT_UUID, spare=8 << 20)
    write_image(out, files, Esp({"EFI/BOOT/BOOTX64.EFI": loader}, size=4 << 20), _DISK_ID)
