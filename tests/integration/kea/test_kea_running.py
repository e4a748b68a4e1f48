"""A running Kea, in a network namespace of its own, reads what fleetd writes when it is told so."""

import json
import os
import socket
import subprocess
import uuid
from collections.abc import Iterator

import pytest

from fleet_lab.services.process import Child
from fleetd.config import Settings
from fleetd.core.reservations import reserve
from fleetd.doctor.dhcp import kea as doctors_kea
from fleetd.doctor.notes import Level
from fleetd.ports import RefusedError
from tests.unit.dhcp.test_reservations import a_node, mac

from .conftest import NETS

pytestmark = pytest.mark.slow


@pytest.fixture
def namespace() -> Iterator[str]:
    """A network namespace with one end of a veth pair that has an address of the first subnet."""
    if os.geteuid() != 0:
        pytest.skip("only root makes a network namespace")
    name = f"kea-{uuid.uuid4().hex[:8]}"
    subprocess.run(["ip", "netns", "add", name], check=True, capture_output=True)
    try:
        for words in (
            ("link", "set", "lo", "up"),
            ("link", "add", "dhcp0", "type", "veth", "peer", "name", "host0"),
            ("address", "add", "192.0.2.254/24", "dev", "dhcp0"),
            ("link", "set", "dhcp0", "up"),
            ("link", "set", "host0", "up"),
        ):
            subprocess.run(["ip", "-n", name, *words], check=True, capture_output=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "delete", name], check=True, capture_output=True)


@pytest.fixture
def running(kea_folder, namespace) -> Iterator:
    """A kea-dhcp4 without reservations; fleetd's side of it."""
    kea = kea_folder.kea()
    for net in NETS:
        kea.put(net, [])
    kea_folder.configure(("dhcp0",))
    command = ["ip", "netns", "exec", namespace, "/usr/sbin/kea-dhcp4", "-c", str(kea_folder.configuration)]
    child = Child("Kea", command, kea_folder.root / "kea.log", kea_folder.environment).start()
    try:
        child.wait_until(kea_folder.socket.exists, 30)
        yield kea
    finally:
        child.stop()


def asked(kea, command):
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as channel:
        channel.settimeout(20)
        channel.connect(str(kea.control_socket))
        channel.sendall(json.dumps({"command": command}).encode())
        return json.loads(b"".join(iter(lambda: channel.recv(65536), b"")))


def reserved(kea):
    subnets = asked(kea, "config-get")["arguments"]["Dhcp4"]["subnet4"]
    return {
        row["hw-address"]: (row["hostname"], row["ip-address"]) for subnet in subnets for row in subnet["reservations"]
    }


def test_a_reload_brings_the_reservations_into_force(running):
    running.put(NETS[0], reserve([a_node(7)], NETS).subnets[NETS[0]])
    assert reserved(running) == {}

    running.reload()

    assert reserved(running) == {mac(7): ("n7", "192.0.2.7")}


def test_a_configuration_that_kea_refuses_is_told_and_the_old_one_stays_in_force(running):
    running.put(NETS[0], reserve([a_node(7)], NETS).subnets[NETS[0]])
    running.reload()
    running.files[NETS[0]].write_text('[{"hw-address": "no"}]')

    with pytest.raises(RefusedError, match="Kea refuses its configuration"):
        running.reload()

    assert reserved(running) == {mac(7): ("n7", "192.0.2.7")}


def test_the_doctor_hears_it(running, kea_folder):
    subnets = [{"prefix": str(net), "file": str(path)} for net, path in running.files.items()]
    settings = Settings(kea={"control_socket": str(running.control_socket), "subnets": subnets})

    notes = list(doctors_kea(settings))

    assert [note.level for note in notes] == [Level.GOOD] * 3
    assert "listens at" in notes[-1].says


def test_a_machine_gets_its_address_by_dhcp(running, namespace):
    """A DHCPDISCOVER from the reserved MAC is offered the reserved address (RFC 2131)."""
    running.put(NETS[0], reserve([a_node(7)], NETS).subnets[NETS[0]])
    running.reload()

    done = subprocess.run(
        ["ip", "netns", "exec", namespace, "python3", "-c", _DISCOVER, mac(7)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.stdout.strip() == "192.0.2.7", done.stderr


_DISCOVER = """
import socket, struct, sys, time
mac = bytes.fromhex(sys.argv[1].replace(":", ""))
head = struct.pack("!BBBBIHH4s4s4s4s16s192s", 1, 1, 6, 0, 0x5EED, 0, 0x8000, *[bytes(4)] * 4, mac + bytes(10), bytes(192))
dhcp = head + b"\\x63\\x82\\x53\\x63" + b"\\x35\\x01\\x01" + b"\\xff"
udp = struct.pack("!HHHH", 68, 67, 8 + len(dhcp), 0) + dhcp
ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, bytes(4), b"\\xff" * 4)
words = struct.unpack("!10H", ip)
total = sum(words)
total = (total >> 16) + (total & 0xFFFF)
ip = ip[:10] + struct.pack("!H", ~total & 0xFFFF) + ip[12:]
raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0800))
raw.bind(("host0", 0))
raw.settimeout(2)
for _ in range(5):
    raw.send(b"\\xff" * 6 + mac + b"\\x08\\x00" + ip + udp)
    try:
        while True:
            got = raw.recv(2048)[14:]
            if got[9] == 17 and got[20:24] == b"\\x00\\x43\\x00\\x44":
                print(socket.inet_ntoa(got[28 + 16:28 + 20]))
                sys.exit()
    except TimeoutError:
        pass
"""
