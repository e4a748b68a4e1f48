"""Calls of a run: only under the session of its own enrollment, each counter once."""

import uuid

from sqlalchemy import select

from fleetd.core.lifecycle import states
from fleetd.store.events import EventRow


def leave(machine, run, serial="LAB0001", action="erase"):
    return machine.call("POST", f"/v1/runs/{run}/leave", {"action": action, "disk_serial": serial})


def event(machine, run, seq=1, **changes):
    body = {"seq": seq, "action": "erase", "kind": "started", **changes}
    return machine.call("POST", f"/v1/runs/{run}/events", body)


def test_a_leave_names_run_action_and_disk_and_when_it_must_be_used(service):
    machine, run = service.enrolled()
    service.move(run, states.Erasing)

    answer = leave(machine, run)

    payload = machine.opened(answer, "fleet-leave+jwt")
    assert (payload["run"], payload["action"], payload["disk_serial"]) == (str(run), "erase", "LAB0001")
    assert payload["issued"] == "2026-06-01T12:00:00.000Z"
    assert payload["start_before"] == "2026-06-01T12:05:00.000Z"


def test_no_leave_for_another_disk(service):
    machine, run = service.enrolled()
    service.move(run, states.Erasing)

    answer = leave(machine, run, "OTHER")

    assert answer.status_code == 409
    assert answer.json()["stop"] is True


def test_no_leave_before_the_run_has_come_to_its_disk(service):
    machine, run = service.enrolled()

    answer = leave(machine, run)

    assert answer.status_code == 409
    assert answer.json()["stop"] is False
    assert answer.headers["retry-after"]


def test_no_leave_when_the_disk_was_changed_in_netbox_meanwhile(service):
    from dataclasses import replace

    from fleetd.core.declaration import Disk
    from fleetd.core.names import DiskSerial

    machine, run = service.enrolled()
    service.move(run, states.Erasing)
    service.declared.records[7] = replace(service.declared.records[7], disk=Disk(DiskSerial("other")))

    assert leave(machine, run).status_code == 409


def test_a_counter_that_was_used_is_refused(service):
    machine, run = service.enrolled()
    assert event(machine, run, 1).status_code == 204
    machine.counter -= 1

    assert event(machine, run, 2).status_code == 401


def test_a_counter_may_skip_but_never_go_back(service):
    machine, run = service.enrolled()
    machine.counter = 100
    assert event(machine, run, 1).status_code == 204
    machine.counter = 50

    assert event(machine, run, 2).status_code == 401


def test_the_enrollment_of_another_machine_is_refused(service):
    machine, run = service.enrolled(7)
    other, other_run = service.enrolled(8)
    machine.enrollment = other.enrollment

    assert event(machine, run).status_code == 401
    assert event(machine, other_run).status_code == 401


def test_a_session_does_not_serve_for_another_run(service):
    machine, _ = service.enrolled(7)
    _, other_run = service.enrolled(8)

    assert event(machine, other_run).status_code == 401


def test_a_body_changed_on_the_way_is_refused(service):
    machine, run = service.enrolled()
    path = f"/v1/runs/{run}/events"
    request = {}
    client = machine.client
    machine.client = type("Tap", (), {"request": lambda _, *a, **k: request.update(k) or client.get("/healthz")})()
    machine.call("POST", path, {"seq": 1, "action": "erase", "kind": "started"})

    body = request["content"].replace(b"started", b"finished")
    answer = client.post(path, content=body, headers=request["headers"])

    assert answer.status_code == 401


def test_calls_without_a_session_are_refused_alike(service):
    _, run = service.enrolled()
    path = f"/v1/runs/{run}/events"
    answers = [
        service.client.post(path, json={}),
        service.client.post(path, json={}, headers={"Fleet-Enrollment": "x", "Fleet-Counter": "1", "Fleet-MAC": "0"}),
        service.client.post(
            path,
            json={},
            headers={"Fleet-Enrollment": str(uuid.uuid4()), "Fleet-Counter": "1", "Fleet-MAC": "0" * 64},
        ),
        service.client.post(path, json={}, headers={"Fleet-Counter": "9" * 5000}),
    ]

    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.content for answer in answers}) == 1


def test_an_event_is_recorded_once(service):
    machine, run = service.enrolled()
    assert event(machine, run, 1, percent=12.5, message="begun\x00", data={"a": ["\x00"]}).status_code == 204
    assert event(machine, run, 1, percent=99).status_code == 204

    with service.sessions() as session:
        row = session.scalars(select(EventRow)).one()
    assert (row.percent, row.kind) == (12.5, "started")


def test_events_that_make_no_sense_are_problems(service):
    machine, run = service.enrolled()

    for changes in ({"kind": "no"}, {"percent": 101}, {"seq": -1}, {"action": "Rm -rf"}, {"data": []}):
        assert event(machine, run, **{"seq": 1, **changes}).status_code == 400


def test_a_machine_asks_whether_it_may_reboot(service):
    machine, run = service.enrolled()

    answer = machine.call("GET", f"/v1/runs/{run}/reboot")

    assert answer.json() == {"reboot": False}
