"""How fleetd names and labels its objects: everything follows from the machine's number and the run."""

from fleetd.core.names import MachineId, RunId
from fleetd.ports import Part

RUN_LABEL = "fleet/run"
MACHINE_LABEL = "fleet/machine"
PART_LABEL = "fleet/part"
NODE_LABEL = "fleet/node"
TEMPLATE_LABEL = "fleet/template"
BMC_READY_LABEL = "fleet/bmc"
"""On an owner's Secret, with the value `ready`, once it holds username and password."""

LONGEST_JOB_NAME = 56
"""Rufio puts the name into a label of at most 63 characters, and names Tasks `<job>-task-<n>` after it."""

_SUFFIXES = {Part.ATTEST: "a", Part.DISK: "d"}


def machine_name(machine: MachineId) -> str:
    """Return the name of a machine's Hardware and BMC Machine, which is also its agent id and worker."""
    return f"fleet-{machine}"


def workflow_name(run: RunId, part: Part) -> str:
    """Return the name of the Workflow of a run's part: 34 characters (Rufio allows 42)."""
    return f"{run.hex}-{_SUFFIXES[part]}"


def job_name(run: RunId, name: str) -> str:
    """Return the name of a power job of a run.

    Raises ValueError when it would be too long for Rufio's label.
    """
    full = f"{run.hex}-{name}"
    if len(full) > LONGEST_JOB_NAME:
        raise ValueError(f"the name of a power job is too long: {name}")
    return full


def label_value(text: str) -> str:
    """Return a text as a label may hold it: other characters become dashes, at most 63."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in text)[:63]
    return kept.strip("-_.")
