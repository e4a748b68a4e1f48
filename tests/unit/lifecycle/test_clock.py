"""A step of the wall clock, told from its running, and what it does to a wait."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as some

from fleetd.core.lifecycle.clock import Reading, begun_anew, counted_from, step_between
from fleetd.core.lifecycle.states import STATES, Ended, Erasing
from fleetd.core.lifecycle.table import NOW, sample_state

RUNS = some.floats(0, 40 * 86400)
STATE = sample_state(STATES["netbooting"])


@given(RUNS, some.floats(-0.0005, 0.0005))
def test_a_clock_that_runs_and_is_slewed_is_never_called_stepped(seconds: float, slew: float) -> None:
    later = Reading(NOW + timedelta(seconds=seconds * (1 + slew)), 100 + seconds)

    assert step_between(Reading(NOW, 100), later) == timedelta()


@given(RUNS, some.floats(200, 1e8), some.sampled_from((1, -1)))
def test_a_clock_that_was_set_is_seen_to_within_its_slew(seconds: float, by: float, way: int) -> None:
    if by <= 60 + seconds / 1000:
        return
    later = Reading(NOW + timedelta(seconds=seconds + way * by), 100 + seconds)

    assert abs(step_between(Reading(NOW, 100), later).total_seconds() - way * by) < 1


def test_a_wait_begins_anew_after_a_step_forth() -> None:
    stepped = NOW + timedelta(hours=5)

    state = begun_anew(STATE, stepped, stepped)

    assert state.deadline == stepped + (STATE.deadline - STATE.since)


def test_a_wait_that_began_after_the_step_keeps_its_deadline() -> None:
    assert begun_anew(STATE, STATE.since - timedelta(seconds=1), NOW) == STATE
    assert begun_anew(STATE, None, NOW) == STATE


def test_a_state_that_began_in_the_future_of_a_clock_set_back_begins_now() -> None:
    now = STATE.since - timedelta(hours=3)

    state = begun_anew(STATE, now, now)

    assert (state.since, state.deadline) == (now, now + (STATE.deadline - STATE.since))


def test_a_wait_inside_a_state_begins_anew_too() -> None:
    """As the minute for evidence after a Workflow's success: a step of more than that must not end it."""
    told = Erasing(NOW, NOW + timedelta(hours=2), succeeded_at=NOW + timedelta(minutes=20))

    forth = begun_anew(told, NOW + timedelta(minutes=22), NOW + timedelta(minutes=22))
    back = begun_anew(told, NOW - timedelta(hours=1), NOW - timedelta(hours=1))

    assert isinstance(forth, Erasing)
    assert isinstance(back, Erasing)
    assert forth.succeeded_at == NOW + timedelta(minutes=22)
    assert back.succeeded_at == NOW - timedelta(minutes=40), "as long after its beginning as before"


@pytest.mark.parametrize("name", STATES)
@given(step=some.timedeltas(timedelta(days=-400), timedelta(days=400)))
def test_no_step_makes_a_deadline_pass_that_had_not_passed(name: str, step: timedelta) -> None:
    before, now = sample_state(STATES[name]), NOW + step

    state = begun_anew(before, now, now)

    if isinstance(before, Ended):
        assert state == before
    else:
        assert state.deadline > now
        assert begun_anew(state, now, now) == state, "a second look changes nothing more"


def test_the_age_of_a_check_counts_from_the_step_where_that_is_later() -> None:
    assert counted_from(NOW, None) == NOW
    assert counted_from(NOW, NOW + timedelta(hours=1)) == NOW + timedelta(hours=1)
    assert counted_from(NOW, NOW - timedelta(hours=1)) == NOW
