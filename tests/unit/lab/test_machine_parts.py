"""Boot order, netboot, event log and command line of the lab's machines."""

import contextlib
from pathlib import Path

import pytest

from fleet_lab.hookos.bundle import Volume, runtime_configuration
from fleet_lab.hookos.pull import PullError, Reference
from fleet_lab.machine.boot_log import boot_measurements, event_log
from fleet_lab.machine.machine import BootOrder, BootTarget, MachineSpec, NetbootOffer
from fleet_lab.machine.netboot import HardwareNetboot
from fleet_lab.machine.qemu import Service, Surroundings, qemu_command
from fleetd.core.attestation.banks import Bank
from fleetd.core.attestation.eventlog.framing import parse_log
from fleetd.core.attestation.eventlog.meaning import read_facts
from fleetd.core.attestation.eventlog.replay import judge_log, replay
from fleetd.core.attestation.judgement import judge_install
from fleetd.core.attestation.policy import AllowRule, InstallBoot, InstallPolicy

MAC = "52:54:00:00:00:01"
SPEC = MachineSpec("m", MAC, "S1", "11111111-2222-3333-4444-555555555555", "D1", "127.64.0.1")


def test_a_machine_boots_from_its_disk_until_told_otherwise():
    order = BootOrder(network_first=False)

    assert [order.take(), order.take()] == [BootTarget.DISK, BootTarget.DISK]


def test_a_machine_without_a_bmc_tries_the_network_first():
    assert BootOrder(network_first=True).take() is BootTarget.NETWORK


def test_a_one_time_override_is_used_up_by_one_boot():
    order = BootOrder(network_first=False)
    order.override("Pxe", persistent=False)

    assert [order.take(), order.take()] == [BootTarget.NETWORK, BootTarget.DISK]


def test_a_persistent_override_lasts_until_it_is_taken_back():
    order = BootOrder(network_first=False)
    order.override("Pxe", persistent=True)

    assert [order.take(), order.take()] == [BootTarget.NETWORK, BootTarget.NETWORK]
    order.override("None", persistent=True)
    assert order.take() is BootTarget.DISK


def test_an_unknown_override_is_refused():
    with pytest.raises(ValueError, match="Floppy"):
        BootOrder(network_first=False).override("Floppy", persistent=True)


def hardware(mac=MAC, allow=True, agent="fleet-1"):
    interface = {"dhcp": {"mac": mac}, "netboot": {"allowPXE": allow}}
    return {"spec": {"agentID": agent, "interfaces": [{}, interface]}}


def test_a_machine_is_offered_netboot_by_its_mac():
    assert HardwareNetboot(lambda: [hardware("52:54:00:00:00:02"), hardware()]).offer(MAC) == NetbootOffer("fleet-1")


def test_a_mac_is_compared_without_case():
    assert HardwareNetboot(lambda: [hardware()]).offer(MAC.upper()) == NetbootOffer("fleet-1")


@pytest.mark.parametrize(
    "listed", [[], [hardware(allow=False)], [{"spec": {}}], [{}], [{"spec": {"interfaces": [{}]}}]]
)
def test_a_machine_that_no_hardware_allows_is_offered_nothing(listed):
    assert HardwareNetboot(lambda: listed).offer(MAC) is None


def test_fleetd_finds_a_light_machines_log_in_order():
    images = ["aa" * 32, "bb" * 32]
    log = parse_log(event_log(boot_measurements("firmware", images)))
    judged = judge_log(log, Bank.SHA256, quoted(log))
    policy = InstallPolicy(InstallBoot.JUDGED, allow=tuple(AllowRule(digest=bytes.fromhex(image)) for image in images))

    assert judge_install(judged, read_facts(judged), policy) == ()


def test_an_image_that_is_not_allowed_is_found_in_a_light_machines_log():
    log = parse_log(event_log(boot_measurements("firmware", ["aa" * 32, "cc" * 32])))
    judged = judge_log(log, Bank.SHA256, quoted(log))
    policy = InstallPolicy(InstallBoot.JUDGED, allow=(AllowRule(digest=bytes.fromhex("aa" * 32)),))

    assert [finding.code for finding in judge_install(judged, read_facts(judged), policy)] == ["boot-not-allowed"]


def quoted(log):
    """PCR values of a machine with this log; those that the log does not mention are zero."""
    return dict.fromkeys((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14), bytes(32)) | replay(log, Bank.SHA256)


def around():
    return Surroundings(Path("hookos.efi"), HardwareNetboot(list), [Service(443, 8443)])


@pytest.fixture
def no_accelerator(monkeypatch):
    monkeypatch.setenv("FLEET_LAB_ACCEL", "tcg")
    from fleet_lab.machine.accelerator import accelerator

    accelerator.cache_clear()
    yield
    with contextlib.suppress(AttributeError):
        accelerator.cache_clear()


def test_qemu_gets_the_uki_only_with_an_offer(no_accelerator):
    netboot = qemu_command(SPEC, Path("f"), Path("s"), around(), NetbootOffer("fleet-1"))
    disk = qemu_command(SPEC, Path("f"), Path("s"), around(), None)

    assert netboot[netboot.index("-kernel") + 1] == "hookos.efi"
    assert "-kernel" not in disk


def test_the_guest_reaches_each_service_from_the_machines_own_address(no_accelerator):
    command = qemu_command(SPEC, Path("f"), Path("s"), around(), NetbootOffer("fleet-1"))
    network = command[command.index("-netdev") + 1]

    assert "guestfwd=tcp:10.0.2.2:443-cmd:" in network
    assert network.endswith("forwarder.py 127.64.0.1 127.0.0.1 8443")
    assert "hostname=fleet-1" in network


def test_a_slow_disk_is_slow_to_write_only(no_accelerator):
    fast = qemu_command(SPEC, Path("f"), Path("s"), around(), None)
    slow = qemu_command(SPEC, Path("f"), Path("s"), around(), None, write_rate=16 << 20)

    drives = [word for word in slow if word not in fast]
    assert drives == ["if=none,id=disk0,format=raw,discard=unmap,file=f/disk.img,throttling.bps-write=16777216"]


@pytest.mark.parametrize(
    "text", ["host/name:latest", "name@sha256:" + "0" * 64, "host/name@sha256:0", "host/../x@sha256:"]
)
def test_an_image_is_named_by_digest_or_refused(text):
    with pytest.raises(PullError):
        Reference.parse(text)


def test_volumes_are_two_absolute_paths():
    assert Volume.parse("/run/x:/y:ro") == Volume("/run/x", "/y", read_only=True)
    with pytest.raises(ValueError, match="absolute"):
        Volume.parse("named:/y")


def test_a_templates_command_is_arguments_of_the_entry_point():
    image = {"Entrypoint": ["python3", "-m", "fleet_machine"], "Cmd": ["--help"], "Env": ["PATH=/bin"]}

    found = runtime_configuration(image, ["action", "guard"], ["A=b"], [Volume.parse("/dev:/dev")], "")

    assert found["process"]["args"] == ["python3", "-m", "fleet_machine", "action", "guard"]
    assert found["process"]["env"] == ["PATH=/bin", "A=b"]
    assert [mount["type"] for mount in found["mounts"] if mount["destination"] == "/dev"] == ["bind"]


def test_an_action_shares_the_hosts_processes_only_when_the_template_says_so():
    def kinds(pid):
        return {entry["type"] for entry in runtime_configuration({}, [], [], [], pid)["linux"]["namespaces"]}

    assert "pid" in kinds("")
    assert "pid" not in kinds("host")
    assert "network" not in kinds("")
