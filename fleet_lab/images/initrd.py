"""The initrd of the lab's installed systems: finds the root file system by its label and goes there."""

from pathlib import Path

from fleet_lab.images.filetree import Device, File, Folder, Node
from fleet_lab.images.kernel import kernel_of, module_nodes
from fleet_lab.images.selection import MERGED_LINKS, select
from fleet_lab.places import CHECKOUT

MODULES = (
    "virtio_pci",
    "virtio_blk",
    "ext4",
    "virtio_net",
    "virtio_rng",
    "vfat",
    "nls_ascii",
    "nls_cp437",
    "efivarfs",
)


def initrd_nodes(root: Path) -> tuple[Node, ...]:
    """Return its tree; `root` are the extracted packages."""
    return (
        *MERGED_LINKS,
        *(Folder(name) for name in ("dev", "proc", "sys", "root", "usr/bin")),
        Device("dev/console", 5, 1),
        *(node for node in select(root, ("bin/busybox",)) if node.path not in {link.path for link in MERGED_LINKS}),
        *module_nodes(kernel_of(root), MODULES),
        File("init", CHECKOUT / "deploy" / "alpine" / "lab-init", 0o755),
    )
