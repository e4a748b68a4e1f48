"""JSON merge patch (RFC 7396) and JSON patch (RFC 6902, the operations in use)."""

import copy
from typing import Any

from fleet_lab.tinkerbell.status import ApiError, bad_request


def merge(target: Any, patch: Any) -> Any:
    """Return the target with a merge patch applied; null removes a key."""
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge(result.get(key), value)
    return result


def apply(target: Any, operations: Any) -> Any:
    """Return the target with a JSON patch applied.

    Raises ApiError 400 when an operation is malformed, 422 when a test fails or a path is missing.
    """
    if not isinstance(operations, list):
        raise bad_request("json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    result = copy.deepcopy(target)
    for operation in operations:
        try:
            _apply_one(result, operation)
        except (KeyError, IndexError, ValueError, TypeError) as error:
            raise _refused() from error
    return result


def _apply_one(document: Any, operation: dict[str, Any]) -> None:
    steps = [step.replace("~1", "/").replace("~0", "~") for step in operation["path"].split("/")[1:]]
    parent = document
    for step in steps[:-1]:
        parent = parent[int(step)] if isinstance(parent, list) else parent[step]
    last: Any = steps[-1]
    if isinstance(parent, list):
        last = len(parent) if last == "-" else int(last)
    match operation["op"]:
        case "test":
            if parent[last] != operation["value"]:
                raise ValueError("test failed")
        case "add" if isinstance(parent, list):
            parent.insert(last, operation["value"])
        case "add":
            parent[last] = operation["value"]
        case "replace":
            _ = parent[last]
            parent[last] = operation["value"]
        case "remove":
            del parent[last]
        case other:
            raise ValueError(f"unknown operation {other}")


def _refused() -> ApiError:
    return ApiError(422, "Invalid", "the server rejected our request due to an error in our request", {})
