"""The rules of the API for single objects, with cases of our own: they need no recordings."""

import copy
import uuid
from typing import Any

import pytest

from tests.contract.tinkerbell.place import BMC, MERGE, TINK, Place


def body(name: str | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tinkerbell.org/v1alpha1",
        "kind": "Hardware",
        "metadata": {"name": name or f"o-{uuid.uuid4().hex[:8]}"},
        "spec": spec,
    }


def created(place: Place, **spec: Any) -> tuple[str, dict[str, Any]]:
    made = body(**spec)
    reply = place.call("POST", f"{TINK}/hardware", made)
    assert reply.status == 201, reply.body
    return f"{TINK}/hardware/{made['metadata']['name']}", reply.body


def interfaces(mac: str) -> list[dict[str, Any]]:
    return [{"dhcp": {"mac": mac}}]


def test_the_default_of_an_interface_is_filled_in(place: Place) -> None:
    _, item = created(place, interfaces=interfaces("52:54:00:00:00:01"))
    assert item["spec"]["interfaces"][0]["disableDhcp"] is False


def test_an_upper_case_mac_is_invalid_and_garbage_around_one_is_not(place: Place) -> None:
    reply = place.call("POST", f"{TINK}/hardware", body(interfaces=interfaces("52:54:00:BB:00:01")))
    assert (reply.status, reply.reason) == (422, "Invalid")
    assert reply.body["details"]["causes"][0]["field"] == "spec.interfaces[0].dhcp.mac"
    created(place, interfaces=interfaces("zz52:54:00:bb:00:01zz"))


def test_an_unknown_field_is_dropped_unless_strictness_is_asked_for(place: Place) -> None:
    _, item = created(place, serialNumber="S1")
    assert item["spec"] == {}
    reply = place.call("POST", f"{TINK}/hardware?fieldValidation=Strict", body(serialNumber="S1"))
    assert (reply.status, reply.reason) == (400, "BadRequest")
    assert 'unknown field "spec.serialNumber"' in reply.body["message"]


def test_two_hardware_may_hold_one_mac(place: Place) -> None:
    for _ in range(2):
        created(place, interfaces=interfaces("52:54:00:00:00:77"))


def test_409_means_already_exists_for_a_create_and_conflict_for_a_stale_write(place: Place) -> None:
    path, item = created(place)
    again = place.call("POST", f"{TINK}/hardware", body(item["metadata"]["name"]))
    assert (again.status, again.reason) == (409, "AlreadyExists")
    changed = copy.deepcopy(item) | {"spec": {"agentID": "new"}}
    assert place.call("PUT", path, changed).status == 200
    stale = place.call("PUT", path, changed)
    assert (stale.status, stale.reason) == (409, "Conflict")
    patch = {"metadata": {"resourceVersion": item["metadata"]["resourceVersion"], "labels": {"x": "y"}}}
    assert place.call("PATCH", path, patch, content_type=MERGE).reason == "Conflict"


def test_a_put_needs_a_resource_version(place: Place) -> None:
    path, item = created(place)
    del item["metadata"]["resourceVersion"]
    assert place.call("PUT", path, item).status == 422


def test_a_write_that_changes_nothing_keeps_the_version(place: Place) -> None:
    path, item = created(place)
    assert place.call("PUT", path, item).body["metadata"]["resourceVersion"] == item["metadata"]["resourceVersion"]


def test_the_generation_counts_changes_of_the_spec_only(place: Place) -> None:
    path, _ = created(place)
    labels = place.call("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE).body
    assert labels["metadata"]["generation"] == 1
    spec = place.call("PATCH", path, {"spec": {"agentID": "x"}}, content_type=MERGE).body
    assert spec["metadata"]["generation"] == 2


def test_status_is_written_through_its_subresource_only(place: Place) -> None:
    path, _ = created(place)
    state = {"status": {"state": "x"}}
    assert "status" not in place.call("PATCH", path, state, content_type=MERGE).body
    through = place.call("PATCH", f"{path}/status", state | {"spec": {"agentID": "y"}}, content_type=MERGE).body
    assert through["status"] == {"state": "x"}
    assert through["spec"] == {}
    assert place.call("PATCH", path, {"spec": {"agentID": "z"}}, content_type=MERGE).body["status"] == {"state": "x"}


def test_a_delete_honours_its_preconditions(place: Place) -> None:
    path, item = created(place)
    for wrong in ({"uid": str(uuid.UUID(int=0))}, {"resourceVersion": "1"}):
        reply = place.call("DELETE", path, {"preconditions": wrong})
        assert (reply.status, reply.reason) == (409, "Conflict")
    reply = place.call("DELETE", path, {"preconditions": {"uid": item["metadata"]["uid"]}})
    assert reply.body["details"]["uid"] == item["metadata"]["uid"]
    assert place.call("DELETE", path).status == 404


def test_a_finalizer_keeps_an_object_until_it_is_taken_off(place: Place) -> None:
    path, _ = created(place)
    place.call("PATCH", path, {"metadata": {"finalizers": ["fleet.example/hold"]}}, content_type=MERGE)
    place.call("DELETE", path)
    assert "deletionTimestamp" in place.call("GET", path).body["metadata"]
    place.call("PATCH", path, {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert place.call("GET", path).status == 404


def test_a_dry_run_leaves_nothing(place: Place) -> None:
    made = body()
    assert place.call("POST", f"{TINK}/hardware?dryRun=All", made).status == 201
    assert place.call("GET", f"{TINK}/hardware/{made['metadata']['name']}").status == 404


def test_without_credentials_nothing_is_told(place: Place) -> None:
    assert place.call("GET", f"{TINK}/hardware", anonymous=True).status == 401


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"machineRef": {"name": "m", "namespace": "n"}, "tasks": []}, "spec.tasks"),
        ({"machineRef": {"name": "m"}, "tasks": [{"powerAction": "on"}]}, "spec.machineRef.namespace"),
        (
            {"machineRef": {"name": "m", "namespace": "n"}, "tasks": [{"powerAction": "up"}]},
            "spec.tasks[0].powerAction",
        ),
    ],
)
def test_a_job_must_be_whole(place: Place, spec: dict[str, Any], field: str) -> None:
    made = body() | {"apiVersion": "bmc.tinkerbell.org/v1alpha1", "kind": "Job", "spec": spec}
    reply = place.call("POST", f"{BMC}/jobs", made)
    assert reply.status == 422
    assert [cause["field"] for cause in reply.body["details"]["causes"]] == [field]


def test_a_machine_must_say_whether_it_trusts_its_bmc(place: Place) -> None:
    made = body() | {"apiVersion": "bmc.tinkerbell.org/v1alpha1", "kind": "Machine"}
    reply = place.call("POST", f"{BMC}/machines", made | {"spec": {"connection": {"host": "h"}}})
    assert [cause["field"] for cause in reply.body["details"]["causes"]] == ["spec.connection.insecureTLS"]
