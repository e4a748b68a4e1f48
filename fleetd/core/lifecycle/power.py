"""Power jobs: tried again with growing pauses, never after refused credentials, and never believed without a look."""

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto

from fleetd.core.lifecycle.decision import Decision, Moment, stay
from fleetd.core.lifecycle.effects import Effect, PowerJob
from fleetd.core.lifecycle.states import Ending, HandingOver, Off, PoweringDown, PoweringOn
from fleetd.core.outside import JobOutcome, JobSeen, PowerState, PowerStep

Driving = PoweringOn | HandingOver | PoweringDown | Ending
"""The states that carry the attempts of a job."""


class Drive(Enum):
    """How far a job has come, apart from waiting."""

    DONE = auto()
    REFUSED = auto()


@dataclass(frozen=True, slots=True)
class Problem:
    """What went wrong with the last job."""

    attempt: int
    text: str


def drive(at: Moment, state: Driving, steps: tuple[PowerStep, ...], message: str, *before: Effect) -> Decision | Drive:
    """Start the job of the state, wait for it, or begin the next attempt after a pause.

    `before` are effects that come right before the job. Where the class says that its BMCs take a boot device only while
    the machine is off, switching off is a job of its own, and the rest waits until the BMC says that it is off.
    """
    if not isinstance(state, PoweringOn | HandingOver) or not _off_first(at, state):
        return _drive(at, state, steps, message, *before)
    if state.off is Off.NOT_ASKED:
        state = replace(state, off=Off.UNDER_WAY)
    driven = _drive(at, state, steps[:1], message)
    if driven is not Drive.DONE:
        return driven
    if at.seen.power is not PowerState.OFF:
        return stay(at, message=f"{message} Waiting for the BMC to say that the machine is off.")
    return replace(stay(at, message=message, again=at.now), state=replace(state, off=Off.SEEN, tried_at=None))


def _off_first(at: Moment, state: PoweringOn | HandingOver) -> bool:
    rules = at.seen.machine_class
    return rules is not None and rules.quirks.off_before_boot_device and state.off is not Off.SEEN


def _drive(at: Moment, state: Driving, steps: tuple[PowerStep, ...], message: str, *before: Effect) -> Decision | Drive:
    if state.tried_at is None:
        started = replace(state, tried_at=at.now)
        return replace(stay(at, *before, PowerJob(state.job, steps), message=message), state=started)
    if at.now < state.tried_at:
        failed = f"The BMC failed at try {state.attempt - 1}; trying again after a pause."
        return stay(at, message=f"{message} {failed}", again=state.tried_at)
    job = at.seen.job
    if job is None:
        return stay(at, message=message)
    if job.outcome is JobOutcome.COMPLETED:
        return Drive.DONE
    if job.outcome is JobOutcome.CREDENTIALS_REFUSED:
        return Drive.REFUSED
    if job.outcome is JobOutcome.ABSENT:
        return stay(at, *before, PowerJob(state.job, steps), message=message)
    if job.outcome is JobOutcome.FAILED or at.now >= state.tried_at + at.timing.job:
        return _next_attempt(at, state, job, message)
    return stay(at, message=message)


def _next_attempt(at: Moment, state: Driving, job: JobSeen, message: str) -> Decision:
    pause = at.timing.pause_after(state.attempt)
    following = replace(state, attempt=state.attempt + 1, tried_at=at.now + pause)
    text = f"{message} The BMC failed: {job.problem or 'no answer'}; trying again."
    return replace(stay(at, message=text, again=at.now + pause), state=following)


def tried_since(state: Driving) -> datetime:
    """Return when the present attempt began."""
    return state.tried_at or state.since
