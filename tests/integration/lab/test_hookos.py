"""The HookOS stand-in on a UEFI machine with a TPM, against the Tinkerbell stand-in."""

import base64
import json
import re
import time
from pathlib import Path

import kubernetes
import pytest

from fleet_lab.images.action import action_base
from fleet_lab.images.cache import image_cache
from fleet_lab.images.hookos import build_hookos
from fleet_lab.images.oci import Layer, write_archive
from fleet_lab.images.packages import this_host_suite
from fleet_lab.machine.machine import BootTarget, MachineSpec
from fleet_lab.machine.netboot import HardwareNetboot, hardware_lister
from fleet_lab.machine.qemu import TINK_PORT, QemuMachine, Service, Surroundings
from fleet_lab.machine.swtpm import TpmAuthority
from fleet_lab.registry import ImageServer
from fleet_lab.tinkerbell import standin

pytestmark = [pytest.mark.qemu, pytest.mark.slow, pytest.mark.timeout(900)]

SPEC = MachineSpec(
    "hook", "52:54:00:12:34:56", "LAB-HOOK", "3d5a6a0e-6b8f-4f86-9b0f-0d2f3a1c5b77", "DISK-HOOK", "127.64.7.7", 64 << 20
)
AGENT = "fleet-77"
SAYS = """
echo serial $(cat /sys/block/vda/serial) dmi $(cat /sys/class/dmi/id/product_serial)
mount -t securityfs none /sys/kernel/security
echo log $(base64 -w0 /sys/kernel/security/tpm0/binary_bios_measurements)
python3 -c 'import tpm2_pytss, cryptography, zstandard; t = tpm2_pytss.ESAPI("device:/dev/tpmrm0"); print("random", len(t.get_random(8)))'
echo variable $VARIABLE; echo kept > /run/fleet/kept; echo $0 $1
"""
# A process that outlives its action and reboots the host once the Workflow has ended, as fleet_machine's does.
REBOOTS = "(sleep 6; python3 -c \"open('/proc/sysrq-trigger', 'w').write('b')\") < /dev/null > /dev/null 2>&1 &"


@pytest.fixture(scope="module")
def image(tmp_path_factory):
    """An action image that runs shell text, and the registry that serves it."""
    folder = tmp_path_factory.mktemp("image")
    base = action_base(image_cache(), this_host_suite())
    digest = write_archive(folder / "shell.tar", "shell", [Layer.of(base)], {"Entrypoint": ["/bin/sh", "-c"]})
    server = ImageServer([folder / "shell.tar"], {})
    yield digest, server.port
    server.close()


@pytest.fixture(scope="module")
def tinkerbell(tmp_path_factory):
    with standin.in_thread(standin.Options(tmp_path_factory.mktemp("tinkerbell"))) as running:
        yield running


@pytest.fixture(scope="module")
def api(tinkerbell):
    return kubernetes.client.CustomObjectsApi(kubernetes.config.new_client_from_config(str(tinkerbell.kubeconfig)))


def create(api, plural, name, spec):
    body = {
        "apiVersion": "tinkerbell.org/v1alpha1",
        "kind": {"hardware": "Hardware", "templates": "Template", "workflows": "Workflow"}[plural],
        "metadata": {"name": name},
        "spec": spec,
    }
    return api.create_namespaced_custom_object("tinkerbell.org", "v1alpha1", "tinkerbell", plural, body)


def template(digest, port, actions):
    image = f"10.0.2.2:{port}/shell@{digest}"
    lines = ['version: "0.1"', "name: t", "global_timeout: 6000", "tasks:", '- name: "t"', '  worker: "{{.device_1}}"']
    lines += ["  volumes: [/dev:/dev, /run/fleet/r:/run/fleet]", "  actions:"]
    for name, command in actions:
        lines += [
            f'  - name: "{name}"',
            f"    image: {image}",
            "    timeout: 600",
            f"    command: {json.dumps(command)}",
        ]
        lines += ["    environment: {VARIABLE: value}", "    pid: host"]
    return "\n".join(lines)


@pytest.fixture
def machine(tmp_path, image, tinkerbell, lab_places):
    digest, registry = image
    hookos = build_hookos(image_cache(), this_host_suite(), [digest])
    netboot = HardwareNetboot(hardware_lister(str(tinkerbell.kubeconfig), "tinkerbell"))
    services = [Service(TINK_PORT, int(tinkerbell.grpc.rpartition(":")[2])), Service(registry, registry)]
    around = Surroundings(hookos.uki, netboot, services)
    made = QemuMachine(SPEC, tmp_path, lab_places.sockets / "hook", TpmAuthority(tmp_path / "ca"), around)
    made.allow = hookos.allow
    yield made
    made.close()


def allow_netboot(api):
    interface = {"dhcp": {"mac": SPEC.mac}, "netboot": {"allowPXE": True}}
    create(api, "hardware", AGENT, {"agentID": AGENT, "interfaces": [interface]})


def workflow_ends(api, name):
    """The state in which a Workflow ends, and its actions."""
    while True:
        found = api.get_namespaced_custom_object("tinkerbell.org", "v1alpha1", "tinkerbell", "workflows", name)
        status = found.get("status") or {}
        assert status.get("templateRendering") != "failed", status
        if status.get("state") in {"SUCCESS", "FAILED", "TIMEOUT"}:
            return status["state"], [action for task in status["tasks"] for action in task["actions"]]
        time.sleep(0.3)


def test_a_netbooted_machine_runs_the_actions_of_its_workflow_from_the_image(machine, image, api):
    digest, registry = image
    allow_netboot(api)
    actions = [("look", [SAYS, "zero", "one"]), ("again", ["cat /run/fleet/kept"]), ("finish", [REBOOTS])]
    create(api, "templates", "t", {"data": template(digest, registry, actions)})
    create(api, "workflows", "w", {"templateRef": "t", "hardwareRef": AGENT, "hardwareMap": {"device_1": AGENT}})

    machine.boot_override(BootTarget.NETWORK, persistent=True)
    machine.on()
    state, _ = workflow_ends(api, "w")

    said = Path(machine.console).read_text(errors="replace")
    assert state == "SUCCESS", said
    assert f"[look] serial {SPEC.disk_serial} dmi {SPEC.serial}" in said
    assert "[look] random 8" in said
    assert "[look] variable value" in said
    assert "[look] zero one" in said
    assert "[again] kept" in said
    while machine.console.read_text(errors="replace").count("boots from the network") < 2:
        assert machine.trouble is None
        time.sleep(0.5)
    log = base64.b64decode(re.search(r"\[look\] log (\S+)", said)[1])
    assert [digest for digest in machine.allow if bytes.fromhex(digest) not in log] == []
