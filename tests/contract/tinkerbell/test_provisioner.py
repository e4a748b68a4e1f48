"""fleetd's Provisioner against Tinkerbell: what it writes, what it repeats, and what it refuses."""

import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from fleet_lab.agent_protocol import State
from fleetd.core.names import MacAddress, MachineId, RunId
from fleetd.ports import HardwareWanted, OutageError, Part, RefusedError, WorkflowOutcome, WorkflowWanted
from fleetd.tinkerbell.api import HARDWARE, TEMPLATES, WORKFLOWS, Api, ConflictError
from fleetd.tinkerbell.provisioner import TinkerbellProvisioner
from fleetd.tinkerbell.templates import collect_templates, put_template, read_template
from tests.conftest import CHECKOUT
from tests.contract.tinkerbell.place import MERGE, NAMESPACE, TINK, Place, Run, eventually

WORKFLOW_FILES = CHECKOUT / "workflows"
IMAGE = f"registry.example/fleet-machine@sha256:{'0' * 64}"
VALUES = {
    key: key
    for key in [
        "fleet_url",
        "fleet_ca",
        "fleet_keys",
        "disk_serial",
        "disk_wwn",
        "disk_size",
        "erase",
        "image_url",
        "image_sha256",
        "image_size",
        "image_key",
        "family",
        "extra_serials",
    ]
}


@pytest.fixture
def api(place: Place) -> Api:
    return Api(place.configuration, NAMESPACE, timeout=5, sleep=lambda _: None)


@pytest.fixture
def provisioner(api: Api) -> TinkerbellProvisioner:
    return TinkerbellProvisioner(api, WORKFLOW_FILES, action_image=IMAGE)


@pytest.fixture
def machine(place: Place) -> MachineId:
    number = MachineId(uuid.uuid4().int % 10**9)
    place.made.append(f"{TINK}/hardware/fleet-{number}")
    return number


def wanted(machine: MachineId, **changes: object) -> HardwareWanted:
    tail = f"{machine % 256:02x}"
    plain = HardwareWanted(
        machine=machine,
        node_name="node 7/ä",
        macs=(MacAddress(f"52:54:00:00:00:{tail}"), MacAddress(f"52:54:00:00:01:{tail}")),
        addresses=("192.0.2.7/24",),
        gateway="192.0.2.1",
        allow_pxe=False,
        bmc=True,
    )
    return replace(plain, **changes)  # type: ignore[arg-type]


def a_workflow(place: Place, machine: MachineId, part: Part = Part.ATTEST, template: str = "attest") -> WorkflowWanted:
    run = RunId(uuid.uuid4())
    for suffix in "ad":
        place.made.append(f"{TINK}/workflows/{run.hex}-{suffix}")
    values = VALUES | {"run": str(run), "machine": str(machine)}
    return WorkflowWanted(run, machine, part, template, values)


def hardware(place: Place, machine: MachineId) -> dict:
    return place.call("GET", f"{TINK}/hardware/fleet-{machine}").body


def test_hardware_holds_every_mac_and_one_identity(
    provisioner: TinkerbellProvisioner, place: Place, machine: MachineId
) -> None:
    provisioner.keep_hardware(wanted(machine))

    made = hardware(place, machine)
    assert made["spec"]["agentID"] == f"fleet-{machine}"
    assert [i["dhcp"]["mac"] for i in made["spec"]["interfaces"]] == list(wanted(machine).macs)
    assert made["spec"]["interfaces"][0]["dhcp"]["ip"] == {
        "address": "192.0.2.7",
        "netmask": "255.255.255.0",
        "gateway": "192.0.2.1",
    }
    assert "ip" not in made["spec"]["interfaces"][1]["dhcp"]
    assert made["metadata"]["labels"] == {"fleet/machine": str(machine), "fleet/node": "node-7"}


def test_keeping_hardware_again_writes_nothing(
    provisioner: TinkerbellProvisioner, place: Place, machine: MachineId
) -> None:
    provisioner.keep_hardware(wanted(machine))
    before = hardware(place, machine)["metadata"]["resourceVersion"]

    provisioner.keep_hardware(wanted(machine))

    assert hardware(place, machine)["metadata"]["resourceVersion"] == before


def test_a_renamed_device_keeps_its_hardware(
    provisioner: TinkerbellProvisioner, place: Place, machine: MachineId
) -> None:
    provisioner.keep_hardware(wanted(machine))
    uid = hardware(place, machine)["metadata"]["uid"]

    provisioner.keep_hardware(wanted(machine, node_name="other"))

    now = hardware(place, machine)
    assert now["metadata"]["uid"] == uid
    assert now["spec"]["interfaces"][0]["dhcp"]["hostname"] == "other"


def test_what_others_wrote_to_hardware_stays(
    provisioner: TinkerbellProvisioner, place: Place, machine: MachineId
) -> None:
    provisioner.keep_hardware(wanted(machine))
    extra = {"metadata": {"annotations": {"owner": "x"}}, "spec": {"userData": "#cloud-config"}}
    place.call("PATCH", f"{TINK}/hardware/fleet-{machine}", extra, content_type=MERGE)

    provisioner.keep_hardware(wanted(machine, gateway="192.0.2.254"))

    now = hardware(place, machine)
    assert now["metadata"]["annotations"]["owner"] == "x"
    assert now["spec"]["userData"] == "#cloud-config"
    assert now["spec"]["interfaces"][0]["dhcp"]["ip"]["gateway"] == "192.0.2.254"


def test_allow_pxe_is_set_on_every_interface_and_cleared_again(
    provisioner: TinkerbellProvisioner, place: Place, machine: MachineId
) -> None:
    provisioner.keep_hardware(wanted(machine))

    provisioner.set_allow_pxe(machine, allowed=True)
    assert [i["netboot"]["allowPXE"] for i in hardware(place, machine)["spec"]["interfaces"]] == [True, True]
    provisioner.set_allow_pxe(machine, allowed=False)
    assert [i["netboot"]["allowPXE"] for i in hardware(place, machine)["spec"]["interfaces"]] == [False, False]


def test_absent_hardware_already_forbids_netboot(provisioner: TinkerbellProvisioner, machine: MachineId) -> None:
    provisioner.set_allow_pxe(machine, allowed=False)
    with pytest.raises(RefusedError, match="does not exist"):
        provisioner.set_allow_pxe(machine, allowed=True)


def test_removing_hardware_twice_is_fine(provisioner: TinkerbellProvisioner, place: Place, machine: MachineId) -> None:
    provisioner.keep_hardware(wanted(machine))
    provisioner.remove_hardware(machine)
    provisioner.remove_hardware(machine)
    assert place.call("GET", f"{TINK}/hardware/fleet-{machine}").status == 404


def test_a_stale_write_is_a_conflict(
    provisioner: TinkerbellProvisioner, api: Api, place: Place, machine: MachineId
) -> None:
    provisioner.keep_hardware(wanted(machine))
    old = hardware(place, machine)
    provisioner.set_allow_pxe(machine, allowed=True)
    with pytest.raises(ConflictError):
        api.replace(HARDWARE, old | {"spec": {}})


@pytest.mark.parametrize("file", sorted(path.stem for path in WORKFLOW_FILES.glob("*.yaml")))
def test_every_template_of_the_project_renders(
    provisioner: TinkerbellProvisioner, place: Place, machine: MachineId, file: str
) -> None:
    provisioner.keep_hardware(wanted(machine))
    asked = a_workflow(place, machine, Part.DISK, file)

    provisioner.create_workflow(asked)

    seen = eventually(
        lambda: (s := provisioner.workflow(asked.run, Part.DISK)).outcome is not WorkflowOutcome.UNRENDERED and s
    )
    assert seen.outcome is WorkflowOutcome.PENDING
    action = place.get_action(f"fleet-{machine}", 5)
    assert action["image"] == IMAGE
    assert action["command"][0] == "action"
    assert f"FLEET_RUN={asked.run}" in action["environment"]
    assert action["volumes"] == ["/dev:/dev", f"/run/fleet/{asked.run}:/run/fleet/{asked.run}"]
    assert action["timeout"] == 7 * 24 * 3600


def test_a_workflow_goes_from_pending_to_success(
    provisioner: TinkerbellProvisioner, place: Place, machine: MachineId
) -> None:
    provisioner.keep_hardware(wanted(machine))
    asked = a_workflow(place, machine)
    assert provisioner.workflow(asked.run, Part.ATTEST).outcome is WorkflowOutcome.ABSENT
    provisioner.create_workflow(asked)
    run = Run(place, f"{asked.run.hex}-a", f"fleet-{machine}")

    action = run.take()
    run.report(action, State.RUNNING)
    assert provisioner.workflow(asked.run, Part.ATTEST).outcome is WorkflowOutcome.RUNNING
    run.report(action, State.SUCCESS)
    seen = eventually(
        lambda: (s := provisioner.workflow(asked.run, Part.ATTEST)).outcome is WorkflowOutcome.SUCCESS and s
    )

    assert [(a.name, a.state) for a in seen.actions] == [("enroll", "SUCCESS")]
    assert seen.actions[0].ended is not None
    assert seen.raw is not None


def test_creating_a_workflow_again_finds_the_first(
    provisioner: TinkerbellProvisioner, api: Api, place: Place, machine: MachineId
) -> None:
    asked = a_workflow(place, machine)
    provisioner.create_workflow(asked)
    first = api.get(WORKFLOWS, f"{asked.run.hex}-a")

    provisioner.create_workflow(asked)

    again = api.get(WORKFLOWS, f"{asked.run.hex}-a")
    assert first is not None
    assert again is not None
    assert again["metadata"]["uid"] == first["metadata"]["uid"]


def test_a_workflow_of_somebody_else_under_the_name_is_refused(
    provisioner: TinkerbellProvisioner, place: Place, machine: MachineId
) -> None:
    asked = a_workflow(place, machine)
    place.create(TINK, "Workflow", f"{asked.run.hex}-a", {}, {"fleet/run": "other"})
    with pytest.raises(RefusedError, match="not of this run"):
        provisioner.create_workflow(asked)


def test_a_value_that_nobody_gave_is_named_before_anything_is_made(api: Api, place: Place, machine: MachineId) -> None:
    asked = a_workflow(place, machine)
    with pytest.raises(RefusedError, match="action_image"):
        TinkerbellProvisioner(api, WORKFLOW_FILES).create_workflow(asked)
    assert api.get(WORKFLOWS, f"{asked.run.hex}-a") is None


def test_a_template_that_somebody_changed_is_refused(api: Api, place: Place, tmp_path: Path) -> None:
    (tmp_path / "attest.yaml").write_text((WORKFLOW_FILES / "attest.yaml").read_text() + f"# {uuid.uuid4()}\n")
    template = read_template(tmp_path, "attest")
    place.create(TINK, "Template", template.name, {"data": "other"})
    with pytest.raises(RefusedError, match="other content"):
        put_template(api, template)


def test_templates_of_earlier_versions_are_collected_unless_used(api: Api, place: Place, tmp_path: Path) -> None:
    made = []
    for _ in range(2):
        (tmp_path / "attest.yaml").write_text((WORKFLOW_FILES / "attest.yaml").read_text() + f"# {uuid.uuid4()}\n")
        made.append(put_template(api, read_template(tmp_path, "attest")))
        place.made.append(f"{TINK}/templates/{made[-1]}")
    unused, used = made
    place.create(TINK, "Workflow", f"w-{uuid.uuid4().hex[:8]}", {"templateRef": used})
    others = frozenset(t["metadata"]["name"] for t in api.labelled(TEMPLATES, "fleet/template")) - {unused, used}

    assert collect_templates(api, others, datetime.now(UTC)) == ()
    assert collect_templates(api, others, datetime.now(UTC) + timedelta(hours=2)) == (unused,)


def test_workflows_of_other_runs_are_strays(
    provisioner: TinkerbellProvisioner, place: Place, machine: MachineId
) -> None:
    ours, other = a_workflow(place, machine), a_workflow(place, machine)
    provisioner.create_workflow(ours)
    provisioner.create_workflow(other)

    assert provisioner.stray_workflows(machine, ours.run) == (f"{other.run.hex}-a",)
    assert len(provisioner.stray_workflows(machine, None)) == 2
    provisioner.delete_named(f"{other.run.hex}-a")
    provisioner.delete_workflow(ours.run, Part.ATTEST)
    provisioner.delete_workflow(ours.run, Part.ATTEST)
    assert provisioner.stray_workflows(machine, None) == ()


def test_an_unrendered_workflow_says_why(provisioner: TinkerbellProvisioner, place: Place, machine: MachineId) -> None:
    asked = a_workflow(place, machine)
    provisioner.create_workflow(asked)  # there is no Hardware

    seen = eventually(lambda: (s := provisioner.workflow(asked.run, Part.ATTEST)).problem and s)
    assert seen.outcome is WorkflowOutcome.UNRENDERED
    assert "hardware not found" in seen.problem


def test_an_api_that_is_not_there_is_an_outage(place: Place, tmp_path: Path) -> None:
    text = place.kubeconfig.read_text().replace(place.configuration.host, "https://127.0.0.1:9")
    (tmp_path / "kubeconfig").write_text(text)
    gone = Place(tmp_path / "kubeconfig", place.grpc, place.real)
    api = Api(gone.configuration, NAMESPACE, timeout=1, sleep=lambda _: None)
    with pytest.raises(OutageError):
        api.get(HARDWARE, "x")


def test_refused_credentials_are_named_and_waited_for(place: Place, tmp_path: Path) -> None:
    if place.real:
        pytest.skip("the real one may log in by certificate")
    (tmp_path / "kubeconfig").write_text(place.kubeconfig.read_text().replace("token: ", "token: x"))
    stranger = Place(tmp_path / "kubeconfig", place.grpc, place.real)
    api = Api(stranger.configuration, NAMESPACE, timeout=5, sleep=lambda _: None)
    with pytest.raises(OutageError, match="kubeconfig"):
        api.get(HARDWARE, "x")
