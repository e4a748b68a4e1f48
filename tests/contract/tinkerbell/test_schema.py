"""The stand-in's reduced schema against the real CRDs, where they are here: both must judge the same objects alike."""

import copy
import json
from typing import Any
from uuid import UUID

import jsonschema
import pytest
import yaml

from fleet_lab.tinkerbell.kinds import HARDWARE, JOB, KINDS, MACHINE, SECRET, TASK, TEMPLATE, WORKFLOW, Kind
from fleet_lab.tinkerbell.schema import fill_defaults, prune, violations
from fleetd.core.names import MacAddress, MachineId, RunId
from fleetd.ports import HardwareWanted, Part, PowerStep
from fleetd.tinkerbell.hardware import merged
from fleetd.tinkerbell.names import job_name, workflow_name
from fleetd.tinkerbell.power import _ACTIONS, connection
from tests.conftest import CHECKOUT, SHARED

CRDS = SHARED / "tinkerbell" / "crds"
TRACES = SHARED / "tinkerbell" / "traces"
RUN = RunId(UUID(int=7))


def ours() -> list[tuple[Kind, dict[str, Any]]]:
    """Return every kind of object that fleetd writes."""
    wanted = HardwareWanted(
        MachineId(7), "node", (MacAddress("52:54:00:00:00:01"),), ("192.0.2.7/24",), "192.0.2.1", True, True
    )
    reference = {"name": "fleet-7", "namespace": "tinkerbell"}
    steps = [_ACTIONS[step] for step in PowerStep]
    values = {"device_1": "fleet-7"}
    return [
        (HARDWARE, {"spec": merged({"metadata": {}, "spec": {}}, wanted)["spec"]}),
        (TEMPLATE, {"spec": {"data": (CHECKOUT / "workflows" / "attest.yaml").read_text()}}),
        (WORKFLOW, {"spec": {"templateRef": "attest-1", "hardwareRef": "fleet-7", "hardwareMap": values}}),
        (MACHINE, {"spec": {"connection": connection("192.0.2.9:8443", "secret", "tinkerbell")}}),
        (JOB, {"spec": {"machineRef": reference, "tasks": steps}}),
    ]


def recorded() -> list[tuple[Kind, dict[str, Any]]]:
    """Return the bodies of all recorded creates, good and bad."""
    found = []
    for path in sorted(TRACES.glob("*/*.json")):
        call = json.loads(path.read_text())
        request = call.get("request") if isinstance(call, dict) else None
        if not isinstance(request, dict) or request.get("method") != "POST":
            continue
        body = request["body"]
        kind = next((k for k in KINDS if isinstance(body, dict) and k.name == body.get("kind")), None)
        if kind is not None and kind is not SECRET and f"/{kind.plural}" in request["path"]:
            found.append((kind, {key: body[key] for key in ("spec",) if key in body}))
    return found


def spoilt(item: dict[str, Any]) -> list[dict[str, Any]]:
    """Return copies of an object, each with one value of the wrong type or one key gone."""
    results = []

    def walk(value: Any, path: list[Any]) -> None:
        if path:
            for wrong in (7, "text", True, [], {}):
                results.append(changed(path, wrong))
            results.append(changed(path, None))
        if isinstance(value, dict):
            for key in value:
                walk(value[key], [*path, key])
        if isinstance(value, list):
            for index, inner in enumerate(value):
                walk(inner, [*path, index])

    def changed(path: list[Any], value: Any) -> dict[str, Any]:
        result = copy.deepcopy(item)
        parent: Any = result
        for step in path[:-1]:
            parent = parent[step]
        if value is None:
            del parent[path[-1]]
        else:
            parent[path[-1]] = value
        return result

    walk(item, [])
    return results


@pytest.fixture
def crds() -> dict[str, dict[str, Any]]:
    if not CRDS.is_dir():
        pytest.skip("the real schemas are not here")
    read = [yaml.safe_load(path.read_text()) for path in sorted(CRDS.glob("*.yaml"))]
    return {
        crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for crd in read if crd
    }


def accepted_by_crd(schema: dict[str, Any], item: dict[str, Any]) -> bool:
    return jsonschema.Draft202012Validator(schema).is_valid(item)


def accepted_here(kind: Kind, item: dict[str, Any]) -> bool:
    kept = copy.deepcopy(item)
    list(prune(kind.shape, kept, ""))
    fill_defaults(kind.shape, kept)
    return not list(violations(kind.shape, kept, ""))


def unknown_to_crd(schema: dict[str, Any], value: Any, path: str = "") -> list[str]:
    """Return the paths that the real API would drop."""
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in unknown_to_crd(schema.get("items", {}), v, f"{path}[{i}]")]
    if not isinstance(value, dict) or schema.get("type") != "object":
        return []
    known, free = schema.get("properties", {}), schema.get("additionalProperties")
    lost = []
    for key, inner in value.items():
        below = f"{path}.{key}" if path else key
        if key in known:
            lost += unknown_to_crd(known[key], inner, below)
        elif isinstance(free, dict):
            lost += unknown_to_crd(free, inner, below)
        else:
            lost.append(below)
    return lost


def test_everything_that_fleetd_writes_is_kept_and_valid() -> None:
    for kind, item in ours():
        assert list(prune(kind.shape, copy.deepcopy(item), "")) == []
        assert list(violations(kind.shape, item, "")) == []


def test_everything_that_fleetd_writes_is_kept_and_valid_by_the_real_schemas(crds: dict[str, Any]) -> None:
    for kind, item in ours():
        assert unknown_to_crd(crds[kind.name], item) == []
        assert accepted_by_crd(crds[kind.name], item)


def test_spoilt_objects_are_judged_as_by_the_real_schemas(crds: dict[str, Any]) -> None:
    checked = 0
    for kind, item in ours():
        for bad in spoilt(item):
            expected = accepted_by_crd(crds[kind.name], bad)
            assert accepted_here(kind, bad) == expected, (kind.name, bad)
            checked += 1
    assert checked > 300


def test_recorded_objects_are_judged_as_by_the_real_schemas(crds: dict[str, Any]) -> None:
    checked = 0
    for kind, item in recorded():
        assert accepted_here(kind, item) == accepted_by_crd(crds[kind.name], item), (kind.name, item)
        checked += 1
    assert checked > 40


def test_the_reduced_schema_names_no_field_that_the_real_one_lacks(crds: dict[str, Any]) -> None:
    def compare(shape: Any, schema: dict[str, Any], path: str) -> None:
        assert schema.get("type") == shape.type, path
        assert tuple(schema.get("required", ())) == shape.required, path
        assert tuple(schema.get("enum", ())) == shape.enum, path
        assert schema.get("pattern") == shape.pattern, path
        assert schema.get("default") == shape.default, path
        for key, inner in shape.fields.items():
            assert key in schema["properties"], f"{path}.{key}"
            compare(inner, schema["properties"][key], f"{path}.{key}")
        if shape.items is not None:
            compare(shape.items, schema["items"], f"{path}[]")
        if shape.values is not None:
            compare(shape.values, schema["additionalProperties"], f"{path}{{}}")

    for kind in (HARDWARE, TEMPLATE, WORKFLOW, MACHINE, JOB, TASK):
        for part in ("spec", "status"):
            compare(kind.shape.fields[part], crds[kind.name]["properties"][part], f"{kind.name}.{part}")


def test_names_stay_within_what_rufio_can_label() -> None:
    assert len(workflow_name(RUN, Part.DISK)) == 34
    assert len(job_name(RUN, "handover-12")) <= 56
    with pytest.raises(ValueError, match="too long"):
        job_name(RUN, "x" * 30)
