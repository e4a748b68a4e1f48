"""The Provisioner port over Kubernetes."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from fleetd.core.names import MachineId, RunId
from fleetd.ports import HardwareWanted, Part, WorkflowSeen, WorkflowWanted
from fleetd.tinkerbell import hardware, templates, workflows
from fleetd.tinkerbell.api import HARDWARE, WORKFLOWS, Api
from fleetd.tinkerbell.names import machine_name, workflow_name


@dataclass(frozen=True, slots=True)
class TinkerbellProvisioner:
    """Tinkerbell. Every call is idempotent; raises OutageError and RefusedError."""

    api: Api
    templates: Path
    """The folder `workflows/`."""
    action_image: str = ""
    """The image of all actions, by digest; for Workflows whose values do not name one."""

    def keep_hardware(self, wanted: HardwareWanted) -> None:
        """Create or update the machine's Hardware so that it is as wanted."""
        hardware.keep_hardware(self.api, wanted)

    def set_allow_pxe(self, machine: MachineId, *, allowed: bool) -> None:
        """Set allowPXE of every interface; absent Hardware counts as not allowed."""
        hardware.set_allow_pxe(self.api, machine, allowed=allowed)

    def remove_hardware(self, machine: MachineId) -> None:
        """Remove the machine's Hardware; absent is fine."""
        self.api.delete(HARDWARE, machine_name(machine))

    def create_workflow(self, wanted: WorkflowWanted) -> None:
        """Create the Workflow (and its content-named Template); an existing one of the same run is success."""
        values = {"action_image": self.action_image, **wanted.values} if self.action_image else wanted.values
        workflows.create_workflow(self.api, self.templates, replace(wanted, values=values))

    def workflow(self, run: RunId, part: Part) -> WorkflowSeen:
        """Read the Workflow of a run's part; ABSENT when there is none."""
        return workflows.read_workflow(self.api, run, part)

    def delete_workflow(self, run: RunId, part: Part) -> None:
        """Delete the Workflow of a run's part; absent is fine."""
        self.api.delete(WORKFLOWS, workflow_name(run, part))

    def stray_workflows(self, machine: MachineId, run: RunId | None) -> tuple[str, ...]:
        """Name Workflows of this machine that belong to no part of this run."""
        return workflows.stray_workflows(self.api, machine, run)

    def delete_named(self, name: str) -> None:
        """Delete a Workflow by name; absent is fine."""
        self.api.delete(WORKFLOWS, name)

    def collect_templates(self) -> tuple[str, ...]:
        """Delete Templates of earlier versions that nothing uses; returns their names. For housekeeping."""
        files = sorted(path.stem for path in self.templates.glob("*.yaml"))
        current = frozenset(templates.read_template(self.templates, file).name for file in files)
        return templates.collect_templates(self.api, current, datetime.now(UTC))
