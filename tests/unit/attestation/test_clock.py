"""The counters and the clock of a TPM between two checks."""

import pytest

from fleetd.core.attestation.attest import TpmClock
from fleetd.core.attestation.clock import EarlierClock, judge_clock
from fleetd.core.findings.boot import ClockOffPace, ClockWentBack, TpmCleared

HOUR = 3_600_000


def clock(milliseconds=10 * HOUR, resets=5, restarts=2, *, safe=True):
    return TpmClock(milliseconds, resets, restarts, safe)


def found(now, then=None, seconds=3600.0):
    return judge_clock(EarlierClock(then or clock(), seconds), now)


def codes(now, then=None, seconds=3600.0):
    return [finding.code for finding in found(now, then, seconds)]


def test_a_clock_that_keeps_pace_is_good():
    assert codes(clock(11 * HOUR)) == []


def test_a_first_quote_has_nothing_to_be_held_against():
    assert judge_clock(None, clock()) == ()


def test_an_unsafe_clock_is_noted():
    assert [finding.code for finding in judge_clock(None, clock(safe=False))] == ["tpm-clock-unsafe"]


@pytest.mark.parametrize("slack", [-420_000, 420_000])
def test_a_tenth_and_a_minute_of_drift_are_allowed(slack):
    assert codes(clock(11 * HOUR + slack)) == []


@pytest.mark.parametrize("slack", [-420_001, 420_001])
def test_more_drift_than_that_is_a_quote_made_at_another_time(slack):
    assert codes(clock(11 * HOUR + slack)) == ["tpm-clock-pace"]


def test_a_quote_made_before_tampering_and_sent_an_hour_later_is_out_of_pace():
    assert found(clock(10 * HOUR + 61_030), seconds=3600.4) == (ClockOffPace(tpm_seconds=61, server_seconds=3600),)


def test_a_clock_that_goes_back_within_one_boot_is_an_old_quote():
    assert found(clock(10 * HOUR - 1), seconds=0.0) == (ClockWentBack("clock"),)


def test_the_same_clock_twice_at_once_is_good():
    assert codes(clock(), seconds=0.0) == []


def test_a_restart_counter_that_goes_back_is_an_old_quote():
    assert found(clock(11 * HOUR, restarts=1)) == (ClockWentBack("restart counter"),)


def test_an_unclean_power_cut_sets_the_clock_back_with_one_reset_more():
    assert codes(clock(9 * HOUR, resets=6, restarts=0, safe=False)) == ["tpm-clock-unsafe"]


def test_after_a_resume_the_clock_need_not_keep_pace():
    assert codes(clock(10 * HOUR + 5, restarts=3), seconds=86400.0) == []


def test_after_a_resume_the_clock_must_not_go_back():
    assert found(clock(9 * HOUR, restarts=3)) == (ClockWentBack("clock"),)


@pytest.mark.parametrize("resets", [0, 1, 4])
def test_fewer_resets_than_before_mean_that_the_tpm_was_cleared(resets):
    assert found(clock(1000, resets=resets, restarts=0)) == (TpmCleared(5, resets),)


def test_a_tpm_that_was_cleared_twice_is_told_as_cleared():
    assert codes(clock(10, 0, 0), then=clock(HOUR, 0, 0)) == ["tpm-cleared"]


def test_a_fresh_tpm_whose_clock_stands_still_was_not_cleared():
    assert codes(clock(HOUR, 0, 0), clock(HOUR, 0, 0), seconds=1.0) == []


def test_after_a_resume_the_clock_may_stand_where_it_stood():
    assert codes(clock(10 * HOUR, 5, 3)) == []
