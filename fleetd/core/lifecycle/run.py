"""A run as decisions see it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from fleetd.core.declaration import Declaration
from fleetd.core.lifecycle.states import Ended, Ending, State
from fleetd.core.names import IntentKind, MachineId, RunId


@dataclass(frozen=True, slots=True)
class Run:
    """One intent under way. `orders` is the declaration as it was when the run began; it does not change."""

    id: RunId
    machine: MachineId
    kind: IntentKind
    state: State
    orders: Declaration
    was_active: bool
    """Whether the machine was active when the run began."""
    outage: timedelta = timedelta()
    """How long outside parts were away during the present state."""
    first_leave_at: datetime | None = None
    refusals: int = 0
    redeemed_at: datetime | None = None
    reboot_told_at: datetime | None = None
    lost_by: str = ""
    """Who declared the machine unreachable for good."""

    @property
    def over(self) -> bool:
        """Whether the outcome is latched."""
        return isinstance(self.state, Ending | Ended)

    @property
    def given_up(self) -> bool:
        """Whether a wipe or retirement goes on without the machine."""
        return bool(self.lost_by) and self.kind in {IntentKind.WIPE, IntentKind.RETIRE}

    @property
    def reboot(self) -> bool:
        """Whether an attest run goes through HookOS."""
        intent = self.orders.intent
        return bool(intent and intent.reboot)

    @property
    def by_check(self) -> bool:
        """Whether the run is nothing but an on-demand check of the installed system."""
        return self.kind is IntentKind.ATTEST and self.was_active and not self.reboot

    def late(self, now: datetime, *, outage: bool) -> bool:
        """Tell whether the state has waited long enough.

        A deadline stretches by the time that outside parts were away, at most to double.
        """
        length = self.state.deadline - self.state.since
        if now >= self.state.deadline + length:
            return True
        return not outage and now >= self.state.deadline + min(self.outage, length)
