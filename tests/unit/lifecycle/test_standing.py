"""Late, lost, and what an owner sees of a machine while no run changes it."""

from datetime import timedelta

import pytest

from fleetd.core.lifecycle.standing import next_change, next_check_state, phase_of
from fleetd.core.lifecycle.states import STATES, Ended, Outcome
from fleetd.core.lifecycle.table import NOW, quiet, sample_state
from fleetd.core.lifecycle.timing import Timing
from fleetd.core.names import IntentKind, Phase

TIMING = Timing()


def after(**time: float) -> str:
    return next_check_state("ok", NOW, NOW + timedelta(**time), TIMING, offline=False)


def test_a_machine_is_late_after_two_and_a_half_intervals_and_lost_after_a_day() -> None:
    assert after(minutes=149) == "ok"
    assert after(minutes=150) == "late"
    assert after(hours=23) == "late"
    assert after(hours=24) == "lost"


def test_a_drifted_machine_is_not_called_late_but_lost_when_it_is() -> None:
    assert next_check_state("drifted", NOW, NOW + timedelta(hours=5), TIMING, offline=False) == "drifted"
    assert next_check_state("drifted", NOW, NOW + timedelta(hours=25), TIMING, offline=False) == "lost"


def test_a_machine_that_is_not_checked_is_never_late() -> None:
    assert next_check_state("none", NOW, NOW + timedelta(days=9), TIMING, offline=False) == "none"


def test_the_next_look_is_when_the_state_of_the_checks_changes() -> None:
    assert next_change("ok", NOW, TIMING) == NOW + timedelta(minutes=150)
    assert next_change("late", NOW, TIMING) == NOW + timedelta(hours=24)
    assert next_change("lost", NOW, TIMING) is None


@pytest.mark.parametrize("name", sorted(set(STATES) - {"ended", "ending"}))
def test_an_open_run_shows_the_phase_of_its_state(name: str) -> None:
    run, _ = quiet(IntentKind.PROVISION, sample_state(STATES[name]))

    assert phase_of("declared", run, quarantined=False) in Phase


def test_quarantine_shows_over_everything_but_a_run() -> None:
    run, _ = quiet(IntentKind.WIPE, sample_state(STATES["erasing"]))

    assert phase_of("active", None, quarantined=True) is Phase.QUARANTINED
    assert phase_of("active", run, quarantined=True) is Phase.ERASING


def test_a_failed_attest_leaves_an_active_machine_active() -> None:
    run, _ = quiet(IntentKind.ATTEST, Ended(NOW, NOW, Outcome.FAILED, "check-never-came"))

    assert phase_of("active", run, quarantined=False) is Phase.ACTIVE
    assert phase_of("declared", run, quarantined=False) is Phase.FAILED


def test_a_cancelled_run_leaves_what_stood_before() -> None:
    run, _ = quiet(IntentKind.PROVISION, Ended(NOW, NOW, Outcome.CANCELLED))

    assert phase_of("wiped", run, quarantined=False) is Phase.WIPED
