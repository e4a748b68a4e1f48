"""The Templates in `workflows/`: read, linted, and put into Tinkerbell under a name that holds their content."""

import hashlib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import yaml

from fleetd.ports import RefusedError
from fleetd.tinkerbell.api import TEMPLATES, WORKFLOWS, Api
from fleetd.tinkerbell.names import TEMPLATE_LABEL

LONGEST_NAME = 199
LONGEST = 256 * 1024
UNUSED_FOR = timedelta(hours=1)
"""A Template of another version of fleetd may just be waiting for its Workflow."""

_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_KEY = r"\.[a-z]\w*"
_GOOD = re.compile(
    rf'^\s*(?:{_KEY}\s*\|\s*(?:quote|toJson)|(?:quote|toJson)\s+{_KEY}|printf\s+"[^"\\]*"(?:\s+{_KEY})+\s*\|\s*quote)\s*$'
)
_KEYS = re.compile(r"\.([a-z]\w*)")
_STRING = re.compile(r'"[^"]*"')


@dataclass(frozen=True, slots=True)
class Template:
    """One file of `workflows/`."""

    file: str
    data: str

    @property
    def name(self) -> str:
        """The name in Tinkerbell: a running Workflow never changes under its feet."""
        return f"{self.file}-{hashlib.sha256(self.data.encode()).hexdigest()[:8]}"

    @property
    def keys(self) -> frozenset[str]:
        """The hardwareMap keys that it uses."""
        return frozenset(key for body in _BRACES.findall(self.data) for key in _KEYS.findall(_STRING.sub("", body)))


def read_template(folder: Path, file: str) -> Template:
    """Read and lint a Template. Raises RefusedError naming all that is wrong with it."""
    path = folder / f"{file}.yaml"
    try:
        template = Template(file, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RefusedError(f"Template {file} cannot be read: {error}") from error
    if problems := lint(template.data):
        raise RefusedError(f"Template {file} is not fit for use: {'; '.join(problems)}")
    return template


def lint(data: str) -> tuple[str, ...]:
    """Return what is wrong with a Template, in an owner's words; the API accepts anything, so this is the only check."""
    problems = [
        f"{{{{{body}}}}} must be hardwareMap keys that end in quote or toJson"
        for body in _BRACES.findall(data)
        if not _GOOD.match(body)
    ]
    if len(data.encode()) > LONGEST:
        problems.append("it is larger than 256 KiB")
    try:
        read = yaml.safe_load(_BRACES.sub('"value"', data))
    except yaml.YAMLError as error:
        return (*problems, f"it is no YAML: {error}")
    if not isinstance(read, dict):
        return (*problems, "it is no mapping")
    problems += _name_problems("the template", read.get("name"))
    tasks = read.get("tasks")
    if not isinstance(tasks, list) or not tasks:
        return (*problems, "it has no tasks")
    problems += _twice("task", tasks)
    for task in tasks:
        problems += _task_problems(task)
    return tuple(problems)


def put_template(api: Api, template: Template) -> str:
    """Create the Template unless it is there; returns its name."""
    body = TEMPLATES.body(template.name, {TEMPLATE_LABEL: template.file}, {"data": template.data})
    created = api.create(TEMPLATES, body)
    if created.existed and created.item.get("spec", {}).get("data") != template.data:
        raise RefusedError(f"Template {template.name} exists with other content: somebody changed it. Delete it.")
    return template.name


def collect_templates(api: Api, current: frozenset[str], now: datetime) -> tuple[str, ...]:
    """Delete fleetd's Templates that are not current and that no Workflow names; returns their names."""
    ours = api.labelled(TEMPLATES, TEMPLATE_LABEL)
    old = [item for item in ours if item["metadata"]["name"] not in current and _age(item, now) > UNUSED_FOR]
    if not old:
        return ()
    _, workflows = api.snapshot(WORKFLOWS)
    used = {item.get("spec", {}).get("templateRef") for item in workflows}
    unused = [item["metadata"] for item in old if item["metadata"]["name"] not in used]
    for metadata in unused:
        api.delete(TEMPLATES, metadata["name"], metadata["uid"])
    return tuple(metadata["name"] for metadata in unused)


def _task_problems(task: Any) -> list[str]:
    if not isinstance(task, dict):
        return ["a task is no mapping"]
    name = task.get("name")
    problems = _name_problems("a task", name)
    if not task.get("worker"):
        problems.append(f"task {name} has no worker: Tinkerbell would write its status without end")
    actions = task.get("actions")
    if not isinstance(actions, list) or not actions:
        return [*problems, f"task {name} has no actions"]
    problems += _twice("action", actions)
    for action in actions:
        if not isinstance(action, dict):
            problems.append("an action is no mapping")
            continue
        problems += _name_problems("an action", action.get("name"))
        if not action.get("image"):
            problems.append(f"action {action.get('name')} has no image")
        timeout = action.get("timeout")
        if not isinstance(timeout, int) or isinstance(timeout, bool) or timeout <= 0:
            problems.append(f"action {action.get('name')} has no timeout: it would end at once")
        problems += [
            f"action {action.get('name')}: Tinkerbell drops {key}"
            for key in ("on-timeout", "on-failure")
            if key in action
        ]
    return problems


def _name_problems(what: str, name: Any) -> list[str]:
    if not isinstance(name, str) or not 1 <= len(name) <= LONGEST_NAME:
        return [f"the name of {what} must have 1 to {LONGEST_NAME} characters"]
    return []


def _twice(what: str, parts: list[Any]) -> list[str]:
    names = [part.get("name") for part in parts if isinstance(part, dict)]
    return [f"two {what}s are named {name}" for name in sorted({str(n) for n in names if names.count(n) > 1})]


def _age(item: dict[str, Any], now: datetime) -> timedelta:
    created = datetime.fromisoformat(item["metadata"]["creationTimestamp"])
    return now.astimezone(UTC) - created
