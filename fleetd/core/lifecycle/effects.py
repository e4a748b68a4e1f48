"""What a decision wants done outside. Each is idempotent: a repeat finds its own work under a name made of the run."""

from dataclasses import dataclass

from fleetd.core.outside import Part, PowerStep


@dataclass(frozen=True, slots=True)
class Effect:
    """One thing to do."""


@dataclass(frozen=True, slots=True)
class KeepHardware(Effect):
    """Create or correct the machine's Hardware, netboot not allowed."""


@dataclass(frozen=True, slots=True)
class KeepBmc(Effect):
    """Create or correct the BMC Machine."""


@dataclass(frozen=True, slots=True)
class RemoveBmc(Effect):
    """Remove the BMC Machine."""


@dataclass(frozen=True, slots=True)
class RemoveHardware(Effect):
    """Remove the machine's Hardware."""


@dataclass(frozen=True, slots=True)
class RemoveReservation(Effect):
    """Take the machine's DHCP reservation away: its address may be given to another."""


@dataclass(frozen=True, slots=True)
class AllowPxe(Effect):
    """Set allowPXE."""

    allowed: bool


@dataclass(frozen=True, slots=True)
class CreateWorkflow(Effect):
    """Create the Workflow of a part."""

    part: Part


@dataclass(frozen=True, slots=True)
class ArchiveWorkflow(Effect):
    """Keep what the Workflow of a part was; what is archived already stays."""

    part: Part


@dataclass(frozen=True, slots=True)
class DeleteWorkflow(Effect):
    """Delete the Workflow of a part."""

    part: Part


@dataclass(frozen=True, slots=True)
class DeleteStrays(Effect):
    """Delete Workflows that other runs left behind."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PowerJob(Effect):
    """Start a power job under its name of this run."""

    name: str
    steps: tuple[PowerStep, ...]


@dataclass(frozen=True, slots=True)
class RemoveJobs(Effect):
    """Delete the power jobs of the run."""


@dataclass(frozen=True, slots=True)
class RevokeCertificates(Effect):
    """Revoke every certificate of the machine, CRL included."""

    reason: str = "cessationOfOperation"


@dataclass(frozen=True, slots=True)
class HoldCertificates(Effect):
    """Put the machine's certificates on hold."""


@dataclass(frozen=True, slots=True)
class ReleaseCertificates(Effect):
    """Lift the hold."""


@dataclass(frozen=True, slots=True)
class VoidTickets(Effect):
    """Make every ticket of the run worthless."""


@dataclass(frozen=True, slots=True)
class BanAgents(Effect):
    """Ban the machine's workload agents: they do not read the CRL."""


@dataclass(frozen=True, slots=True)
class ArchiveBaseline(Effect):
    """Keep the baseline with the run and forget it of the machine."""


@dataclass(frozen=True, slots=True)
class NoteDeed(Effect):
    """Note a step of a withdrawal that was seen, not done."""

    step: str
    message: str


@dataclass(frozen=True, slots=True)
class SignRetirement(Effect):
    """Sign what was done: the last thing of a retirement."""
