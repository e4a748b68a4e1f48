"""The pauses that machines are told to make."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as some

from fleetd.core.lifecycle.timing import Timing

TIMING = Timing()
WAITS = some.timedeltas(timedelta(), timedelta(days=30))


def test_a_machine_that_waits_for_a_person_asks_every_few_seconds_at_first_and_every_five_minutes_later() -> None:
    assert TIMING.pause_for_approval(timedelta()) == timedelta(seconds=3)
    assert TIMING.pause_for_approval(timedelta(minutes=2)) == timedelta(seconds=3)
    assert TIMING.pause_for_approval(timedelta(minutes=10)) == timedelta(seconds=15)
    assert TIMING.pause_for_approval(timedelta(hours=5)) == timedelta(minutes=5)


@given(WAITS, some.floats(0, 1, exclude_max=True))
def test_a_pause_stays_between_the_shortest_and_the_longest(waited: timedelta, spread: float) -> None:
    pause = TIMING.pause_for_approval(waited, spread)

    assert TIMING.approval_pause <= pause <= TIMING.longest_approval_pause


@given(WAITS, WAITS, some.floats(0, 1, exclude_max=True))
def test_a_machine_that_has_waited_longer_never_asks_more_often(
    one: timedelta, other: timedelta, spread: float
) -> None:
    short, long = sorted((one, other))

    assert TIMING.pause_for_approval(short, spread) <= TIMING.pause_for_approval(long, spread)
