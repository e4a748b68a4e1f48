"""What the parts outside fleetd can be found in: the words in which lifecycle reads Tinkerbell and Rufio."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any


class Part(StrEnum):
    """The two Workflows of a run."""

    ATTEST = "attest"
    DISK = "disk"


class WorkflowOutcome(StrEnum):
    """What a Workflow's state means to fleetd; unknown or odd states read as RUNNING."""

    ABSENT = "absent"
    UNRENDERED = "unrendered"
    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"

    @property
    def over(self) -> bool:
        """Whether the agent goes on with nothing of it."""
        return self in {WorkflowOutcome.SUCCESS, WorkflowOutcome.FAILED, WorkflowOutcome.TIMEOUT}


@dataclass(frozen=True, slots=True)
class ActionState:
    """One action of a Workflow as Tinkerbell shows it."""

    name: str
    state: str
    started: datetime | None
    ended: datetime | None


@dataclass(frozen=True, slots=True)
class WorkflowSeen:
    """One reading of a Workflow."""

    name: str
    outcome: WorkflowOutcome
    actions: tuple[ActionState, ...] = ()
    problem: str = ""
    """Why it was not rendered, at most 500 characters."""
    raw: Mapping[str, Any] | None = None
    """The object as read, for the archive."""


class PowerState(StrEnum):
    """What the BMC says."""

    ON = "on"
    OFF = "off"
    UNKNOWN = "unknown"


class PowerStep(StrEnum):
    """One power task; only those that Rufio performs as it says."""

    OFF = "off"
    ON = "on"
    BOOT_NETWORK = "boot-network"
    BOOT_DISK = "boot-disk"


class JobOutcome(StrEnum):
    """What became of a power job."""

    ABSENT = "absent"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"
    CREDENTIALS_REFUSED = "credentials-refused"


@dataclass(frozen=True, slots=True)
class JobSeen:
    """One reading of a power job."""

    outcome: JobOutcome
    problem: str = ""
