"""Kea's own check accepts what fleetd writes."""

import subprocess
from dataclasses import replace
from ipaddress import ip_network

import pytest

from fleetd.config import Settings
from fleetd.core.declaration import Address
from fleetd.core.names import MachineId
from fleetd.core.reservations import reserve
from fleetd.doctor.dhcp import kea
from fleetd.doctor.notes import Level
from fleetd.ports import OutageError
from tests.unit.dhcp.test_reservations import a_node

from .conftest import NETS


def checked(folder):
    folder.configure()
    return subprocess.run(
        ["/usr/sbin/kea-dhcp4", "-t", str(folder.configuration)],
        env=folder.environment,
        capture_output=True,
        text=True,
        check=False,
    )


def put_all(folder, *nodes):
    found = reserve(nodes, NETS)
    for net, rows in found.subnets.items():
        folder.kea().put(net, rows)
    return found


def test_kea_accepts_the_reservations(kea_folder):
    nodes = [a_node(number) for number in range(1, 120)]
    nodes += [
        a_node(120, addresses=(Address("198.51.100.9/24", "eth0"),)),
        a_node(121, addresses=()),
        replace(a_node(122), node_name="x" * 63),
    ]

    put_all(kea_folder, *nodes)

    done = checked(kea_folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_kea_accepts_no_reservations(kea_folder):
    put_all(kea_folder)

    assert checked(kea_folder).returncode == 0


def test_what_kea_would_refuse_is_left_out_before_it(kea_folder):
    bad = [
        a_node(2, addresses=(Address("192.0.2.1/24", "eth0"),)),
        a_node(3, addresses=(Address("203.0.113.1/24", "eth0"),)),
        replace(a_node(4), node_name='x"}, {"'),
    ]

    found = put_all(kea_folder, a_node(1), *bad)

    assert set(found.left_out) == {MachineId(2), MachineId(3), MachineId(4)}
    done = checked(kea_folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_check_would_notice(kea_folder):
    put_all(kea_folder, a_node(1))
    path = kea_folder.files[NETS[0]]
    path.write_text(path.read_text().replace("192.0.2.1", "203.0.113.1"))

    assert checked(kea_folder).returncode != 0


def test_a_file_is_written_only_when_it_differs_and_then_whole(kea_folder):
    kea, net = kea_folder.kea(), NETS[0]
    rows = reserve([a_node(1)], NETS).subnets[net]
    assert kea.differs(net, rows)
    kea.put(net, rows)

    before = kea_folder.files[net].stat()
    assert not kea.differs(net, rows)
    kea.put(net, [])

    assert kea_folder.files[net].stat().st_ino != before.st_ino, "the file is replaced, never written in place"
    assert sorted(path.name for path in kea_folder.root.iterdir()) == [kea_folder.files[net].name]


def test_a_folder_that_is_not_there_is_an_outage_that_names_the_file(kea_folder):
    kea = replace(kea_folder.kea(), files={ip_network("192.0.2.0/24"): kea_folder.root / "absent" / "a.json"})

    with pytest.raises(OutageError, match=r"absent/a.json"):
        kea.put(ip_network("192.0.2.0/24"), [])


def test_without_a_control_socket_nothing_is_reloaded(kea_folder):
    kea_folder.kea(socket=False).reload()


def test_a_kea_that_is_down_is_an_outage(kea_folder):
    with pytest.raises(OutageError, match="does not answer"):
        kea_folder.kea().reload()


def test_the_doctor_says_what_to_do_about_a_kea_that_cannot_be_served(kea_folder):
    net, path = NETS[0], kea_folder.files[NETS[0]]
    absent = kea_folder.root / "absent" / "a.json"
    subnets = [{"prefix": str(net), "file": str(path)}, {"prefix": str(NETS[1]), "file": str(absent)}]

    notes = list(kea(Settings(kea={"control_socket": str(kea_folder.socket), "subnets": subnets})))

    assert [note.level for note in notes] == [Level.WARNS, Level.BROKEN, Level.BROKEN]
    assert "fleetd kea write" in notes[0].do
    assert "absent" in notes[1].says
    assert "does not answer" in notes[2].says
    assert list(kea(Settings())) == []
