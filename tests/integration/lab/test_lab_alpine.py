"""The image of the class lab-alpine on a UEFI machine with a TPM."""

import time

import pytest
import zstandard

from fleet_lab.images.alpine import build_alpine
from fleet_lab.images.cache import image_cache
from fleet_lab.images.packages import this_host_suite
from fleet_lab.machine.machine import MachineSpec
from fleet_lab.machine.netboot import HardwareNetboot
from fleet_lab.machine.qemu import QemuMachine, Surroundings
from fleet_lab.machine.swtpm import TpmAuthority

pytestmark = [pytest.mark.qemu, pytest.mark.slow, pytest.mark.timeout(300)]

SPEC = MachineSpec(
    "disk",
    "52:54:00:12:34:57",
    "LAB-DISK",
    "3d5a6a0e-6b8f-4f86-9b0f-0d2f3a1c5b78",
    "DISK-DISK",
    "127.64.7.8",
    256 << 20,
)


@pytest.fixture
def machine(tmp_path, lab_places):
    around = Surroundings(tmp_path / "no-uki", HardwareNetboot(list), [])
    made = QemuMachine(SPEC, tmp_path, lab_places.sockets / "disk", TpmAuthority(tmp_path / "ca"), around)
    yield made
    made.close()


def test_the_written_image_boots_from_its_disk_and_looks_for_its_ticket(machine):
    image = build_alpine(image_cache(), this_host_suite())
    with image.path.open("rb") as source, machine.disk.open("r+b") as disk:
        zstandard.ZstdDecompressor().copy_stream(source, disk)

    machine.on()

    said = ""
    while "There is no ticket on this machine's ESP" not in said:
        said = machine.console.read_text(errors="replace") if machine.console.exists() else ""
        assert machine.trouble is None
        assert "no TPM" not in said
        time.sleep(0.3)
    assert "lab-alpine: up" in said
