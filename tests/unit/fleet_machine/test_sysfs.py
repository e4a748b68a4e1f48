"""Disks, DMI and MACs, read from a folder that looks like /sys."""

import os

import pytest

from fleet_machine.disk.source import DiskError, SysfsDisks, WantedDisk, find, plain_wwn
from fleet_machine.eventlog import LIMIT, SecurityfsLog, read_to_end
from fleet_machine.facts import SysfsFacts


class Console:
    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)


@pytest.fixture
def sysfs(tmp_path):
    """An empty /sys, /dev and /proc."""
    for name in ("sys/block", "sys/class/net", "sys/class/dmi/id", "dev", "proc"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "proc/mounts").write_text("")
    (tmp_path / "proc/swaps").write_text("Filename Type Size Used Priority\n")
    return tmp_path


def write(folder, **files):
    for name, content in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())


def add_disk(root, name, *, sectors=2048, block=512, **files):
    write(root / "sys/block" / name, size=f"{sectors}\n", queue__logical_block_size=f"{block}\n", **files)


def source(root):
    return SysfsDisks(root / "sys", root / "dev", root / "proc")


def test_nvme_virtio_and_sata_disks_each_show_their_serial(sysfs):
    add_disk(sysfs, "nvme0n1", device__serial="  NV1  \n", wwid="eui.0025385\n", device__model="Fast\n")
    add_disk(sysfs, "vda", serial="LAB0001\n")
    add_disk(sysfs, "sda", device__vpd_pg80=b"\x00\x80\x00\x08    SN42", device__wwid="naa.5000c5\n")

    assert [(disk.name, disk.serial, disk.wwn) for disk in source(sysfs).disks()] == [
        ("nvme0n1", "NV1", "eui.0025385"),
        ("sda", "SN42", "naa.5000c5"),
        ("vda", "LAB0001", ""),
    ]


def test_sizes_are_in_bytes_whatever_the_sectors(sysfs):
    add_disk(sysfs, "sda", sectors=8, block=4096)

    (disk,) = source(sysfs).disks()
    assert (disk.size, disk.sector_size) == (4096, 4096)


@pytest.mark.parametrize("name", ["loop0", "ram1", "zram0", "dm-0", "md127", "sr0", "nbd0"])
def test_pseudo_devices_are_no_disks(sysfs, name):
    add_disk(sysfs, name)

    assert source(sysfs).disks() == ()


def test_an_empty_card_reader_is_no_disk(sysfs):
    add_disk(sysfs, "sdb", sectors=0)

    assert source(sysfs).disks() == ()


def test_a_mounted_partition_puts_the_disk_in_use(sysfs):
    add_disk(sysfs, "sda", serial="S\n", sda1__partition="1\n")
    (sysfs / "dev/sda1").write_text("")
    (sysfs / "proc/mounts").write_text(f"{sysfs}/dev/sda1 /boot vfat rw 0 0\n")

    with pytest.raises(DiskError, match="mounted at /boot"):
        find(source(sysfs), WantedDisk("s"))


def test_a_partition_held_by_a_raid_puts_the_disk_in_use(sysfs):
    add_disk(sysfs, "sda", serial="S\n", sda1__partition="1\n", sda1__holders__md0="")

    with pytest.raises(DiskError, match="held by md0"):
        find(source(sysfs), WantedDisk("s"))


def test_swap_on_the_disk_itself_puts_it_in_use(sysfs):
    add_disk(sysfs, "sda", serial="S\n")
    (sysfs / "dev/sda").write_text("")
    (sysfs / "proc/swaps").write_text(f"Filename Type\n{sysfs}/dev/sda partition 1 0 -2\n")

    with pytest.raises(DiskError, match="used as swap"):
        find(source(sysfs), WantedDisk("s"))


def test_without_a_declared_serial_nothing_is_found(sysfs):
    add_disk(sysfs, "sda")

    with pytest.raises(DiskError, match="No disk serial is declared"):
        find(source(sysfs), WantedDisk(" "))


def test_a_file_in_the_place_of_a_device_is_no_disk(sysfs):
    add_disk(sysfs, "sda", serial="S\n")
    (sysfs / "dev/sda").write_text("")
    disk = source(sysfs).disks()[0]

    with pytest.raises(DiskError, match="no disk any more"):
        source(sysfs).opened(disk, write=True)


@pytest.mark.parametrize("spelled", ["0x5000C500A", "naa.5000c500a", "5000c500a "])
def test_a_wwn_is_the_same_in_every_spelling(spelled):
    assert plain_wwn(spelled) == "5000c500a"


def test_dmi_and_macs_are_read(sysfs):
    write(sysfs / "sys/class/dmi/id", product_serial="SN1\n", product_uuid="U\n", sys_vendor="V\n", product_name="P\n")
    write(sysfs / "sys/class/net/eth0", address="52:54:00:AA:00:01\n", type="1\n", device__x="")
    write(sysfs / "sys/class/net/br0", address="52:54:00:aa:00:02\n", type="1\n")
    write(sysfs / "sys/class/net/lo", address="00:00:00:00:00:00\n", type="772\n")
    facts = SysfsFacts(sysfs / "sys")

    assert (facts.dmi().serial, facts.dmi().firmware) == ("SN1", "")
    assert facts.macs() == ("52:54:00:aa:00:01",)


def test_the_log_is_read_to_its_end_though_its_size_is_not_known():
    read, write_end = os.pipe()
    os.write(write_end, b"log" * 1000)
    os.close(write_end)
    try:
        from pathlib import Path

        assert read_to_end(Path(f"/proc/self/fd/{read}")) == b"log" * 1000
    finally:
        os.close(read)


def test_a_log_over_the_limit_is_left_out_and_that_is_said(tmp_path):
    write(tmp_path, tpm0__binary_bios_measurements=bytes(LIMIT + 1))
    console = Console()

    assert SecurityfsLog(console, tmp_path).read() is None
    assert "longer than" in console.lines[0]


def test_a_machine_without_a_log_says_so(tmp_path):
    console = Console()

    assert SecurityfsLog(console, tmp_path / "none").read() is None
    assert "No event log" in console.lines[0]
