"""What agents are served: shadowing, re-serving, deletes, and a whole run by the lab's agent."""

import threading
import uuid
from dataclasses import dataclass, field
from typing import Any, Self

import pytest

from fleet_lab.agent import ActionExit, Agent
from fleet_lab.agent_protocol import State
from tests.contract.tinkerbell.place import NOTHING_YET, ONE, TINK, Place, Run, eventually, refused


def test_a_run_ends_with_success(place: Place) -> None:
    run = place.workflow()
    assert run.state == "PENDING"
    first = run.perform(State.RUNNING, State.SUCCESS)
    assert run.state == "RUNNING"
    second = run.perform(State.RUNNING, State.SUCCESS)
    eventually(lambda: run.state == "SUCCESS")
    assert (first["name"], second["name"]) == ("first", "second")


def test_the_environment_of_an_action_wins_over_that_of_its_task(place: Place) -> None:
    run = place.workflow()
    first, second = run.perform(State.SUCCESS), run.take()
    assert first["environment"] == ["LEVEL=action", f"NAME={run.name}"]
    assert second["environment"] == ["LEVEL=task"]
    assert second["command"] == ["action", "second"]


def test_a_running_action_is_served_again_after_a_reboot(place: Place) -> None:
    run = place.workflow()
    first = run.perform(State.RUNNING)
    assert run.take()["action_id"] == first["action_id"]
    assert run.state == "RUNNING"


def test_a_failed_action_ends_the_workflow_and_serves_nothing_more(place: Place) -> None:
    run = place.workflow()
    run.perform(State.RUNNING, State.FAILED)
    assert run.state == "FAILED"
    assert refused(lambda: run.take(1.5))[0] in NOTHING_YET


def test_no_state_is_final(place: Place) -> None:
    run = place.workflow(ONE)
    action = run.perform(State.RUNNING, State.TIMEOUT)
    assert run.state == "TIMEOUT"
    run.report(action, State.SUCCESS)
    eventually(lambda: run.state == "SUCCESS")
    run.report(action, State.FAILED)
    assert run.state == "FAILED"


def test_any_state_that_an_agent_reports_becomes_the_state(place: Place) -> None:
    run = place.workflow()
    action = run.take()
    for state in (State.RUNNING, State.UNSPECIFIED, State.PENDING):
        run.report(action, state)
        assert run.state == state.name


def test_two_workflows_of_one_agent_are_served_at_random(place: Place) -> None:
    one = place.workflow()
    other = place.workflow(agent=one.agent)
    seen = {place.get_action(one.agent, 5)["workflow_id"] for _ in range(40)}
    assert seen == {f"default/{one.name}", f"default/{other.name}"}


def test_an_ended_workflow_shadows_the_next_until_it_is_deleted(place: Place) -> None:
    old = place.workflow(ONE)
    old.perform(State.RUNNING, State.FAILED)
    new = place.workflow(agent=old.agent)
    place.call("DELETE", f"{TINK}/workflows/{old.name}")
    for _ in range(10):
        assert place.get_action(old.agent, 5)["workflow_id"] == f"default/{new.name}"


def test_the_agent_id_is_compared_byte_for_byte(place: Place) -> None:
    run = place.workflow()
    assert refused(lambda: place.get_action(run.agent.upper(), 1.5))[0] in NOTHING_YET


def test_a_report_to_a_deleted_workflow_gets_no_answer(place: Place) -> None:
    run = place.workflow()
    action = run.perform(State.RUNNING)
    place.call("DELETE", f"{TINK}/workflows/{run.name}")
    assert refused(lambda: run.report(action, State.SUCCESS))[0] in NOTHING_YET


def test_a_recreated_workflow_has_other_action_ids(place: Place) -> None:
    run = place.workflow()
    stale = run.perform(State.RUNNING)
    spec = run.item["spec"]
    place.call("DELETE", f"{TINK}/workflows/{run.name}")
    place.create(TINK, "Workflow", run.name, spec)
    fresh = run.take()
    assert fresh["action_id"] != stale["action_id"]
    assert refused(lambda: run.report(stale, State.SUCCESS))[0] in NOTHING_YET


def test_toggling_netboot_sets_every_interface_and_leaves_it_set_after_a_failure(place: Place) -> None:
    options = {"bootOptions": {"toggleAllowNetboot": True}}
    good, bad = place.workflow(ONE, **options), place.workflow(ONE, **options)

    def allowed(run: Run) -> Any:
        return [interface.get("netboot", {}).get("allowPXE") for interface in run.hardware["spec"]["interfaces"]]

    eventually(lambda: good.state == bad.state == "PENDING")
    assert allowed(good) == allowed(bad) == [True]
    good.perform(State.RUNNING, State.SUCCESS)
    bad.perform(State.RUNNING, State.FAILED)
    eventually(lambda: good.state == "SUCCESS")
    assert (allowed(good), allowed(bad)) == ([False], [True])


def test_a_disabled_workflow_is_not_rendered_until_enabled(place: Place) -> None:
    run = place.workflow(ONE, disabled=True)
    assert run.state == ""
    change = {"spec": {"disabled": False}}
    place.call("PATCH", f"{TINK}/workflows/{run.name}", change, content_type="application/merge-patch+json")
    eventually(lambda: run.state == "PENDING")


def test_an_empty_worker_is_written_without_end(place: Place) -> None:
    run = place.workflow(ONE.replace("{{.device_1}}", ""))
    versions = set()
    eventually(lambda: versions.add(run.item["metadata"]["resourceVersion"]) or len(versions) > 5)
    place.call("DELETE", f"{TINK}/workflows/{run.name}")


def test_a_template_that_appears_later_is_found(place: Place) -> None:
    name = f"late-{uuid.uuid4().hex[:8]}"
    place.hardware(name, name)
    spec = {"templateRef": name, "hardwareRef": name, "hardwareMap": {"device_1": name, "name": name}}
    place.create(TINK, "Workflow", name, spec)
    run = Run(place, name, name)
    assert eventually(lambda: run.status.get("conditions"))[0]["message"] == "template not found"
    place.create(TINK, "Template", name, {"data": ONE})
    eventually(lambda: run.state == "PENDING")


def test_attributes_of_the_agent_lie_on_its_hardware(place: Place) -> None:
    run = place.workflow(ONE)
    agent = Agent(place.grpc, run.agent, Recorder(), {"block": [{"serial_number": "S1"}], "cpu": {"total_cores": 2}})
    with working(agent):
        eventually(lambda: run.state == "SUCCESS")
    text = run.hardware["metadata"]["annotations"]["tinkerbell.org/agent-attributes"]
    assert '"blockDevices":[{"serialNumber":"S1"}]' in text


@dataclass
class Recorder:
    """Runs nothing, remembers what it was asked to run."""

    status: int = 0
    problem: Exception | None = None
    seen: list[dict[str, Any]] = field(default_factory=list)

    def run(self, **asked: Any) -> ActionExit:
        self.seen.append(asked)
        if self.problem is not None:
            raise self.problem
        return ActionExit(self.status)


class working:  # noqa: N801 - reads as a word
    """An agent at work while the context is open."""

    def __init__(self, agent: Agent) -> None:
        self.agent, self.thread = agent, threading.Thread(target=agent.run, daemon=True)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.agent.stop.set()
        self.thread.join(10)
        assert not self.thread.is_alive()


def test_the_labs_agent_works_through_a_workflow(place: Place) -> None:
    run, recorder = place.workflow(), Recorder()
    with working(Agent(place.grpc, run.agent, recorder)):
        eventually(lambda: run.state == "SUCCESS")
    assert [asked["name"] for asked in recorder.seen] == ["first", "second"]
    assert recorder.seen[0]["volumes"] == ["/dev:/dev"]
    assert recorder.seen[1]["pid"] == "host"


@pytest.mark.parametrize("recorder", [Recorder(status=1), Recorder(problem=OSError("no such image"))])
def test_an_action_that_fails_or_cannot_start_fails_the_workflow(place: Place, recorder: Recorder) -> None:
    run = place.workflow()
    with working(Agent(place.grpc, run.agent, recorder)):
        eventually(lambda: run.state == "FAILED")
    assert len(recorder.seen) == 1


def test_an_action_without_a_timeout_times_out_at_once(place: Place) -> None:
    run, recorder = place.workflow(ONE.replace("        timeout: 60\n", "")), Recorder()
    with working(Agent(place.grpc, run.agent, recorder)):
        eventually(lambda: run.state == "TIMEOUT")
    assert recorder.seen == []
