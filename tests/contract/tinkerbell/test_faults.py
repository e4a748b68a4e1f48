"""fleetd's calls while the Kubernetes API answers badly, late, or not at all; and a stand-in that is killed."""

import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from fleet_lab.agent import ActionExit, Agent
from fleet_lab.tinkerbell.api import FAULTS_PATH
from fleetd.core.names import MachineId
from fleetd.ports import OutageError, RefusedError
from fleetd.tinkerbell.api import HARDWARE, WORKFLOWS, Api
from fleetd.tinkerbell.hardware import set_allow_pxe
from tests.conftest import CHECKOUT
from tests.contract.tinkerbell.place import NAMESPACE, TINK, Place, Run, eventually


@pytest.fixture
def api(place: Place) -> Api:
    if place.real:
        pytest.skip("faults are ordered from the stand-in only")
    return Api(place.configuration, NAMESPACE, timeout=2, sleep=lambda _: None)


def order(place: Place, **fault: Any) -> None:
    assert place.call("POST", FAULTS_PATH, [fault]).status == 200


def a_body() -> dict[str, Any]:
    return HARDWARE.body(f"f-{uuid.uuid4().hex[:8]}", {}, {"agentID": "x"})


@pytest.mark.parametrize("code", [429, 500, 503])
def test_passing_trouble_is_tried_again(place: Place, api: Api, code: int) -> None:
    order(place, code=code, count=2, path="/hardware")
    assert api.get(HARDWARE, "never") is None


def test_lasting_trouble_is_an_outage(place: Place, api: Api) -> None:
    order(place, code=503, count=4, path="/hardware")
    with pytest.raises(OutageError):
        api.get(HARDWARE, "never")


def test_a_hanging_api_is_an_outage(place: Place) -> None:
    if place.real:
        pytest.skip("faults are ordered from the stand-in only")
    api = Api(place.configuration, NAMESPACE, timeout=0.2, sleep=lambda _: None)
    order(place, delay=3, count=4, path="/hardware")
    with pytest.raises(OutageError):
        api.get(HARDWARE, "never")
    eventually(lambda: place.call("POST", FAULTS_PATH, []).body["pending"] == 0)


def test_a_create_whose_answer_was_lost_is_looked_up_and_not_repeated(place: Place, api: Api) -> None:
    body = a_body()
    place.made.append(f"{TINK}/hardware/{body['metadata']['name']}")
    order(place, code=500, methods=["POST"], path="/hardware", after=True)

    created = api.create(HARDWARE, body)

    assert created.existed
    assert created.item["metadata"]["generation"] == 1


def test_a_create_that_did_not_happen_is_repeated(place: Place, api: Api) -> None:
    body = a_body()
    place.made.append(f"{TINK}/hardware/{body['metadata']['name']}")
    order(place, code=500, methods=["POST"], path="/hardware")
    assert not api.create(HARDWARE, body).existed


def test_a_field_that_the_api_does_not_know_is_refused(place: Place, api: Api) -> None:
    body = a_body() | {"spec": {"unknown": 1}}
    with pytest.raises(RefusedError, match="unknown field"):
        api.create(HARDWARE, body)


def test_a_write_that_loses_a_race_is_made_again(place: Place, api: Api) -> None:
    number = uuid.uuid4().int % 10**9
    interfaces = [{"dhcp": {"mac": "52:54:00:00:00:01"}, "netboot": {"allowPXE": True}}]
    place.create(TINK, "Hardware", f"fleet-{number}", {"interfaces": interfaces})
    order(place, code=409, methods=["PUT"], path="/hardware", count=2)

    set_allow_pxe(api, MachineId(number), allowed=False)

    item = api.get(HARDWARE, f"fleet-{number}")
    assert item is not None
    assert item["spec"]["interfaces"][0]["netboot"]["allowPXE"] is False


def test_a_delete_whose_answer_was_lost_is_done(place: Place, api: Api) -> None:
    body = a_body()
    api.create(HARDWARE, body)
    order(place, code=500, methods=["DELETE"], path="/hardware", after=True)
    api.delete(HARDWARE, body["metadata"]["name"])
    assert api.get(HARDWARE, body["metadata"]["name"]) is None


def test_a_delete_that_loses_a_race_is_made_again(place: Place, api: Api) -> None:
    body = a_body()
    created = api.create(HARDWARE, body)
    order(place, code=409, methods=["DELETE"], path="/hardware", count=2)
    api.delete(HARDWARE, body["metadata"]["name"], created.item["metadata"]["uid"])
    assert api.get(HARDWARE, body["metadata"]["name"]) is None


def test_a_delete_leaves_another_object_of_the_name_alone(place: Place, api: Api) -> None:
    body = a_body()
    place.made.append(f"{TINK}/hardware/{body['metadata']['name']}")
    api.create(HARDWARE, body)
    api.delete(HARDWARE, body["metadata"]["name"], str(uuid.uuid4()))
    assert api.get(HARDWARE, body["metadata"]["name"]) is not None


def test_a_create_and_a_patch_that_lose_a_race_are_made_again(place: Place, api: Api) -> None:
    body = a_body()
    place.made.append(f"{TINK}/hardware/{body['metadata']['name']}")
    order(place, code=409, methods=["POST"], path="/hardware")
    assert not api.create(HARDWARE, body).existed
    order(place, code=409, methods=["PATCH"], path="/hardware")
    assert api.annotate(HARDWARE, body["metadata"]["name"], "fleet/test", "1") is not None


@pytest.mark.parametrize("code", [401, 403])
def test_a_token_or_role_that_is_being_replaced_ends_no_run(place: Place, api: Api, code: int) -> None:
    order(place, code=code, count=4, methods=["POST"], path="/hardware")
    with pytest.raises(OutageError, match="Check the kubeconfig"):
        api.create(HARDWARE, a_body())


@pytest.mark.parametrize("code", [400, 404])
def test_a_page_in_place_of_an_answer_says_nothing_of_an_object(place: Place, api: Api, code: int) -> None:
    body = a_body()
    place.made.append(f"{TINK}/hardware/{body['metadata']['name']}")
    api.create(HARDWARE, body)

    order(place, code=code, page="404 page not found\n", path="/hardware")
    assert api.get(HARDWARE, body["metadata"]["name"]) is not None

    order(place, code=code, page="404 page not found\n", count=4, path="/hardware")
    with pytest.raises(OutageError):
        api.get(HARDWARE, body["metadata"]["name"])


def test_a_page_with_status_200_is_no_answer(place: Place, api: Api) -> None:
    body = a_body()
    place.made.append(f"{TINK}/hardware/{body['metadata']['name']}")
    order(place, code=200, page="<html>Back soon.</html>", path="/hardware")
    assert not api.create(HARDWARE, body).existed

    order(place, code=200, page="<html>Back soon.</html>", count=4, path="/hardware")
    with pytest.raises(OutageError):
        api.labelled(HARDWARE, "fleet/machine")


def started(folder: Path, *options: str) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "fleet_lab.tinkerbell", "--folder", str(folder), "--keep", *options],
        stdout=subprocess.PIPE,
        text=True,
        cwd=CHECKOUT,
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def test_an_agent_ends_its_workflow_although_its_server_was_killed(place: Place, tmp_path: Path) -> None:
    if place.real:
        pytest.skip("the real one is not ours to kill")
    first, ready = started(tmp_path)
    ports = ("--kube-port", ready["api"].rsplit(":", 1)[1], "--grpc-port", ready["grpc"].rsplit(":", 1)[1])
    go_on, running = threading.Event(), threading.Event()

    class Slow:
        def run(self, **_: Any) -> ActionExit:
            running.set()
            go_on.wait(30)
            return ActionExit(0)

    before = Place(Path(ready["kubeconfig"]), ready["grpc"], real=False)
    run = before.workflow()
    agent = Agent(ready["grpc"], run.agent, Slow())
    thread = threading.Thread(target=agent.run, daemon=True)
    thread.start()
    assert running.wait(10)
    first.kill()
    first.wait()
    go_on.set()

    second, again = started(tmp_path, *ports)
    try:
        after = Run(Place(Path(again["kubeconfig"]), again["grpc"], real=False), run.name, run.agent)
        eventually(lambda: after.state == "SUCCESS", 40)
    finally:
        agent.stop.set()
        thread.join(10)
        second.terminate()
        assert second.wait(20) == 0


def test_a_killed_stand_in_goes_on_where_it_was(place: Place, tmp_path: Path) -> None:
    if place.real:
        pytest.skip("the real one is not ours to kill")
    first, ready = started(tmp_path)
    try:
        before = Place(Path(ready["kubeconfig"]), ready["grpc"], real=False)
        run = before.workflow()
        action = run.take()
        eventually(lambda: "currentState" in run.status)
    finally:
        os.kill(first.pid, signal.SIGKILL)
        first.wait()
    kube_port, grpc_port = ready["api"].rsplit(":", 1)[1], ready["grpc"].rsplit(":", 1)[1]

    second, again = started(tmp_path, "--kube-port", kube_port, "--grpc-port", grpc_port)
    try:
        assert (again["api"], again["grpc"]) == (ready["api"], ready["grpc"])
        after = Place(Path(again["kubeconfig"]), again["grpc"], real=False)
        assert Run(after, run.name, run.agent).take()["action_id"] == action["action_id"]
        api = Api(after.configuration, NAMESPACE, timeout=5)
        assert api.get(WORKFLOWS, run.name) is not None
    finally:
        second.terminate()
        assert second.wait(20) == 0
