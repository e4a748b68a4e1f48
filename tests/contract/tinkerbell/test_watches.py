"""Watches and lists of the API, and the reflector that fleetd builds on them."""

import json
import threading
import uuid
from collections.abc import Iterator
from queue import Empty, Queue
from typing import Any

import pytest

from fleet_lab.tinkerbell.api import FAULTS_PATH
from fleetd.core.names import MachineId
from fleetd.tinkerbell.api import WORKFLOWS, Api
from fleetd.tinkerbell.reflector import Reflector, watch
from tests.contract.tinkerbell.place import MERGE, NAMESPACE, TINK, Place, eventually


def version(place: Place) -> str:
    return place.call("GET", f"{TINK}/hardware?limit=1").body["metadata"]["resourceVersion"]


def hardware(place: Place, **labels: str) -> str:
    name = f"w-{uuid.uuid4().hex[:8]}"
    place.create(TINK, "Hardware", name, {"agentID": name}, labels)
    return name


def types_of(lines: list[dict[str, Any]], name: str) -> list[str]:
    return [line["type"] for line in lines if line["object"].get("metadata", {}).get("name") == name]


def test_a_label_selector_turns_label_changes_into_deletes_and_adds(place: Place) -> None:
    path = f"{TINK}/hardware?watch=true&resourceVersion={version(place)}&labelSelector=fleet%2Fwatch%3Dyes"
    with place.watching(path) as lines:
        name = hardware(place, **{"fleet/watch": "yes"})
        for value in ("no", "yes"):
            change = {"metadata": {"labels": {"fleet/watch": value}}}
            place.call("PATCH", f"{TINK}/hardware/{name}", change, content_type=MERGE)
        place.call("DELETE", f"{TINK}/hardware/{name}")
        eventually(lambda: len(lines) >= 4)
    assert types_of(lines, name) == ["ADDED", "DELETED", "ADDED", "DELETED"]


def test_a_watch_from_an_old_version_is_one_error_line(place: Place) -> None:
    with place.watching(f"{TINK}/hardware?watch=true&resourceVersion=1&timeoutSeconds=4") as lines:
        eventually(lambda: lines)
    assert [line["type"] for line in lines] == ["ERROR"]
    assert (lines[0]["object"]["reason"], lines[0]["object"]["code"]) == ("Expired", 410)


@pytest.mark.parametrize("start", ["", "&resourceVersion=0"])
def test_a_watch_without_a_version_begins_with_what_is_there(place: Place, start: str) -> None:
    name = hardware(place)
    with place.watching(f"{TINK}/hardware?watch=true&timeoutSeconds=4{start}") as lines:
        eventually(lambda: types_of(lines, name))
    assert types_of(lines, name) == ["ADDED"]


def test_initial_events_end_with_a_bookmark_that_says_so(place: Place) -> None:
    name = hardware(place)
    path = f"{TINK}/hardware?watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"
    with place.watching(f"{path}&allowWatchBookmarks=true&timeoutSeconds=4") as lines:
        eventually(lambda: any(line["type"] == "BOOKMARK" for line in lines))
    assert types_of(lines, name) == ["ADDED"]
    marks = [line for line in lines if line["type"] == "BOOKMARK"]
    assert marks[0]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_watch_from_the_future_is_silent_and_a_list_from_there_is_504(place: Place) -> None:
    with place.watching(f"{TINK}/hardware?watch=true&resourceVersion=99999999&timeoutSeconds=1") as lines:
        hardware(place)
        place.call("GET", f"{TINK}/hardware")
        threading.Event().wait(0.3)
    assert lines == []
    reply = place.call("GET", f"{TINK}/hardware?resourceVersion=99999999")
    assert (reply.status, reply.reason, reply.headers["Retry-After"]) == (504, "Timeout", "1")


def test_a_version_that_is_no_number_is_500(place: Place) -> None:
    assert place.call("GET", f"{TINK}/hardware?watch=true&resourceVersion=abc&timeoutSeconds=1").status == 500


def test_bookmarks_come_near_the_end_of_a_watch(place: Place) -> None:
    path = f"{TINK}/hardware?watch=true&resourceVersion={version(place)}&labelSelector=fleet%2Fwatch%3Dnever"
    with place.watching(f"{path}&allowWatchBookmarks=true&timeoutSeconds=4") as lines:
        eventually(lambda: len(lines) >= 1)
    assert {line["type"] for line in lines} == {"BOOKMARK"}
    assert set(lines[0]["object"]["metadata"]) == {"resourceVersion"}


def test_pages_show_one_snapshot(place: Place) -> None:
    label = uuid.uuid4().hex[:8]
    names = sorted(hardware(place, **{"fleet/page": label}) for _ in range(7))
    path = f"{TINK}/hardware?labelSelector=fleet%2Fpage%3D{label}&limit=3"
    first = place.call("GET", path).body
    place.call("DELETE", f"{TINK}/hardware/{names[3]}")
    place.call("PATCH", f"{TINK}/hardware/{names[4]}", {"spec": {"agentID": "late"}}, content_type=MERGE)
    second = place.call("GET", f"{path}&continue={first['metadata']['continue']}").body
    third = place.call("GET", f"{path}&continue={second['metadata']['continue']}").body

    items = [item for page in (first, second, third) for item in page["items"]]
    assert [item["metadata"]["name"] for item in items] == names
    assert "late" not in {item["spec"]["agentID"] for item in items}
    assert third["metadata"]["continue"] == ""


def test_a_whole_collection_is_deleted_by_its_label(place: Place) -> None:
    label = uuid.uuid4().hex[:8]
    for _ in range(3):
        hardware(place, **{"fleet/page": label})
    other = hardware(place)
    path = f"{TINK}/hardware?labelSelector=fleet%2Fpage%3D{label}"
    assert len(place.call("DELETE", path).body["items"]) == 3
    assert place.call("GET", path).body["items"] == []
    assert place.call("GET", f"{TINK}/hardware/{other}").status == 200


# --- fleetd's reflector ----------------------------------------------------------------------------------------------


@pytest.fixture
def api(place: Place) -> Api:
    return Api(place.configuration, NAMESPACE, timeout=5)


@pytest.fixture
def woken(api: Api) -> Iterator[Queue[MachineId]]:
    queue: Queue[MachineId] = Queue()
    reflector = Reflector(api, WORKFLOWS, queue.put)
    thread = threading.Thread(target=reflector.run, daemon=True)
    thread.start()
    eventually(lambda: reflector._response is not None)
    yield queue
    reflector.close()
    thread.join(10)
    assert not thread.is_alive()


def a_workflow(place: Place, machine: int) -> str:
    name = f"r-{uuid.uuid4().hex[:8]}"
    place.create(TINK, "Workflow", name, {"templateRef": "none"}, {"fleet/machine": str(machine)})
    return name


def waited_for(queue: Queue[MachineId], machine: int) -> bool:
    while True:
        try:
            if queue.get(timeout=5) == machine:
                return True
        except Empty:
            return False


def test_a_change_wakes_its_machine(place: Place, woken: Queue[MachineId]) -> None:
    machine = uuid.uuid4().int % 10**9
    name = a_workflow(place, machine)
    assert waited_for(woken, machine)
    place.call("DELETE", f"{TINK}/workflows/{name}")
    assert waited_for(woken, machine)


def test_a_list_finds_what_the_watch_never_told(place: Place, api: Api) -> None:
    queue: Queue[MachineId] = Queue()
    reflector = Reflector(api, WORKFLOWS, queue.put)
    reflector.relist()
    machine = uuid.uuid4().int % 10**9
    name = a_workflow(place, machine)
    reflector.relist()
    assert waited_for(queue, machine)
    place.call("DELETE", f"{TINK}/workflows/{name}")
    reflector.relist()
    assert waited_for(queue, machine)


def test_a_watch_that_expired_is_followed_by_a_list(place: Place, api: Api) -> None:
    queue: Queue[MachineId] = Queue()
    reflector = Reflector(api, WORKFLOWS, queue.put, relist_every=300)
    reflector.relist()
    reflector._version = "1"
    machine = uuid.uuid4().int % 10**9
    thread = threading.Thread(target=reflector._watch_for_ever, daemon=True)
    thread.start()
    a_workflow(place, machine)
    assert waited_for(queue, machine)
    reflector.close()
    thread.join(10)


@pytest.mark.parametrize(
    "page", ["<html>Back soon.</html>", '{"metadata": {}}', '{"metadata": {"resourceVersion": "1"}}']
)
@pytest.mark.parametrize("code", [200, 404])
def test_pages_in_place_of_lists_are_waited_out(place: Place, api: Api, code: int, page: str) -> None:
    if place.real:
        pytest.skip("faults are ordered from the stand-in only")
    queue: Queue[MachineId] = Queue()
    machine = uuid.uuid4().int % 10**9
    a_workflow(place, machine)
    fault = {"code": code, "page": page, "count": 8, "path": "/workflows"}
    assert place.call("POST", FAULTS_PATH, [fault]).status == 200
    quick = Api(place.configuration, NAMESPACE, timeout=5, sleep=lambda _: None)
    reflector = Reflector(quick, WORKFLOWS, queue.put)
    thread = threading.Thread(target=reflector.run, daemon=True)
    thread.start()
    assert waited_for(queue, machine)
    reflector.close()
    thread.join(10)


def test_watching_everything_ends_when_told(api: Api) -> None:
    stop = threading.Event()
    thread = threading.Thread(target=watch, args=(api, lambda _: None, stop), daemon=True)
    thread.start()
    threading.Event().wait(0.5)
    stop.set()
    thread.join(15)
    assert not thread.is_alive()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/hardware", []),
        ("POST", "/hardware", {"metadata": []}),
        ("POST", "/hardware", {"metadata": {"name": 7}}),
        ("POST", "/hardware", {"metadata": {"name": "x", "labels": ["a"]}}),
        ("POST", "/hardware", "{"),
        ("PUT", "/hardware/w-garbage", {"metadata": {"resourceVersion": "1"}}),
        ("PATCH", "/hardware/w-garbage", []),
        ("GET", "/hardware?limit=x", None),
        ("GET", "/hardware?continue=x", None),
    ],
)
def test_garbage_is_refused_by_a_4xx(place: Place, method: str, path: str, body: Any) -> None:
    place.create(TINK, "Hardware", "w-garbage", {})
    reply = place.call(method, TINK + path, body, content_type=MERGE if method == "PATCH" else None)
    assert 400 <= reply.status < 500
    assert reply.body["kind"] == "Status"


def test_warnings_name_the_dropped_field(place: Place) -> None:
    body = {
        "apiVersion": "tinkerbell.org/v1alpha1",
        "kind": "Hardware",
        "metadata": {"name": f"w-{uuid.uuid4().hex[:8]}"},
        "spec": {"interfaces": [{"dhcp": {"nonsense": 1}}]},
    }
    reply = place.call("POST", f"{TINK}/hardware", body)
    assert reply.status == 201
    assert json.loads(reply.headers["Warning"].removeprefix("299 - ")) == (
        'unknown field "spec.interfaces[0].dhcp.nonsense"'
    )
    assert reply.body["spec"]["interfaces"][0]["dhcp"] == {}
