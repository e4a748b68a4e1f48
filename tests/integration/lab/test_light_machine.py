"""A light machine: its TPM, its boots, and its actions, against the Tinkerbell stand-in."""

import hashlib
import json
import subprocess
import time

import kubernetes
import pytest
import zstandard

from fleet_lab.images.cache import image_cache
from fleet_lab.images.light import build_light
from fleet_lab.machine.boot_log import boot_measurements
from fleet_lab.machine.forkserver import ForkServer
from fleet_lab.machine.light import ENTRY, LightMachine, LightSurroundings
from fleet_lab.machine.machine import BootTarget, MachineSpec
from fleet_lab.machine.netboot import HardwareNetboot, hardware_lister
from fleet_lab.machine.swtpm import TpmAuthority
from fleet_lab.tinkerbell import standin

HOOKOS, INSTALLED = ["11" * 32, "22" * 32], ["33" * 32]


@pytest.fixture(scope="module")
def tinkerbell(tmp_path_factory):
    options = standin.Options(tmp_path_factory.mktemp("tinkerbell"), give_up_after=1)
    with standin.in_thread(options) as running:
        yield running


@pytest.fixture(scope="module")
def api(tinkerbell):
    return kubernetes.client.CustomObjectsApi(kubernetes.config.new_client_from_config(str(tinkerbell.kubeconfig)))


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    server = ForkServer(ENTRY, tmp_path_factory.mktemp("processes") / "log")
    yield server
    server.close()


@pytest.fixture
def machine(tmp_path, lab_places, tinkerbell, processes):
    name = f"m{time.monotonic_ns() % 10**6}"
    spec = MachineSpec(
        name, f"52:54:01:{name[-6:-4]}:{name[-4:-2]}:{name[-2:]}".replace("m", "0"), "S-" + name,
        "3d5a6a0e-6b8f-4f86-9b0f-0d2f3a1c5b79", "D-" + name, "127.64.9.9", 64 << 20,
    )  # fmt: skip
    around = LightSurroundings(
        HardwareNetboot(hardware_lister(str(tinkerbell.kubeconfig), "tinkerbell")),
        tinkerbell.grpc, HOOKOS, INSTALLED, processes,
    )  # fmt: skip
    made = LightMachine(spec, tmp_path, lab_places.sockets, TpmAuthority(tmp_path / "ca"), around)
    yield made
    made.close()


def until(condition, machine):
    for _ in range(600):
        if condition():
            return
        assert machine.trouble is None
        time.sleep(0.05)
    raise AssertionError(machine.console.read_text())


def says(machine, words):
    return lambda: machine.console.exists() and words in machine.console.read_text()


def pcr(machine, number):
    """The value of a PCR by tpm2-tools, an implementation of its own."""
    tcti = json.loads((machine.disk.parent / "host.json").read_text())["tcti"]
    done = subprocess.run(["tpm2_pcrread", "-T", tcti, f"sha256:{number}"], capture_output=True, text=True, check=True)
    return done.stdout.strip().rsplit("0x", 1)[1].lower()


def replayed(number, images, firmware="FleetLab light 1"):
    value = bytes(32)
    for event in boot_measurements(firmware, images):
        if event.pcr == number:
            value = hashlib.sha256(value + event.digest).digest()
    return value.hex()


def create(api, plural, kind, name, spec):
    body = {"apiVersion": "tinkerbell.org/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}
    api.create_namespaced_custom_object("tinkerbell.org", "v1alpha1", "tinkerbell", plural, body)


def allow_netboot(api, machine):
    interface = {"dhcp": {"mac": machine.spec.mac}, "netboot": {"allowPXE": True}}
    create(api, "hardware", "Hardware", machine.spec.name, {"agentID": machine.spec.name, "interfaces": [interface]})


def test_a_netbooted_machine_runs_the_real_client_as_its_workflow_says(machine, api):
    name = machine.spec.name
    allow_netboot(api, machine)
    action = {"name": "version", "image": "example.org/any:1", "timeout": 60, "command": ["--version"]}
    task = {"name": "t", "worker": name, "actions": [action]}
    data = json.dumps({"version": "0.1", "name": "t", "global_timeout": 600, "tasks": [task]})
    create(api, "templates", "Template", name, {"data": data})
    create(api, "workflows", "Workflow", name, {"templateRef": name, "hardwareRef": name})

    machine.boot_override(BootTarget.NETWORK, persistent=False)
    machine.on()

    until(lambda: state_of(api, name) == "SUCCESS", machine)
    assert pcr(machine, 4) == replayed(4, HOOKOS)
    assert pcr(machine, 7) == replayed(7, HOOKOS)


def state_of(api, name):
    found = api.get_namespaced_custom_object("tinkerbell.org", "v1alpha1", "tinkerbell", "workflows", name)
    return (found.get("status") or {}).get("state")


def test_a_machine_that_may_not_netboot_boots_from_its_disk(machine):
    machine.boot_override(BootTarget.NETWORK, persistent=True)
    machine.on()

    until(says(machine, "finds nothing to boot on its disk"), machine)


def test_a_machine_with_an_image_looks_for_its_ticket(machine):
    with build_light(image_cache()).path.open("rb") as source, machine.disk.open("r+b") as disk:
        zstandard.ZstdDecompressor().copy_stream(source, disk)

    machine.on()

    until(says(machine, "There is no ticket on this machine's ESP"), machine)
    assert pcr(machine, 4) == replayed(4, INSTALLED)


def test_power_off_ends_all_of_a_machine_and_resets_its_pcrs(machine):
    machine.on()
    until(says(machine, "finds nothing"), machine)
    first = pcr(machine, 0)
    machine.off()

    assert not machine.is_on()
    machine.on()
    until(lambda: machine.console.read_text().count("finds nothing") == 2, machine)
    assert pcr(machine, 0) == first


def test_new_firmware_is_measured_from_the_next_boot_on(machine):
    machine.on()
    until(says(machine, "finds nothing"), machine)
    machine.flash("FleetLab light 2")
    assert pcr(machine, 0) == replayed(0, INSTALLED)

    machine.off()
    machine.on()

    until(lambda: machine.console.read_text().count("finds nothing") == 2, machine)
    assert pcr(machine, 0) == replayed(0, INSTALLED, "FleetLab light 2")
    assert pcr(machine, 4) == replayed(4, INSTALLED, "FleetLab light 2")


def test_a_one_time_override_lasts_for_one_boot(machine, api):
    allow_netboot(api, machine)
    machine.boot_override(BootTarget.NETWORK, persistent=False)
    machine.on()
    until(says(machine, "boots from the network"), machine)
    machine.off()
    machine.on()

    until(says(machine, "boots from its disk (asked: Hdd)"), machine)
