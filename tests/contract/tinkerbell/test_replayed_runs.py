"""Recorded runs of agents, made again: the Workflow must go through the same statuses."""

import json
import re
import uuid
from pathlib import Path
from typing import Any

import grpc
import pytest

from fleet_lab import agent_protocol as wire
from fleet_lab.agent_protocol import State
from tests.contract.tinkerbell.place import NOTHING_YET, TINK, Place, eventually, refused

HAPPY = "01-happy"


def recorded_statuses(folder: Path) -> list[dict[str, Any]]:
    events = [json.loads(path.read_text()) for path in sorted(folder.glob("*-workflow-*.json"))]
    return [e["event"]["object"].get("status", {}) for e in events if "event" in e]


def comparable(statuses: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return statuses without ids and times; the moment at which globalExecutionStop appears is a race."""
    result: list[dict[str, Any]] = []
    for shown in statuses:
        status = json.loads(json.dumps(shown))
        status.pop("globalExecutionStop", None)
        status.pop("agentID", None)
        for condition in status.get("conditions", []):
            condition.pop("time")
        for key in ("actionID", "taskID", "agentID"):
            status.get("currentState", {}).pop(key, None)
        for task in status.get("tasks", []):
            for key in ("id", "agentID"):
                task.pop(key)
            for action in task["actions"]:
                action.pop("id")
                action.get("environment", {}).pop("WANT_SERIAL", None)
                for key in ("executionStart", "executionStop"):
                    if key in action:
                        action[key] = "T"
        if not result or result[-1] != status:
            result.append(status)
    return result


def seconds(text: str) -> dict[str, int]:
    if text.startswith("0001"):
        return wire.ZERO_TIME
    import datetime as dt

    return {"seconds": int(dt.datetime.fromisoformat(text).timestamp())}


class Rerun:
    """Plays recorded agent messages to this server, its own ids in place of the recorded ones."""

    def __init__(self, place: Place, agents: dict[str, str]) -> None:
        self.place, self.agents = place, agents
        self.ids: dict[str, str] = {}

    def play(self, messages: list[dict[str, Any]]) -> None:
        for message in messages:
            request = dict(message["request"])
            request["agent_id"] = self.agents.get(request["agent_id"], request["agent_id"])
            if message["rpc"].endswith(wire.GET_ACTION):
                self._ask(request, message)
            else:
                self._report(request, message)

    def _ask(self, request: dict[str, Any], message: dict[str, Any]) -> None:
        patience = 5 if message["code"] == "OK" else 1.5
        try:
            got = self.place.get_action(request["agent_id"], patience)
        except grpc.RpcError as error:
            code = error.code().name
            assert message["code"] != "OK", message
            assert code in NOTHING_YET
            return
        recorded = message["response"]
        for key in ("workflow_id", "task_id", "action_id", "agent_id"):
            self.ids[recorded[key]] = got[key]
        for key in ("name", "image", "command", "volumes", "pid"):
            assert got.get(key, []) == recorded.get(key, []), key
        assert str(got["timeout"]) == recorded.get("timeout", "0")
        assert [pair.split("=")[0] for pair in got.get("environment", [])] == [
            pair.split("=")[0] for pair in recorded.get("environment", [])
        ]

    def _report(self, request: dict[str, Any], message: dict[str, Any]) -> None:
        for key in ("workflow_id", "task_id", "action_id"):
            request[key] = self.ids.get(request[key], request[key])
        request["action_state"] = State[request["action_state"]]
        for key in ("execution_start", "execution_stop"):
            if key in request:
                request[key] = seconds(request[key])
        self.place.report(request, 5)
        assert message["code"] == "OK"


def hardware_of_the_traces(place: Place, name: str, agent: str) -> None:
    spec = {
        "agentID": agent,
        "interfaces": [{"dhcp": {"mac": "52:54:00:aa:01:01"}, "netboot": {"allowPXE": False}}],
        "disks": [{"device": "/dev/nvme0n1"}],
        "metadata": {"instance": {"id": agent}},
    }
    place.create(TINK, "Hardware", name, spec)


def template_of(traces: Path, timeout_of_first: int) -> str:
    call = json.loads((traces / HAPPY / "02-template-created.json").read_text())
    data: str = call["request"]["body"]["spec"]["data"]
    return re.sub(r"timeout: 60\b", f"timeout: {timeout_of_first}", data, count=1)


ONLY = """version: "0.1"
name: x
tasks:
  - name: t
    worker: "{{.device_1}}"
    actions:
      - name: only
        image: alpine
        timeout: 2
"""
DUO = """version: "0.1"
name: x
global_timeout: 600
tasks:
  - name: t1
    worker: "{{.device_1}}"
    actions:
      - name: a1
        image: alpine
        timeout: 60
  - name: t2
    worker: "{{.device_2}}"
    actions:
      - name: a2
        image: alpine
        timeout: 60
"""


def rerun(place: Place, data: str, files: list[Path], recorded_agents: list[str], **spec: Any) -> list[dict[str, Any]]:
    """Make the objects, play the messages, and return every status that a watch showed."""
    name = f"re-{uuid.uuid4().hex[:8]}"
    agents = {agent: f"{name}-{index}" for index, agent in enumerate(recorded_agents)}
    hardware_of_the_traces(place, name, agents[recorded_agents[0]])
    place.create(TINK, "Template", name, {"data": data})
    values = {f"device_{index}": agent for index, agent in enumerate(agents.values(), 1)}
    version = place.call("GET", f"{TINK}/workflows?limit=1").body["metadata"]["resourceVersion"]
    path = f"{TINK}/workflows?watch=true&fieldSelector=metadata.name%3D{name}&resourceVersion={version}"
    with place.watching(path) as lines:
        wanted = {"templateRef": name, "hardwareRef": name, "hardwareMap": values, **spec}
        place.create(TINK, "Workflow", name, wanted)
        eventually(lambda: any(line["object"].get("status") for line in lines))
        again = Rerun(place, agents)
        for file in files:
            again.play(json.loads(file.read_text()))
        version = place.call("GET", f"{TINK}/workflows/{name}").body["metadata"]["resourceVersion"]
        eventually(lambda: lines[-1]["object"]["metadata"]["resourceVersion"] == version)
        # what the controller adds after the last report comes within the same moment
        eventually(lambda: lines[-1]["object"]["status"].get("state") != "POST")
    return [line["object"].get("status", {}) for line in lines]


@pytest.mark.parametrize(
    ("folder", "agent", "timeout"),
    [
        (HAPPY, "52:54:00:aa:01:01", 60),
        ("02-action-failed", "52:54:00:aa:02:01", 60),
        ("03-action-timeout", "52:54:00:aa:03:01", 2),
    ],
)
def test_a_recorded_run_shows_the_same_statuses(
    place: Place, traces: Path, folder: str, agent: str, timeout: int
) -> None:
    messages = next((traces / folder).glob("*-agent-messages.json"))

    statuses = rerun(place, template_of(traces, timeout), [messages], [agent])

    assert comparable(statuses) == comparable(recorded_statuses(traces / folder))


def test_a_late_success_of_the_last_action_turns_timeout_into_success_and_a_late_failure_undoes_it(
    place: Place, traces: Path
) -> None:
    folder = traces / "03b-timeout-then-late-success-of-last-action"
    statuses = rerun(place, ONLY, [folder / "09-agent-messages.json"], ["52:54:00:aa:04:01"])
    recorded = recorded_statuses(folder)
    final = json.loads((folder / "08-workflow-after-failed-report-on-a-success.json").read_text())["reply"]["status"]
    assert comparable(statuses) == comparable([*recorded, final])


def test_two_tasks_of_two_workers_show_the_same_statuses(place: Place, traces: Path) -> None:
    folder = traces / "18-two-tasks-two-workers"
    both = [
        *json.loads((folder / "11-messages-of-agent-1.json").read_text()),
        *json.loads((folder / "12-messages-of-agent-2.json").read_text()),
    ]
    ok = sorted((m for m in both if m["code"] == "OK"), key=lambda m: m["at"])
    agents = ["52:54:00:cc:00:03", "52:54:00:cc:00:04"]
    merged = folder / "merged"
    merged = Path(str(place.kubeconfig.parent)) / "merged.json"
    merged.write_text(json.dumps(ok))

    statuses = rerun(place, DUO, [merged], agents)

    assert comparable(statuses) == comparable(recorded_statuses(folder))


def test_odd_reports_leave_what_was_recorded(place: Place, traces: Path) -> None:
    steps = json.loads((traces / "17-odd-reports" / "01-steps.json").read_text())
    name = f"odd-{uuid.uuid4().hex[:8]}"
    hardware_of_the_traces(place, name, name)
    place.create(TINK, "Template", name, {"data": template_of(traces, 60)})
    spec = {"templateRef": name, "hardwareRef": name, "hardwareMap": {"device_1": name}}
    place.create(TINK, "Workflow", name, spec)
    eventually(lambda: place.call("GET", f"{TINK}/workflows/{name}").body.get("status", {}).get("state"))
    again = Rerun(place, {"52:54:00:cc:00:02": name})
    for step in steps:
        again.play(step["rpc"])
        after = step["after"]

        def shown() -> dict[str, Any]:
            return place.call("GET", f"{TINK}/workflows/{name}").body["status"]

        eventually(lambda after=after: shown()["state"] == after["state"])
        status = shown()
        assert {k: status["currentState"][k] for k in ("actionName", "state")} == after["currentState"], step["step"]
        found = [
            (a["name"], a["state"], a.get("message"), "executionStart" in a) for a in status["tasks"][0]["actions"]
        ]
        assert found == [
            (a["name"], a["state"], a["message"], a["executionStart"] is not None) for a in after["actions"]
        ], step["step"]


@pytest.mark.parametrize("folder", ["04-template-render-failure", "05-invalid-template"])
def test_templates_that_do_not_render_say_what_was_recorded(place: Place, traces: Path, folder: str) -> None:
    checked = 0
    for path in sorted((traces / folder).glob("*.json")):
        recorded = json.loads(path.read_text())
        if not isinstance(recorded, dict) or "template_data" not in recorded or "worker" in path.stem:
            continue
        name = f"bad-{uuid.uuid4().hex[:8]}"
        hardware_of_the_traces(place, name, name)
        place.create(TINK, "Template", name, {"data": recorded["template_data"]})
        spec = {"templateRef": name, "hardwareRef": name, "hardwareMap": {"device_1": name}}
        place.create(TINK, "Workflow", name, spec)
        status = eventually(
            lambda name=name: (
                (s := place.call("GET", f"{TINK}/workflows/{name}").body.get("status", {}))
                and s.get("templateRendering")
                and s
            )
        )
        wanted = recorded["workflow"]["status"]
        assert status.get("state", "") == wanted.get("state", ""), path.stem
        told, said = status["conditions"][0], wanted["conditions"][0]
        old = recorded["workflow"]["metadata"]["name"]
        assert told["message"] == said["message"].replace(old, name), path.stem
        assert comparable([status])[0].get("tasks") == comparable([wanted])[0].get("tasks")
        place.call("DELETE", f"{TINK}/workflows/{name}")
        checked += 1
    assert checked >= 4


def test_wrong_calls_get_no_answer_in_three_seconds(place: Place) -> None:
    code, _ = refused(lambda: place.get_action("nobody", 1))
    assert code in NOTHING_YET


@pytest.mark.slow
def test_wrong_calls_are_answered_after_59_seconds_with_the_recorded_codes(place: Place, traces: Path) -> None:
    """One wait for all: every call is made at once."""
    import time
    from concurrent.futures import ThreadPoolExecutor

    run = place.workflow()
    action = run.take()
    recorded = json.loads((traces / "16-agent-protocol-errors" / "01-one-call-each-deadline-75-s.json").read_text())

    known = recorded["Report-empty-workflow-id"]["request"]

    def made(call: dict[str, Any]) -> tuple[str, str, float]:
        request = dict(call["request"])
        begin = time.monotonic()
        if call["rpc"].endswith(wire.GET_ACTION):
            code, details = refused(lambda: place.get_action(request["agent_id"], 75))
            return code, details, time.monotonic() - begin
        swaps = {"run-perr": run.name, "default/run-perr": f"default/{run.name}"}
        request["workflow_id"] = swaps.get(request["workflow_id"], request["workflow_id"])
        if request["agent_id"] == "52:54:00:cc:00:01":
            request["agent_id"] = run.agent
        if request["action_id"] == known["action_id"]:
            request["action_id"] = action["action_id"]
        if request["task_id"] == known["task_id"]:
            request["task_id"] = action["task_id"]
        request["action_state"] = State[request["action_state"]]
        request["execution_start"] = request["execution_stop"] = wire.ZERO_TIME
        code, details = refused(lambda: place.report(request, 75))
        return code, details, time.monotonic() - begin

    chosen = {
        name: call
        for name, call in recorded.items()
        if call["code"] in {"INVALID_ARGUMENT", "NOT_FOUND", "INTERNAL"} and "no-actions" not in name
    }
    with ThreadPoolExecutor(len(chosen)) as pool:
        results = dict(zip(chosen, pool.map(made, chosen.values()), strict=True))
    for name, (code, details, elapsed) in results.items():
        assert code == chosen[name]["code"], name
        assert details == chosen[name]["details"].replace("run-perr", run.name), name
        assert elapsed > 57, name
