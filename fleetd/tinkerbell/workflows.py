"""Workflows: created once per run and part, read, deleted; and what their states mean."""

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from fleetd.core.names import MachineId, RunId
from fleetd.ports import ActionState, Part, RefusedError, WorkflowOutcome, WorkflowSeen, WorkflowWanted
from fleetd.tinkerbell.api import WORKFLOWS, Api, Json
from fleetd.tinkerbell.names import MACHINE_LABEL, PART_LABEL, RUN_LABEL, machine_name, workflow_name
from fleetd.tinkerbell.templates import put_template, read_template

AGENT_KEY = "device_1"
"""The hardwareMap key that names the worker."""
LONGEST_PROBLEM = 500

_OUTCOMES = {
    "PREPARING": WorkflowOutcome.PENDING,
    "SUCCESS": WorkflowOutcome.SUCCESS,
    "FAILED": WorkflowOutcome.FAILED,
    "TIMEOUT": WorkflowOutcome.TIMEOUT,
}


def create_workflow(api: Api, folder: Path, wanted: WorkflowWanted) -> None:
    """Create the Workflow and its Template. Raises RefusedError when another run holds the name."""
    template = read_template(folder, wanted.template)
    name, hardware = workflow_name(wanted.run, wanted.part), machine_name(wanted.machine)
    values = {**wanted.values, AGENT_KEY: hardware}
    if missing := sorted(template.keys - values.keys()):
        raise RefusedError(f"Template {wanted.template} needs values that nobody gave: {', '.join(missing)}")
    labels = {
        RUN_LABEL: str(wanted.run),
        MACHINE_LABEL: str(wanted.machine),
        PART_LABEL: str(wanted.part),
    }
    spec = {"templateRef": put_template(api, template), "hardwareRef": hardware, "hardwareMap": values}
    created = api.create(WORKFLOWS, WORKFLOWS.body(name, labels, spec))
    found = created.item["metadata"].get("labels", {})
    if created.existed and {key: found.get(key) for key in labels} != labels:
        raise RefusedError(f"Workflow {name} exists and is not of this run: delete it by hand.")


def read_workflow(api: Api, run: RunId, part: Part) -> WorkflowSeen:
    """Read the Workflow of a run's part."""
    name = workflow_name(run, part)
    item = api.get(WORKFLOWS, name)
    return WorkflowSeen(name, WorkflowOutcome.ABSENT) if item is None else seen(item)


def seen(item: Json) -> WorkflowSeen:
    """Say what a Workflow shows; pure.

    No state is final in Tinkerbell, and any text can be a state: a late report rewrites SUCCESS, an odd one reads
    as running. Whoever reads latches the first end that it sees.
    """
    status = item.get("status", {})
    actions = tuple(_action(action) for task in status.get("tasks", ()) for action in task.get("actions") or ())
    return WorkflowSeen(
        name=item["metadata"]["name"],
        outcome=_outcome(status),
        actions=actions,
        problem=_problem(status),
        raw=_archived(item),
    )


def stray_workflows(api: Api, machine: MachineId, run: RunId | None) -> tuple[str, ...]:
    """Name Workflows of the machine that belong to no part of the run: its agent would be given either at random."""
    ours = {workflow_name(run, part) for part in Part} if run is not None else set()
    listed = api.labelled(WORKFLOWS, f"{MACHINE_LABEL}={machine}")
    return tuple(sorted(item["metadata"]["name"] for item in listed if item["metadata"]["name"] not in ours))


def _outcome(status: Mapping[str, object]) -> WorkflowOutcome:
    state = status.get("state") or ""
    if state == "":
        return WorkflowOutcome.UNRENDERED
    if state == "PENDING" and not status.get("currentState"):
        return WorkflowOutcome.PENDING
    return _OUTCOMES.get(str(state), WorkflowOutcome.RUNNING)


def _problem(status: Json) -> str:
    """Return why it was not rendered; Tinkerbell quotes whole templates there."""
    if status.get("templateRendering") != "failed":
        return ""
    told = [c.get("message", "") for c in status.get("conditions", ()) if c.get("type") == "TemplateRenderedSuccess"]
    return (told[0] if told else "the Template was not rendered")[:LONGEST_PROBLEM]


def _action(action: Json) -> ActionState:
    return ActionState(
        name=action.get("name", ""),
        state=action.get("state", ""),
        started=_time(action.get("executionStart")),
        ended=_time(action.get("executionStop")),
    )


def _time(text: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def _archived(item: Json) -> Json:
    metadata = {key: value for key, value in item["metadata"].items() if key != "managedFields"}
    return {**item, "metadata": metadata}
