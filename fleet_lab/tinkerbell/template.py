"""A rendered workflow template: its YAML, the rules it must satisfy, and the status it becomes."""

import os
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from fleet_lab.tinkerbell import gotemplate
from fleet_lab.tinkerbell.store import Json

LONGEST_NAME = 200
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_HOST = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9-]+)*(?::\d+)?"
_PATH = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
_IMAGE = re.compile(rf"^(?:{_HOST}/)?{_PATH}(?::[\w][\w.-]{{0,127}})?(?:@sha256:[0-9a-f]{{64}})?$")


class RenderError(Exception):
    """A Template does not become a Workflow; the text goes into the TemplateRenderedSuccess condition."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What a Template became: status.tasks and the global timeout (seconds, 0 when none)."""

    tasks: list[Json]
    global_timeout: int


def render(workflow: str, source: str, hardware: Json | None, values: Mapping[str, str]) -> Rendered:
    """Render a Template for a Workflow. Raises RenderError."""
    data: dict[str, Any] = dict(values)
    spec = (hardware or {}).get("spec", {})
    if hardware is not None:
        data["Hardware"] = {"Disks": [disk.get("device", "") for disk in spec.get("disks", [])]}
        data["Hardware"] |= {"Interfaces": spec.get("interfaces", []), "Metadata": spec.get("metadata", {})}
        data["hardware"] = hardware
    try:
        text = gotemplate.render(source, data)
    except gotemplate.TemplateError as error:
        raise RenderError(
            f"error rendering template: failed to parse template with ID {workflow}: err: {error}"
        ) from error
    document = _document(text)
    tasks = document.get("tasks") or []
    _check(document, tasks)
    for task in tasks:
        if not task.get("worker"):
            raise RenderError(_empty_worker(data))
    return Rendered([_task_status(task) for task in tasks], _seconds(document.get("global_timeout")))


def _document(text: str) -> Json:
    try:
        read = yaml.load(text, Loader=yaml.BaseLoader) or {}  # noqa: S506 - it makes strings, lists and dicts only
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error)
        problem = re.sub(r"^found character '.*' that", "found character that", problem)
        line = mark.line + 1 if mark is not None else 0
        raise RenderError(
            f"error rendering template: parsing yaml data: err: yaml: line {line}: {problem}, content: {text}"
        ) from error
    if not isinstance(read, dict):
        raise RenderError(
            "error rendering template: parsing yaml data: err: yaml: unmarshal errors: cannot unmarshal into "
            f"workflow.Workflow, content: {text}"
        )
    return read


def _check(document: Json, tasks: list[Json]) -> None:
    name = document.get("name", "")
    if not name or len(name) >= LONGEST_NAME:
        raise _invalid(f"name cannot be empty or have more than 200 characters: {name}")
    if not tasks:
        raise _invalid("template must have at least one task defined")
    seen: set[str] = set()
    for task in tasks:
        task_name = _named(task)
        if task_name in seen:
            raise _invalid(f"two tasks in a template cannot have same name ({task_name})")
        seen.add(task_name)
        _check_actions(task.get("actions") or [])


def _check_actions(actions: list[Json]) -> None:
    seen: set[str] = set()
    for action in actions:
        name, image = _named(action), action.get("image", "")
        if not _IMAGE.match(image):
            raise _invalid(f"invalid action image ({image}): invalid reference format: {_why_not(image)}")
        if name in seen:
            raise _invalid(f"two actions in a task cannot have same name: {name}")
        seen.add(name)


def _named(part: Json) -> str:
    name: str = part.get("name", "")
    if not name or len(name) >= LONGEST_NAME:
        raise _invalid(f"name cannot be empty or have more than 200 characters: {name}")
    return name


def _why_not(image: str) -> str:
    if image.lower() != image:
        return f"repository name (library/{image}) must be lowercase"
    return "invalid reference format"


def _invalid(why: str) -> RenderError:
    return RenderError(f"error rendering template: validating workflow template: {why}")


def _empty_worker(data: Mapping[str, Any]) -> str:
    """Return the text for an empty worker; it holds addresses of memory, so that no two are equal."""
    address = f"0x{random.getrandbits(44):x}"
    shown = " ".join(f"{key}:{value}" for key, value in sorted(data.items()) if key != "Hardware")
    return (
        "error rendering template: failed to render template, empty hardware address "
        f"(map[Hardware:{{[] [{{{address} <nil>}}]}} {shown}])"
    )


def _task_status(task: Json) -> Json:
    status: Json = {"name": task["name"], "agentID": task["worker"], "id": ulid()}
    if task.get("volumes"):
        status["volumes"] = list(task["volumes"])
    if task.get("environment"):
        status["environment"] = dict(task["environment"])
    status["actions"] = [_action_status(action) for action in task.get("actions") or []]
    return status


def _action_status(action: Json) -> Json:
    status: Json = {"id": ulid(), "name": action["name"], "image": action["image"], "state": "PENDING"}
    if seconds := _seconds(action.get("timeout")):
        status["timeout"] = seconds
    for key in ("command", "volumes", "environment", "pid", "namespaces"):
        if action.get(key):
            status[key] = action[key]
    return status


def _seconds(text: str | None) -> int:
    try:
        return int(text or 0)
    except ValueError as error:
        raise RenderError(
            "error rendering template: parsing yaml data: err: yaml: unmarshal errors: cannot unmarshal !!str "
            f"`{text}` into int64"
        ) from error


def ulid() -> str:
    """Return a new ULID: 48 bits of time, 80 of randomness, in Crockford's base 32."""
    number = (int(time.time() * 1000) << 80) | int.from_bytes(os.urandom(10))
    return "".join(_CROCKFORD[(number >> shift) & 31] for shift in range(125, -1, -5))
