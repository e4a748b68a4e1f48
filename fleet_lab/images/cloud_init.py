"""The image of the class `lab-cloud-init`: a root file system that a NoCloud seed can be written to.

It holds no operating system: what is shown on it is that the seed arrives, whole and in its place.
"""

from fleet_lab.images.cache import ImageCache, content_key
from fleet_lab.images.disk import DiskImage, Esp, RootFileSystem, write_image
from fleet_lab.images.filetree import File, Folder, Node
from fleet_lab.images.packages import Suite, extracted_root

_DISK_ID = "6E1B1A4C-3C1D-4D6A-8F5B-0A1D00000000"
_ROOT_UUID = "5a1d7c0e-20cb-4d0b-8d8e-7f6a5b4c3d2e"

_NODES: tuple[Node, ...] = (
    Folder("var/lib/cloud/seed", 0o755),
    Folder("etc/cloud/cloud.cfg.d"),
    File("etc/os-release", b'ID=fleet-lab-cloud-init\nNAME="lab-cloud-init"\n'),
    File("etc/cloud/cloud.cfg", b"datasource_list: [NoCloud]\n"),
)


def build_cloud_init(cache: ImageCache, suite: Suite) -> DiskImage:
    """Build (or find) the image; its loader is systemd-boot with nothing to start.

    Raises:
        ImageBuildError: a tool is missing or failed.
    """
    root = extracted_root(cache, suite)
    loader = next(root.glob("**/systemd-bootx64.efi"))
    contents = repr(_NODES)
    key = content_key("cloud-init", contents, loader.read_bytes())
    files = RootFileSystem(_NODES, "root", _ROOT_UUID, spare=16 << 20)
    esp = Esp({"EFI/BOOT/BOOTX64.EFI": loader}, size=34 << 20)
    return DiskImage.load(cache.get("lab-cloud-init", key, lambda out: write_image(out, files, esp, _DISK_ID)))
