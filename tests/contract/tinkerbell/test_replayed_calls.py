"""Recorded calls of a real server, made again: the same codes, bodies and warnings must come."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.contract.tinkerbell.place import Place

_CHANGING = {"uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields", "continue"}
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_BEYOND_THE_STAND_IN = {
    "29-api-group-discovery",
    "30-bmc-api-group-discovery",
    "31-version",
    "12-table",
}


def stable(value: Any) -> Any:
    """Return a body without what differs from run to run."""
    if isinstance(value, dict):
        return {key: stable(inner) for key, inner in value.items() if key not in _CHANGING}
    if isinstance(value, list):
        return [stable(item) for item in value]
    if isinstance(value, str):
        return re.sub(r"\((\d+)\)|current: \d+", "(N)", _UUID.sub("UID", value))
    return value


class Replay:
    """Makes recorded calls again, with the versions and uids of this server in place of the recorded ones."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.known: dict[str, str] = {}

    def translated(self, text: str) -> str:
        for recorded, present in self.known.items():
            text = text.replace(f'"{recorded}"', f'"{present}"')
        return text

    def make(self, call: dict[str, Any]) -> None:
        request = call["request"]
        body = request.get("body")
        if body is not None and not isinstance(body, str):
            body = json.loads(self.translated(json.dumps(body)))
        reply = self.place.call(
            request["method"],
            request["path"],
            body,
            content_type=request.get("contentType"),
            anonymous=request.get("credentials") == "none",
        )
        assert reply.status == call["status"], (request, reply.body)
        assert stable(reply.body) == stable(call["reply"])
        assert [reply.headers.get("Warning")] == call.get("warningHeaders", [None])
        if isinstance(reply.body, dict) and "uid" in reply.body.get("metadata", {}):
            for key in ("uid", "resourceVersion"):
                self.known[call["reply"]["metadata"].get(key, "")] = reply.body["metadata"].get(key, "")


@pytest.fixture(autouse=True)
def no_leftovers(place: Place) -> None:
    """The recorded names are fixed: what an earlier test left under them goes first."""
    for path in ("hardware/hw-conf", "hardware/hw-val-ok"):
        place.call("DELETE", f"/apis/tinkerbell.org/v1alpha1/namespaces/default/{path}")


def calls(folder: Path) -> list[tuple[str, dict[str, Any]]]:
    read = [(path.stem, json.loads(path.read_text())) for path in sorted(folder.glob("*.json"))]
    return [(name, call) for name, call in read if isinstance(call, dict) and isinstance(call.get("request"), dict)]


def test_validation_answers_as_recorded(place: Place, traces: Path) -> None:
    replay = Replay(place)
    made = calls(traces / "08-hardware-validation")
    patched = next(call for name, call in made if name == "24-patch-to-invalid")
    ok = next(call for name, call in made if name == "13-no-spec")["request"]
    place.call("POST", ok["path"], ok["body"] | {"metadata": {"name": patched["request"]["path"].rsplit("/", 1)[1]}})
    for name, call in made:
        if name not in _BEYOND_THE_STAND_IN:
            replay.make(call)
    assert len(made) > 30


def test_conflicts_and_finalizers_answer_as_recorded(place: Place, traces: Path) -> None:
    replay = Replay(place)
    made = calls(traces / "09-conflicts")
    for name, call in made:
        if name.startswith("10-"):  # generateName: another name each time
            continue
        if name.startswith("17-"):
            holder = {"metadata": {"finalizers": ["fleet.example/hold"]}}
            place.call("PATCH", call["request"]["path"], holder, content_type="application/merge-patch+json")
        replay.make(call)
    assert len(made) > 15


def test_lists_answer_as_recorded_where_no_other_objects_matter(place: Place, traces: Path) -> None:
    replay = Replay(place)
    made = [call for name, call in calls(traces / "14-lists") if "selector" in name and call["status"] == 400]
    for call in made:
        replay.make(call)
    assert len(made) == 3


def test_deletes_of_nothing_answer_as_recorded(place: Place, traces: Path) -> None:
    call = json.loads((traces / "07-delete-running" / "12-delete-absent.json").read_text())
    Replay(place).make(call)


def test_a_bad_boot_mode_answers_as_recorded(place: Place, traces: Path) -> None:
    call = json.loads((traces / "05-invalid-template" / "14-workflow-bad-bootMode.json").read_text())
    Replay(place).make(call)
