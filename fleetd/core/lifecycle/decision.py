"""What a look decides: the next state, what to do on the way there, and when to look again."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fleetd.core.classes import Deadlines
from fleetd.core.declaration import Declaration
from fleetd.core.findings import Finding
from fleetd.core.findings.netboot import BmcRefused
from fleetd.core.lifecycle.effects import Effect
from fleetd.core.lifecycle.observed import Observed
from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.states import AwaitingCheck, Ended, Ending, Gated, Outcome, Preparing, State
from fleetd.core.lifecycle.timing import Timing
from fleetd.core.names import IntentKind


@dataclass(frozen=True, slots=True)
class Decision:
    """The effects are performed in order before the state is persisted: a crash between repeats them."""

    state: State
    effects: tuple[Effect, ...] = ()
    look_again_at: datetime | None = None
    """None: nothing but a wake moves this run."""
    findings: tuple[Finding, ...] = ()
    message: str = ""
    """What an owner reads: what happens, or what is waited for."""
    orders: Declaration | None = None
    """The declaration that the run goes by from now on; set when the gate is passed."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A run, what was seen, and the time."""

    run: Run
    seen: Observed
    now: datetime
    timing: Timing

    @property
    def deadlines(self) -> Deadlines:
        """What the class sets."""
        return self.seen.machine_class.deadlines if self.seen.machine_class else Deadlines()

    @property
    def has_bmc(self) -> bool:
        """Whether power is driven without a person."""
        return self.run.orders.has_bmc

    @property
    def soon(self) -> datetime:
        """The next look where something outside moves."""
        return self.now + self.timing.look

    @property
    def later(self) -> datetime:
        """The next look where only a call of the machine or a person moves things."""
        return min(self.now + self.timing.slow_look, max(self.run.state.deadline, self.soon))


def go(at: Moment, state: State, *effects: Effect, message: str = "", findings: tuple[Finding, ...] = ()) -> Decision:
    """Move on to another state and look again at once."""
    return Decision(state, effects, at.now, findings, message)


def stay(
    at: Moment,
    *effects: Effect,
    message: str = "",
    again: datetime | None = None,
    findings: tuple[Finding, ...] = (),
) -> Decision:
    """Remain in the state."""
    return Decision(at.run.state, effects, again or at.soon, findings, message)


def succeed(at: Moment, *effects: Effect, message: str = "", findings: tuple[Finding, ...] = ()) -> Decision:
    """End the run with success; nothing is left outside."""
    return Decision(Ended(at.now, at.now, Outcome.SUCCEEDED), effects, None, findings, message)


def end(
    at: Moment,
    outcome: Outcome,
    *findings: Finding,
    power_off_in: timedelta | None = None,
    effects: tuple[Effect, ...] = (),
) -> Decision:
    """Latch an outcome that is no success, and only then tidy in `Ending` what the run left outside.

    A leave may be given while this is decided: then nothing has been taken from the machine yet.
    """
    code = findings[0].code if findings else outcome.value
    message = findings[0].sentence() if findings else ""
    if isinstance(at.run.state, Gated):
        return Decision(Ended(at.now, at.now, outcome, code), effects, None, findings, message)
    off_at = None if power_off_in is None or not at.has_bmc else at.now + power_off_in
    back = at.run.kind is IntentKind.ATTEST and at.run.was_active
    state = Ending(at.now, at.now + at.timing.tidy, outcome, code, off_at, to_disk=back)
    return Decision(state, effects, at.now, findings, message)


def fail(at: Moment, *findings: Finding, effects: tuple[Effect, ...] = ()) -> Decision:
    """Fail: the machine is switched off a while later, unless its class keeps failed machines as they are."""
    settled = at.run.by_check or isinstance(at.run.state, AwaitingCheck | Preparing)
    keep = at.seen.machine_class is not None and at.seen.machine_class.keep_on_failure
    refused = any(isinstance(finding, BmcRefused) for finding in findings)
    pause = None if keep or settled or refused else at.timing.power_off_after_failure
    return end(at, Outcome.FAILED, *findings, power_off_in=pause, effects=effects)


def extended(state: State, deadline: datetime) -> State:
    """Return the state with a later deadline, never an earlier one."""
    return replace(state, deadline=max(state.deadline, deadline))
