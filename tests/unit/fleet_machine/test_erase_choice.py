"""Which method erases a disk, what may follow it, and when a whole controller may be touched."""

import random
import struct

import pytest

from fleet_machine.disk import nvme
from fleet_machine.disk.erase import ErasePlan, Erasure
from fleet_machine.disk.methods import Depth, EraseFailedError, Method
from fleet_machine.disk.pace import Pace
from fleet_machine.disk.source import Disk, OpenedDisk
from fleet_machine.failure import FleetError

SIZE = 8 << 20


class Clock:
    now = 0.0

    def boot(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


class Commands:
    """A disk that is a file, and may be an NVMe namespace."""

    def __init__(self, path, *, sanicap=0, fna=0, names=(), crypto_leaves=None, discards=True, secure=False):
        self.path, self.sanicap, self.fna, self.names = path, sanicap, fna, names
        self.crypto_leaves, self.discards, self.secure = crypto_leaves, discards, secure
        self.done = []

    def discard(self, _fd, _start, _length):
        if not self.discards:
            raise OSError(95, "not supported")
        self.done.append("discard")

    def secure_discard(self, _fd, start, length):
        if not self.secure:
            raise OSError(95, "not supported")
        self.done.append(f"secure {start} {length}")
        self.path.write_bytes(bytes(SIZE))

    def forget_cache(self, _fd):
        pass

    def namespaces(self, _disk):
        return self.names

    def nvme_namespace(self, _fd):
        return 1

    def nvme_admin(self, _fd, command):
        data = bytearray(command.read)
        if command.opcode == nvme.IDENTIFY and command.cdw10 == 1:
            struct.pack_into("<I", data, 328, self.sanicap)
            data[524] = self.fna
        elif command.opcode == nvme.GET_LOG:
            struct.pack_into("<HH", data, 0, 65535, 1)
        elif command.opcode in (nvme.SANITIZE, nvme.FORMAT):
            self.done.append("sanitize" if command.opcode == nvme.SANITIZE else "format")
            self.path.write_bytes(self.crypto_leaves or bytes(SIZE))
        return 0, bytes(data)


class Source:
    def __init__(self, disks):
        self._disks = disks

    def disks(self):
        return self._disks


@pytest.fixture
def erase(tmp_path):
    """Erases a disk of 8 MiB full of data; returns the evidence and the commands that it took."""
    path = tmp_path / "disk"
    path.write_bytes(random.Random(1).randbytes(SIZE))
    opened_fds = []

    def act(plan, *, name="vda", neighbours=(), declared=("s",), kind=Commands, **commands):
        import os

        disk = Disk(name, "S", "", "", SIZE, 512, path)
        fd = os.open(path, os.O_RDWR)
        opened_fds.append(fd)
        ports = kind(path, **commands)
        clock = Clock()
        evidence = Erasure(
            OpenedDisk(disk, fd), ErasePlan.named(plan), ports, Source([disk, *neighbours]), frozenset(declared), clock,
            lambda: "2026-01-01T00:00:00Z", Pace(clock, lambda _p, _s: None), random.Random(2),
        ).run()  # fmt: skip
        return evidence, ports

    yield act
    import os

    for fd in opened_fds:
        os.close(fd)


def test_a_plan_names_depth_and_fallback():
    assert ErasePlan.named("deep:format,overwrite") == ErasePlan(Depth.DEEP, (Method.FORMAT, Method.OVERWRITE))
    assert ErasePlan.named("quick") == ErasePlan(Depth.QUICK)


@pytest.mark.parametrize("text", ["", "wipe", "deep:hammer"])
def test_a_plan_that_is_not_understood_is_refused(text):
    with pytest.raises(FleetError, match="FLEET_ERASE"):
        ErasePlan.named(text)


def test_a_disk_without_commands_of_its_own_is_overwritten(erase):
    evidence, _ports = erase("deep")

    assert evidence["method"] == "overwrite"


def test_an_nvme_disk_that_is_alone_on_its_controller_is_sanitized(erase):
    evidence, ports = erase("deep", name="nvme0n1", sanicap=2, names=("nvme0n1",))

    assert evidence["method"] == "sanitize"
    assert ports.done == ["sanitize"]


def test_a_sanitize_spares_a_controller_with_an_undeclared_namespace(erase):
    neighbour = Disk("nvme0n2", "S2", "", "", SIZE, 512, None)
    evidence, ports = erase("deep", name="nvme0n1", sanicap=2, names=("nvme0n1", "nvme0n2"), neighbours=(neighbour,))

    assert evidence["method"] == "format"
    assert ports.done == ["format"]


def test_a_format_that_hits_all_namespaces_spares_undeclared_ones_too(erase):
    neighbour = Disk("nvme0n2", "S2", "", "", SIZE, 512, None)
    evidence, ports = erase(
        "deep:overwrite", name="nvme0n1", fna=1, names=("nvme0n1", "nvme0n2"), neighbours=(neighbour,)
    )

    assert evidence["method"] == "overwrite"
    assert ports.done == []
    assert "would erase all namespaces" in evidence["tried"][0]


def test_a_crypto_erase_may_leave_noise_that_is_not_the_old_data(erase):
    noise = random.Random(9).randbytes(SIZE)
    evidence, _ports = erase("deep", name="nvme0n1", sanicap=1, names=("nvme0n1",), crypto_leaves=noise)

    assert evidence["random_looking"] is True


def test_a_crypto_erase_that_leaves_the_old_data_is_a_failure(erase):
    old = random.Random(1).randbytes(SIZE)

    with pytest.raises(EraseFailedError, match="data can still be read"):
        erase("deep", name="nvme0n1", sanicap=1, names=("nvme0n1",), crypto_leaves=old)


def test_a_discard_that_leaves_data_is_followed_by_the_next_method(erase):
    evidence, _ports = erase("deep:discard,overwrite", name="nvme0n1", names=("nvme0n1", "x"))

    assert evidence["result"] == "erased"
    assert evidence["method"] in ("format", "overwrite")


def test_a_secure_discard_covers_the_whole_disk_and_needs_no_note(erase):
    erasure = {"name": "nvme0n1", "names": ("nvme0n1", "x"), "fna": 1}
    evidence, ports = erase("deep:discard", secure=True, **erasure)

    assert (evidence["method"], evidence["note"]) == ("discard", "")
    assert ports.done == [f"secure 0 {SIZE}"]
    assert "format" in evidence["tried"][0], "a format would have hit the other namespace"


def test_the_record_says_where_a_discard_was_not_a_secure_one(erase):
    class Forgets(Commands):
        def discard(self, _fd, _start, _length):
            self.path.write_bytes(bytes(SIZE))

    evidence, _ports = erase("deep:discard", name="nvme0n1", names=("nvme0n1", "x"), fna=1, kind=Forgets)

    assert evidence["method"] == "discard"
    assert "no secure discard" in evidence["note"]


def test_a_quick_erase_works_without_discard(erase):
    evidence, _ports = erase("quick", discards=False)

    assert evidence["result"] == "cleared"


def test_a_sata_disk_erases_itself_only_where_the_class_names_it(erase):
    evidence, _ports = erase("deep", name="sda")

    assert evidence["method"] == "overwrite"
