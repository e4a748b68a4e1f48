"""Rufio as recorded: what each action does to a BMC, and what Jobs and Tasks show of it."""

import json
import uuid
from pathlib import Path
from typing import Any

import pytest

from fleet_lab.redfish import Bmc
from tests.contract.tinkerbell.place import BMC, NAMESPACE, Place, eventually

SYSTEM = "/redfish/v1/Systems/1"


@pytest.fixture
def machine(place: Place, bmc: Bmc) -> str:
    """A BMC Machine with right credentials."""
    name = f"rf-{uuid.uuid4().hex[:8]}"
    body = {"metadata": {"name": name}, "stringData": {"username": "admin", "password": "right"}}
    place.call("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", body)
    connection = {
        "host": "127.0.0.1",
        "insecureTLS": False,
        "authSecretRef": {"name": name, "namespace": NAMESPACE},
        "providerOptions": {"redfish": {"port": bmc.tcp_port}, "preferredOrder": ["gofish"]},
    }
    place.create(BMC, "Machine", name, {"connection": connection})
    eventually(lambda: place.call("GET", f"{BMC}/machines/{name}").body.get("status"))
    return name


def run_job(place: Place, machine: str, *tasks: Any) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """Create a Job, wait for its end; return its status, its Tasks and its name."""
    name = f"job-{uuid.uuid4().hex[:8]}"
    reference = {"name": machine, "namespace": NAMESPACE}
    place.create(BMC, "Job", name, {"machineRef": reference, "tasks": list(tasks)})

    def status() -> Any:
        found = place.call("GET", f"{BMC}/jobs/{name}").body.get("status", {})
        return found if {"Completed", "Failed"} & {c["type"] for c in found.get("conditions", [])} else None

    ended = eventually(status)
    tasks_seen = place.call("GET", f"{BMC}/tasks?labelSelector=owner-name%3D{name}").body["items"]
    return ended, tasks_seen, name


def writes(bmc: Bmc, since: int) -> list[dict[str, Any]]:
    return [
        {"method": seen.method, "path": seen.path, "body": seen.body}
        for seen in bmc.requests[since:]
        if seen.method in {"POST", "PATCH"} and seen.path.startswith(SYSTEM)
    ]


def shape(status: dict[str, Any], name: str = "", namespace: str = NAMESPACE) -> dict[str, Any]:
    """Return a status without times and names."""
    conditions = [
        {key: value.replace(f"{namespace}/{name}", "JOB") for key, value in condition.items()}
        for condition in status.get("conditions", [])
    ]
    return {"conditions": conditions, "keys": sorted(status)}


@pytest.mark.slow
def test_every_power_action_does_what_was_recorded(place: Place, bmc: Bmc, machine: str, traces: Path) -> None:
    for row in json.loads((traces / "13-rufio-redfish" / "22-power-actions-table.json").read_text()):
        bmc.port.power = row["power_before"] == "On"
        before = len(bmc.requests)

        status, tasks, name = run_job(place, machine, {"powerAction": row["powerAction"]})

        assert writes(bmc, before) == row["writes_the_BMC_got"], row
        assert bmc.port.power == (row["power_after"] == "On"), row
        recorded = f"job-{row['powerAction']}-{row['power_before'].lower()}"
        assert shape(status, name) == shape(row["job"], recorded, "default"), row
        assert shape(tasks[0]["status"]) == shape(row["task"]), row


@pytest.mark.slow
def test_every_boot_device_does_what_was_recorded(place: Place, bmc: Bmc, machine: str, traces: Path) -> None:
    for row in json.loads((traces / "13-rufio-redfish" / "23-boot-devices-table.json").read_text()):
        before = len(bmc.requests)
        status, tasks, _ = run_job(place, machine, {"bootDevice": row["bootDevice"]})
        assert writes(bmc, before) == row["writes_the_BMC_got"], row
        assert [c["type"] for c in status["conditions"]] == [c["type"] for c in row["job"]["conditions"]]
        assert shape(tasks[0]["status"]) == shape(row["task"]), row


def test_tasks_are_named_labelled_and_owned_by_their_job(place: Place, bmc: Bmc, machine: str) -> None:
    _, tasks, name = run_job(
        place,
        machine,
        {"powerAction": "off"},
        {"bootDevice": {"device": "pxe", "efiBoot": True}},
        {"powerAction": "on"},
    )
    assert sorted(task["metadata"]["name"] for task in tasks) == [f"{name}-task-{n}" for n in range(3)]
    owner = tasks[0]["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("Job", name, True)
    assert tasks[0]["spec"]["connection"]["host"] == "127.0.0.1"


def test_a_job_does_not_refresh_the_power_state_but_a_touched_machine_does(
    place: Place, bmc: Bmc, machine: str
) -> None:
    def power() -> str:
        return place.call("GET", f"{BMC}/machines/{machine}").body["status"]["powerState"]

    assert power() == "off"
    run_job(place, machine, {"powerAction": "on"})
    assert power() == "off"
    touch = {"metadata": {"annotations": {"fleet/poke": "now"}}}
    place.call("PATCH", f"{BMC}/machines/{machine}", touch, content_type="application/merge-patch+json")
    eventually(lambda: power() == "on")


def test_a_job_for_a_machine_that_does_not_exist_waits_for_it(place: Place) -> None:
    name = f"job-{uuid.uuid4().hex[:8]}"
    reference = {"name": "rf-none", "namespace": NAMESPACE}
    place.create(BMC, "Job", name, {"machineRef": reference, "tasks": [{"powerAction": "off"}]})
    assert "status" not in place.call("GET", f"{BMC}/jobs/{name}").body


def test_a_power_action_without_effect_leaves_its_task_open(place: Place, bmc: Bmc, machine: str) -> None:
    bmc.behaviour.ignore_resets = True
    name = f"job-{uuid.uuid4().hex[:8]}"
    reference = {"name": machine, "namespace": NAMESPACE}
    place.create(BMC, "Job", name, {"machineRef": reference, "tasks": [{"powerAction": "on"}]})
    task = f"{BMC}/tasks/{name}-task-0"
    eventually(lambda: "startTime" in place.call("GET", task).body.get("status", {}))
    assert "conditions" not in place.call("GET", task).body["status"]
    place.call("DELETE", f"{BMC}/jobs/{name}")
    eventually(lambda: place.call("GET", task).status == 404)


def test_a_wrong_password_makes_a_burst_of_refused_logins(place: Place, bmc: Bmc) -> None:
    name = f"rf-{uuid.uuid4().hex[:8]}"
    body = {"metadata": {"name": name}, "stringData": {"username": "admin", "password": "wrong"}}
    place.call("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", body)
    connection = {
        "host": "127.0.0.1",
        "insecureTLS": True,
        "authSecretRef": {"name": name, "namespace": NAMESPACE},
        "providerOptions": {"redfish": {"port": bmc.tcp_port}},
    }
    place.create(BMC, "Machine", name, {"connection": connection})
    eventually(lambda: bmc.logins_refused >= 2)
    status = eventually(lambda: place.call("GET", f"{BMC}/machines/{name}").body.get("status"))
    assert status["powerState"] == "unknown"
    assert status["conditions"][0]["status"] == "False"
    assert "401" in status["conditions"][0]["message"]
    place.call("DELETE", f"{BMC}/machines/{name}")


def test_a_job_and_its_tasks_show_the_recorded_lines(place: Place, bmc: Bmc, machine: str, traces: Path) -> None:
    bmc.port.power = True
    lines: dict[str, list[Any]] = {}
    for plural in ("jobs", "tasks"):
        version = place.call("GET", f"{BMC}/{plural}?limit=1").body["metadata"]["resourceVersion"]
        lines[plural] = [f"{BMC}/{plural}?watch=true&resourceVersion={version}"]
    with place.watching(lines["jobs"][0]) as jobs, place.watching(lines["tasks"][0]) as tasks:
        actions = [{"powerAction": "off"}, {"bootDevice": {"device": "pxe", "efiBoot": True, "persistent": False}}]
        _, _, name = run_job(place, machine, *actions, {"powerAction": "on"})
        eventually(lambda: "Completed" in json.dumps(jobs[-1]))

    def shown(line: dict[str, Any], job: str) -> tuple[Any, ...]:
        item = line["object"]
        status = item.get("status", {})
        spec = item["spec"].get("task", {})
        conditions = tuple(c["type"] for c in status.get("conditions", ()))
        short = item["metadata"]["name"].replace(job, "JOB")
        return line["type"], short, conditions, "startTime" in status, "completionTime" in status, json.dumps(spec)

    read = [json.loads(path.read_text()) for path in sorted((traces / "13-rufio-redfish").glob("*-ok-*.json"))]
    events = [entry["event"] for entry in read if isinstance(entry, dict) and "event" in entry]
    for kind, seen in (("Job", jobs), ("Task", tasks)):
        recorded = [shown(event, "job-ok") for event in events if event["object"]["kind"] == kind]
        found = [shown(line, name) for line in seen if name in line["object"]["metadata"]["name"]]
        assert [f for f in found if f[0] != "DELETED"] == recorded
    assert len(events) > 10


def test_the_name_of_a_job_used_again_at_once_may_be_completed_with_the_bmc_untouched(
    place: Place, bmc: Bmc, machine: str
) -> None:
    if place.real:
        pytest.skip("a race, seen now and then")
    reference = {"name": machine, "namespace": NAMESPACE}
    for _ in range(20):
        _, _, name = run_job(place, machine, {"powerAction": "off"})
        bmc.port.power = True
        place.call("DELETE", f"{BMC}/jobs/{name}")
        place.create(BMC, "Job", name, {"machineRef": reference, "tasks": [{"powerAction": "off"}]})
        path = f"{BMC}/jobs/{name}"
        eventually(lambda path=path: "completionTime" in place.call("GET", path).body.get("status", {}))
        if bmc.port.power:
            return
    pytest.fail("every reused name did its work")
