"""Boot entries, on a folder that looks like efivarfs."""

import struct
import uuid

import pytest

from fleet_machine.efi import GLOBAL, EfivarfsEntries, LoadTarget, load_option

TARGET = LoadTarget(
    "node-1", 1, 2048, 8192, uuid.UUID("00112233-4455-6677-8899-aabbccddeeff"), "\\EFI\\BOOT\\BOOTX64.EFI"
)


@pytest.fixture
def folder(tmp_path):
    """Firmware with a network entry and a shell, the network first."""
    put(tmp_path, "Boot0000", struct.pack("<IH", 1, 0) + "Network\0".encode("utf-16-le"))
    put(tmp_path, "Boot0001", struct.pack("<IH", 1, 0) + "Shell\0".encode("utf-16-le"))
    put(tmp_path, "BootOrder", struct.pack("<2H", 0, 1))
    return tmp_path


def put(folder, name, content):
    (folder / f"{name}-{GLOBAL}").write_bytes(struct.pack("<I", 7) + content)


def order(folder):
    raw = (folder / f"BootOrder-{GLOBAL}").read_bytes()[4:]
    return list(struct.unpack(f"<{len(raw) // 2}H", raw))


def test_a_load_option_names_the_partition_and_the_file():
    option = load_option(TARGET)
    attributes, length = struct.unpack_from("<IH", option)
    label = "fleet: node-1\0".encode("utf-16-le")
    path = option[6 + len(label) :]

    assert attributes == 1
    assert option[6 : 6 + len(label)] == label
    assert len(path) == length
    assert struct.unpack_from("<BBHIQQ", path) == (4, 1, 42, 1, 2048, 8192)
    assert path[24:42] == TARGET.partition_guid.bytes_le + b"\x02\x02"
    assert "BOOTX64.EFI".encode("utf-16-le") in path
    assert path[-4:] == b"\x7f\xff\x04\x00"


def test_the_entry_comes_behind_the_one_that_is_first(folder):
    assert EfivarfsEntries(folder).put(TARGET, first=False) == "Boot0002"
    assert order(folder) == [0, 2, 1]


def test_the_entry_can_come_first(folder):
    EfivarfsEntries(folder).put(TARGET, first=True)

    assert order(folder) == [2, 0, 1]


def test_a_repeat_replaces_its_own_entry_and_no_other(folder):
    entries = EfivarfsEntries(folder)
    entries.put(TARGET, first=False)

    assert entries.put(TARGET, first=False) == "Boot0002"
    assert order(folder) == [0, 2, 1]
    assert len(list(folder.glob("Boot0*"))) == 3


def test_several_old_entries_of_this_client_become_one(folder):
    for name in ("Boot0007", "Boot0009"):
        put(folder, name, load_option(TARGET))
    put(folder, "BootOrder", struct.pack("<4H", 7, 0, 9, 1))

    assert EfivarfsEntries(folder).put(TARGET, first=False) == "Boot0007"
    assert order(folder) == [0, 7, 1]
    assert not (folder / f"Boot0009-{GLOBAL}").exists()


def test_a_machine_without_boot_variables_says_so(tmp_path):
    assert not EfivarfsEntries(tmp_path).available()
    assert not EfivarfsEntries(tmp_path / "none").available()
