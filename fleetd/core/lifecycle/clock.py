"""What a stepped clock must not do: end a wait, or make a fleet late.

A wall clock that NTP slews stays beside the monotonic one; a clock that is set, or a virtual machine that was paused, leaves it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta

from fleetd.core.lifecycle.states import Ended, State

SLACK = timedelta(seconds=60)
"""A difference that is no step."""
SLEW = 1 / 1000
"""Share of the time that has passed by which a clock may be slewed meanwhile; the kernel's limit is 500 ppm."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Both clocks of a host at one moment; `monotonic` in seconds, comparable within one boot."""

    wall: datetime
    monotonic: float


def step_between(earlier: Reading, later: Reading) -> timedelta:
    """Return how far the wall clock was set forth (or back, below zero) in between; zero when it only ran.

    Zero as well when `later` was read first: two processes may write their readings in another order than they read.
    """
    ran = timedelta(seconds=later.monotonic - earlier.monotonic)
    if ran < timedelta():
        return timedelta()
    moved = (later.wall - earlier.wall) - ran
    return moved if abs(moved) > SLACK + ran * SLEW else timedelta()


def begun_anew(state: State, stepped_at: datetime | None, now: datetime) -> State:
    """Return the state as if it had begun at the step, where the clock was stepped since it began.

    Where the clock was set back, a state that began in what is now the future begins now. What it notes of times in
    between goes along: no wait inside it may end by a step either.
    """
    length = state.deadline - state.since
    if isinstance(state, Ended):
        return state
    if state.since > now + SLACK:
        back = state.since - now
        return replace(state, since=now, deadline=now + length, **{name: at - back for name, at in _noted(state)})
    if stepped_at is None or state.since >= stepped_at:
        return state
    later = {name: max(at, stepped_at) for name, at in _noted(state)}
    return replace(state, since=stepped_at, deadline=stepped_at + length, **later)


def _noted(state: State) -> Iterator[tuple[str, datetime]]:
    """Yield the times that a state notes, beside its beginning and its deadline."""
    for each in fields(state):
        value = getattr(state, each.name)
        if isinstance(value, datetime) and each.name not in {"since", "deadline"}:
            yield each.name, value


def counted_from(since: datetime, stepped_at: datetime | None) -> datetime:
    """Return from when the age of a check counts: nobody is late for a time that never passed."""
    return since if stepped_at is None else max(since, stepped_at)
