"""The engine: one pure, total function that knows the order of steps."""

from dataclasses import replace
from datetime import datetime, timedelta

from fleetd.core.findings import lifecycle as say
from fleetd.core.lifecycle import changes, closing, disk, gate, netboot
from fleetd.core.lifecycle.decision import Decision, Moment, end, fail, stay
from fleetd.core.lifecycle.effects import RemoveBmc
from fleetd.core.lifecycle.observed import Observed
from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.states import (
    Attesting,
    AwaitingCheck,
    AwaitingKey,
    Configuring,
    Ended,
    Ending,
    Erasing,
    Gated,
    HandingOver,
    Netbooting,
    PoweringDown,
    PoweringOn,
    Preparing,
    Proven,
    Withdrawing,
)
from fleetd.core.lifecycle.timing import Timing
from fleetd.core.outside import PowerState, WorkflowOutcome


def decide(run: Run, seen: Observed, now: datetime, timing: Timing | None = None) -> Decision:
    """Choose the next step of a run.

    Something that was seen wins over a deadline that has passed; a person's wish to stop wins over both, at the next
    safe step.
    """
    at = Moment(run, seen, now, timing or Timing())
    if isinstance(run.state, Ended):
        return Decision(run.state)
    if isinstance(run.state, Ending):
        decision = closing.ending(at, run.state)
        late = run.late(now, outage=bool(seen.outage)) and not isinstance(decision.state, Ended)
        return closing.tidied_late(at, run.state) if late else decision
    stopped = _stopped(at) or _refused_by_bmc(at)
    if stopped is not None:
        return stopped
    decision = _step(at)
    moved = type(decision.state) is not type(run.state) or decision.state.deadline > run.state.deadline
    busy = decision.look_again_at == now and not run.late(now, outage=True)
    if moved or busy or not run.late(now, outage=bool(seen.outage)):
        return decision
    return _late(at, decision)


def _stopped(at: Moment) -> Decision | None:
    """End at a safe step: never while an action may be erasing or writing."""
    cause = changes.stop_cause(at)
    if cause is None:
        if at.run.given_up and not isinstance(at.run.state, Gated | PoweringDown | Withdrawing):
            return gate.give_up(at)
        return None
    outcome, finding = cause
    if isinstance(at.run.state, Erasing) and at.run.first_leave_at is not None and not _safe(at):
        late = at.run.late(at.now, outage=bool(at.seen.outage))
        if not late:
            return stay(at, message=f"{finding.sentence()} Waiting for the present action to end.", findings=(finding,))
    settled = at.run.by_check or isinstance(at.run.state, Preparing | AwaitingCheck)
    off = None if settled else timedelta()
    return end(at, outcome, finding, power_off_in=off)


def _refused_by_bmc(at: Moment) -> Decision | None:
    """Fail at once when the BMC refuses its credentials, but never inside an erase or write: that needs no BMC."""
    if not at.seen.bmc_refused:
        return None
    match at.run.state:
        case Erasing() as state if not state.bmc_refused:
            noted = Moment(replace(at.run, state=replace(state, bmc_refused=True)), at.seen, at.now, at.timing)
            return stay(noted, RemoveBmc(), message=say.BmcRefused(at.run.orders.bmc_secret).sentence())
        case Erasing():
            return None
        case PoweringDown():
            return closing.bmc_refused(at)
        case _:
            return fail(at, say.BmcRefused(at.run.orders.bmc_secret), effects=(RemoveBmc(),))


def _safe(at: Moment) -> bool:
    disk_seen = at.seen.disk
    if disk_seen is None:
        return False
    off = at.seen.power is PowerState.OFF
    return disk_seen.outcome.over or disk_seen.outcome is WorkflowOutcome.ABSENT or off


def _step(at: Moment) -> Decision:
    match at.run.state:
        case Gated():
            return gate.at_the_gate(at)
        case Preparing() as state:
            return netboot.preparing(at, state)
        case PoweringOn() as state:
            return netboot.powering_on(at, state)
        case Netbooting() as state:
            return netboot.netbooting(at, state)
        case Attesting() | AwaitingKey() as state:
            return netboot.attesting(at, state)
        case Proven() as state:
            return netboot.proven(at, state)
        case Erasing() as state:
            return disk.on_disk(at, state)
        case HandingOver() as state:
            return disk.handing_over(at, state)
        case Configuring():
            return disk.configuring(at)
        case AwaitingCheck():
            return closing.awaiting_check(at)
        case PoweringDown() as state:
            return closing.powering_down(at, state)
        case Withdrawing():
            return closing.withdrawing(at)
        case other:
            raise TypeError(f"no step for {other!r}")


def give_up(run: Run, seen: Observed, now: datetime, timing: Timing | None = None) -> Decision:
    """Return what follows when the deadline has passed and nothing moves, whatever was seen."""
    at = Moment(run, seen, now, timing or Timing())
    if isinstance(run.state, Ended):
        return Decision(run.state)
    if isinstance(run.state, Ending):
        return closing.tidied_late(at, run.state)
    return _late(at, Decision(run.state, message=seen.outage))


def refuse(run: Run, seen: Observed, now: datetime, problem: str, timing: Timing | None = None) -> Decision:
    """Return what follows when a part outside refused a step: the run fails; one that is over is left as it is."""
    at = Moment(run, seen, now, timing or Timing())
    if run.over:
        return stay(at, message=problem, again=at.later)
    return fail(at, say.StepRefused(problem))


def _late(at: Moment, waited: Decision) -> Decision:
    match at.run.state:
        case Gated():
            return gate.timed_out(at, waited)
        case PoweringOn() | Preparing() as state:
            return fail(at, say.PowerFailed(state.attempt, at.seen.job.problem if at.seen.job else at.seen.outage))
        case Netbooting():
            return netboot.never_netbooted(at)
        case Attesting():
            return netboot.attestation_late(at)
        case AwaitingKey():
            return netboot.key_late(at)
        case Proven():
            return fail(at, say.StepRefused(at.seen.outage or waited.message))
        case Erasing():
            return disk.stalled(at)
        case HandingOver():
            return disk.hand_over_failed(at)
        case Configuring():
            return disk.seed_never_fetched(at)
        case AwaitingCheck():
            return closing.check_never_came(at)
        case PoweringDown():
            return closing.power_off_late(at)
        case Withdrawing():
            return closing.word_never_came(at)
        case _:
            return fail(at, say.StepRefused(at.seen.outage or waited.message))
