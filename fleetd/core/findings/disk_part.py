"""Why a disk was not erased or written."""

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from fleetd.core.findings.finding import Finding
from fleetd.core.findings.words import listed, moment


@dataclass(frozen=True, slots=True)
class DiskRefused(Finding):
    """The guard did not find the declared disk, or found it different; nothing was erased."""

    told: str

    code: ClassVar[str] = "disk"

    def sentence(self) -> str:
        """Show what the guard said."""
        return f"The declared disk was not accepted: {self.told}. Nothing was erased."

    def next_step(self) -> str:
        """Correct the serial."""
        return "Correct the disk serial on the machine's page, or check that the disk is plugged in."


@dataclass(frozen=True, slots=True)
class EraseFailed(Finding):
    """The disk could not be erased by any method that the class allows, or data was read back."""

    told: str

    code: ClassVar[str] = "erase"

    def sentence(self) -> str:
        """Show what the action said."""
        return f"The disk could not be erased: {self.told}."

    def next_step(self) -> str:
        """Replace or destroy."""
        return "Read the evidence of the run; allow another method in the class, or replace and destroy the disk."


@dataclass(frozen=True, slots=True)
class ImageRefused(Finding):
    """The image did not arrive as the class describes it; its partition table was cleared."""

    told: str

    code: ClassVar[str] = "image"

    def sentence(self) -> str:
        """Show what the action said."""
        return f"The image was not written: {self.told}. The disk was left without a partition table."

    def next_step(self) -> str:
        """Check image and class."""
        return "Check that the class's url, sha256 and size are those of the published image, then ask again."


@dataclass(frozen=True, slots=True)
class ActionFailed(Finding):
    """An action failed and said why."""

    action: str
    told: str

    code: ClassVar[str] = "action-failed"

    def sentence(self) -> str:
        """Show what it said."""
        return f"The action {self.action} failed: {self.told or 'it said nothing'}."

    def next_step(self) -> str:
        """Correct the cause."""
        return "Correct the cause and ask again; the machine's console may say more."


@dataclass(frozen=True, slots=True)
class EvidenceMissing(Finding):
    """The Workflow says success, but actions did not report evidence."""

    part: str
    actions: tuple[str, ...]

    code: ClassVar[str] = "evidence-missing"

    def sentence(self) -> str:
        """Name the actions."""
        return f"The {self.part} Workflow says success, but nothing was reported by: {listed(self.actions)}."

    def next_step(self) -> str:
        """Do not trust the disk."""
        return "Check that the machine reaches the service, do not rely on the disk's content, and ask again."


@dataclass(frozen=True, slots=True)
class Stalled(Finding):
    """An action made no progress for too long."""

    action: str
    since: datetime | None

    code: ClassVar[str] = "stalled"

    def sentence(self) -> str:
        """Show since when."""
        return f"The action {self.action or 'of the disk Workflow'} made no progress since {moment(self.since)}."

    def next_step(self) -> str:
        """Look at the machine."""
        return "Look at the machine's console and disk, then ask again."
