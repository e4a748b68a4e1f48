"""The states of a run; each carries only what that state knows.

A run begins as `Gated` and ends as `Ended`. `deadline` is when the state stops waiting, before any stretch for an outage.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import ClassVar

from fleetd.core.names import Phase


class Outcome(StrEnum):
    """How a run ends."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    WITHDRAWN = "withdrawn"


class Watch(StrEnum):
    """What a state needs to see of the outside before it can be decided."""

    ATTEST = "attest"
    DISK = "disk"
    JOB = "job"
    POWER = "power"
    DECLARATION = "declaration"
    GATE = "gate"
    STRAYS = "strays"


class Off(StrEnum):
    """How far a machine is switched off before its boot device is set, where its BMC needs that seen."""

    NOT_ASKED = "not-asked"
    UNDER_WAY = "under-way"
    SEEN = "seen"

    @property
    def suffix(self) -> str:
        """What tells the job that only switches off from the one after it."""
        return "-off" if self is Off.UNDER_WAY else ""


@dataclass(frozen=True, slots=True)
class State:
    """What every state knows."""

    name: ClassVar[str]
    phase: ClassVar[Phase]
    watches: ClassVar[frozenset[Watch]] = frozenset()
    before_disk: ClassVar[bool] = True
    """Whether no leave can have been given yet."""

    since: datetime
    deadline: datetime

    @property
    def job(self) -> str:
        """The name of the power job under way, empty when there is none."""
        return ""


@dataclass(frozen=True, slots=True)
class Gated(State):
    """Waits until everything that must hold before a run begins holds."""

    name: ClassVar[str] = "gated"
    phase: ClassVar[Phase] = Phase.WAITING
    watches: ClassVar[frozenset[Watch]] = frozenset({Watch.DECLARATION, Watch.GATE})


@dataclass(frozen=True, slots=True)
class Preparing(State):
    """Clears leftovers, writes Hardware and creates the attest Workflow."""

    attempt: int = 0

    name: ClassVar[str] = "preparing"
    phase: ClassVar[Phase] = Phase.WAITING
    watches: ClassVar[frozenset[Watch]] = frozenset({Watch.STRAYS, Watch.POWER, Watch.JOB})

    @property
    def job(self) -> str:
        """Switches the machine off, where a leftover Workflow may still be served to it."""
        return f"clear-{self.attempt}"


@dataclass(frozen=True, slots=True)
class PoweringOn(State):
    """The BMC boots the machine from the network."""

    attempt: int = 1
    tried_at: datetime | None = None
    """When this attempt began; None while the pause before it lasts."""
    boots: int = 1
    """How often the machine was switched on for this netboot."""
    off: Off = Off.NOT_ASKED

    name: ClassVar[str] = "powering-on"
    phase: ClassVar[Phase] = Phase.WAITING
    watches: ClassVar[frozenset[Watch]] = frozenset({Watch.JOB, Watch.ATTEST, Watch.POWER})

    @property
    def job(self) -> str:
        """One name an attempt."""
        return f"netboot-{self.attempt}{self.off.suffix}"


@dataclass(frozen=True, slots=True)
class Netbooting(State):
    """Waits for the first word of the machine in HookOS."""

    attempt: int = 1
    boots: int = 1

    name: ClassVar[str] = "netbooting"
    phase: ClassVar[Phase] = Phase.WAITING
    watches: ClassVar[frozenset[Watch]] = frozenset({Watch.ATTEST, Watch.POWER})


@dataclass(frozen=True, slots=True)
class Attesting(State):
    """The machine proves itself; refusals may be repeated a few times."""

    name: ClassVar[str] = "attesting"
    phase: ClassVar[Phase] = Phase.ATTESTING
    watches: ClassVar[frozenset[Watch]] = frozenset({Watch.ATTEST})


@dataclass(frozen=True, slots=True)
class AwaitingKey(State):
    """The machine is proven, and a person must approve its EK."""

    name: ClassVar[str] = "awaiting-key"
    phase: ClassVar[Phase] = Phase.WAITING
    watches: ClassVar[frozenset[Watch]] = frozenset({Watch.ATTEST})


@dataclass(frozen=True, slots=True)
class Proven(State):
    """The enrollment passed; its Workflow is archived and removed before anything else exists."""

    name: ClassVar[str] = "proven"
    phase: ClassVar[Phase] = Phase.ATTESTED
    watches: ClassVar[frozenset[Watch]] = frozenset({Watch.ATTEST, Watch.DECLARATION})


@dataclass(frozen=True, slots=True)
class Erasing(State):
    """The disk Workflow exists; until the erase has finished."""

    boots: int = 0
    """Power-ons after silence, at most three."""
    succeeded_at: datetime | None = None
    """When the Workflow was first seen successful."""
    bmc_refused: bool = False
    """The BMC refused its credentials meanwhile: the disk is finished, and nothing more is asked of the BMC."""

    name: ClassVar[str] = "erasing"
    phase: ClassVar[Phase] = Phase.ERASING
    watches: ClassVar[frozenset[Watch]] = frozenset({Watch.DISK, Watch.POWER, Watch.JOB})
    before_disk: ClassVar[bool] = False

    @property
    def job(self) -> str:
        """Switches a silent machine on again."""
        return f"again-{self.boots}"


@dataclass(frozen=True, slots=True)
class Installing(Erasing):
    """The erase has finished and the image and seed are written."""

    name: ClassVar[str] = "installing"
    phase: ClassVar[Phase] = Phase.INSTALLING


@dataclass(frozen=True, slots=True)
class HandingOver(State):
    """Result latched; the machine reboots from its disk."""

    attempt: int = 1
    tried_at: datetime | None = None
    ready: bool = False
    """Workflow gone and allowPXE cleared: only now may the machine reboot."""
    off: Off = Off.NOT_ASKED

    name: ClassVar[str] = "handing-over"
    phase: ClassVar[Phase] = Phase.INSTALLING
    watches: ClassVar[frozenset[Watch]] = frozenset({Watch.JOB, Watch.POWER})
    before_disk: ClassVar[bool] = False

    @property
    def job(self) -> str:
        """One name an attempt."""
        return f"disk-{self.attempt}{self.off.suffix}"


@dataclass(frozen=True, slots=True)
class Configuring(State):
    """Waits until the installed system has redeemed its seed."""

    name: ClassVar[str] = "configuring"
    phase: ClassVar[Phase] = Phase.CONFIGURING
    before_disk: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class AwaitingCheck(State):
    """Waits for a boot check with full log from the installed system."""

    name: ClassVar[str] = "awaiting-check"
    phase: ClassVar[Phase] = Phase.ATTESTING
    before_disk: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class PoweringDown(State):
    """The work is done; the machine is switched off and that is verified."""

    attempt: int = 1
    tried_at: datetime | None = None
    cleared: bool = False
    """Workflow gone and allowPXE cleared."""

    name: ClassVar[str] = "powering-down"
    phase: ClassVar[Phase] = Phase.RETIRING
    watches: ClassVar[frozenset[Watch]] = frozenset({Watch.JOB, Watch.POWER})
    before_disk: ClassVar[bool] = False

    @property
    def job(self) -> str:
        """One name an attempt."""
        return f"off-{self.attempt}"


@dataclass(frozen=True, slots=True)
class Withdrawing(State):
    """Retirement takes back what the machine still holds in Tinkerbell."""

    name: ClassVar[str] = "withdrawing"
    phase: ClassVar[Phase] = Phase.RETIRING
    before_disk: ClassVar[bool] = False


@dataclass(frozen=True, slots=True)
class Ending(State):
    """The outcome is latched and reported; what the run left outside is tidied."""

    outcome: Outcome
    code: str
    power_off_at: datetime | None = None
    """When the BMC switches the machine off; None when it stays as it is."""
    to_disk: bool = False
    """The machine has a system to go back to: it is rebooted from its disk instead."""
    closed: bool = False
    """Netboot closed and tickets void."""
    attempt: int = 1
    tried_at: datetime | None = None

    name: ClassVar[str] = "ending"
    phase: ClassVar[Phase] = Phase.FAILED
    watches: ClassVar[frozenset[Watch]] = frozenset({Watch.ATTEST, Watch.DISK, Watch.POWER, Watch.JOB})
    before_disk: ClassVar[bool] = False

    @property
    def job(self) -> str:
        """One name an attempt."""
        return f"end-{self.attempt}"


@dataclass(frozen=True, slots=True)
class Ended(State):
    """Over; nothing changes any more. `deadline` equals `since`."""

    outcome: Outcome
    code: str = ""

    name: ClassVar[str] = "ended"
    phase: ClassVar[Phase] = Phase.FAILED
    before_disk: ClassVar[bool] = False


STATES: dict[str, type[State]] = {
    kind.name: kind
    for kind in (
        Gated,
        Preparing,
        PoweringOn,
        Netbooting,
        Attesting,
        AwaitingKey,
        Proven,
        Erasing,
        Installing,
        HandingOver,
        Configuring,
        AwaitingCheck,
        PoweringDown,
        Withdrawing,
        Ending,
        Ended,
    )
}
"""Every state by its name, in the order of a run."""
