"""A NoCloud seed finds the image's root, whatever file system it has and however the image names it."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from fleet_machine.disk.partitions import partitions_of, root_partition
from fleet_machine.disk.source import Disk
from fleet_machine.disk.volumes import ToolVolumes
from tests.integration.fleet_machine.image import MIB, TOOLS, blank, run

SEED = {
    "var/lib/cloud/seed/nocloud/user-data": b"#cloud-config\nhostname: node-7\n",
    "var/lib/cloud/seed/nocloud/meta-data": b"instance-id: node-7-1\n",
}
SIZES = {"ext4": 16 * MIB, "xfs": 304 * MIB, "btrfs": 128 * MIB}
"""The least that each mkfs makes; the files are sparse."""
NAMED = {
    "its GPT type": ("-t", "2:8304"),
    "its label": ("-t", "2:8300", "-c", "2:cloudimg-rootfs"),
    "being the only Linux partition": ("-t", "2:8300"),
}


def needs(file_system):
    tool = f"mkfs.{file_system}"
    if shutil.which(tool, path=TOOLS["PATH"]) is None:
        pytest.skip(f"{tool} is not installed")
    if file_system == "ext4":
        return
    known = {line.split()[-1] for line in Path("/proc/filesystems").read_text().splitlines()}
    if os.getuid() != 0 or file_system not in known or not Path("/dev/loop-control").exists():
        pytest.skip(f"this host cannot mount {file_system}")


def an_image(path, file_system, naming):
    """Write an image whose second partition is the root; a small Linux partition without a name may stand beside it."""
    size = SIZES[file_system]
    blank(path, size + 12 * MIB)
    beside = () if naming == "being the only Linux partition" else ("-n", "3:0:+1M", "-t", "3:8300")
    run("sgdisk", "-n", "1:2048:+4M", "-t", "1:ef00", "-n", f"2:0:+{size // MIB}M", *NAMED[naming], *beside, str(path))
    part = path.with_suffix(".part")
    blank(part, size)
    run(f"mkfs.{file_system}", "-q", str(part))
    run("dd", f"if={part}", f"of={path}", "bs=1M", "seek=5", "conv=notrunc,sparse", "status=none")
    part.unlink()
    return Disk("vda", "DISK1", "", "", path.stat().st_size, 512, path)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file_system", "naming"),
    [*(("ext4", naming) for naming in NAMED), ("xfs", "its GPT type"), ("btrfs", "its label")],
)
def test_the_seed_is_written_to_the_root_found_by(tmp_path, file_system, naming):
    needs(file_system)
    disk = an_image(tmp_path / "image", file_system, naming)
    root = root_partition(partitions_of(disk))
    assert root.number == 2
    try:
        ToolVolumes().write(disk, root, SEED)
    except Exception as error:
        if "failed to setup loop device" in str(error):
            pytest.skip("this host gives no loop device")
        raise

    assert {path: ToolVolumes().read(disk, root, path) for path in SEED} == SEED
    assert "mode=600 uid=0 gid=0" in owner_of(disk.path, root, next(iter(SEED)), file_system, tmp_path)


def owner_of(image, root, path, file_system, tmp_path):
    """Who may read a file, by another way than the writer's."""
    if file_system == "ext4":
        said = run("debugfs", "-R", f"stat /{path}", f"{image}?offset={root.start}").stdout.decode()
        mode, user, group = (re.search(rf"{name}:\s+0*(\d+)", said)[1] for name in ("Mode", "User", "Group"))
        return f"mode={mode} uid={user} gid={group}"
    folder = tmp_path / "mounted"
    folder.mkdir()
    options = f"loop,ro,offset={root.start},sizelimit={root.size}"
    run("mount", "-t", file_system, "-o", options, str(image), str(folder))
    try:
        stat = (folder / path).stat()
        return f"mode={stat.st_mode & 0o777:o} uid={stat.st_uid} gid={stat.st_gid}"
    finally:
        subprocess.run(["umount", folder], check=True)
