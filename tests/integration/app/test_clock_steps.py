"""The clock of the service host is set forth or back: nothing fails, nobody is late, and nothing destructive starts at once."""

from dataclasses import replace
from datetime import timedelta
from types import ModuleType

import pytest

from fleetd.app import idle as idle_module
from fleetd.app import look as look_module
from fleetd.app import runs
from fleetd.app.sweep import sweep
from fleetd.core.lifecycle.leave import NotNow
from fleetd.core.names import IntentKind, MachineId, RunId
from fleetd.store.clock import STEPPED, accept_clock, clock_holds, stepped_at, watch_clock
from fleetd.store.machines import MachineRow
from fleetd.store.outbox import Mark
from tests.integration.app.test_failures import until
from tests.integration.app.test_walks import active
from tests.worlds import Stage, an_intent

M = MachineId(7)
SETTLE = timedelta(minutes=5)


def holds(stage: Stage) -> bool:
    with stage.sessions() as session:
        return clock_holds(session, stage.clock.now(), SETTLE)


def test_a_clock_set_forth_by_days_ends_no_wait(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)

    stage.clock.step(days=3)
    stage.turn()

    assert stage.run().state_name == "netbooting"
    for _ in range(3):
        stage.clock.pass_by(minutes=4)
        stage.turn()
    assert stage.run().state_name == "netbooting", "the wait began anew"
    stage.clock.pass_by(minutes=4)
    stage.turn()
    assert stage.run().code == "netboot", "and it ends by the time that really passes"


def set_after(stage: Stage, monkeypatch: pytest.MonkeyPatch, module: ModuleType, function: str) -> None:
    """Let the clock be set forth by days each time that a function of the module has its answer."""
    answer = getattr(module, function)

    def answered_and_set(*asked):
        answered = answer(*asked)
        stage.clock.step(days=3)
        return answered

    monkeypatch.setattr(module, function, answered_and_set)


def test_a_clock_set_in_the_middle_of_a_look_ends_no_wait(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)

    set_after(stage, monkeypatch, look_module, "observe")
    look_module.look_at(M, stage.world())

    assert stage.run().state_name == "netbooting"


def test_a_clock_set_in_the_middle_of_a_look_at_an_idle_machine_makes_it_not_late(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    active(stage)

    set_after(stage, monkeypatch, idle_module, "watch_clock")
    look_module.look_at(M, stage.world())

    assert stage.machine().check_state == "ok"


def test_a_reading_that_is_written_after_a_later_one_is_no_step(stage: Stage) -> None:
    watch_clock(stage.sessions, stage.clock)
    early = replace(stage.clock)
    stage.clock.pass_by(seconds=1)
    stage.clock.step(hours=1)
    watch_clock(stage.sessions, stage.clock)
    with stage.sessions() as session:
        noted = stepped_at(session)

    watch_clock(stage.sessions, early)

    with stage.sessions() as session:
        assert stepped_at(session) == noted
        assert "-3600" not in session.get_one(Mark, STEPPED).value


def test_a_clock_set_forth_makes_nobody_late_or_lost(stage: Stage) -> None:
    active(stage)

    stage.clock.step(days=400)
    sweep(stage.world())
    stage.turn()

    assert stage.machine().check_state == "ok"
    stage.clock.pass_by(minutes=151)
    stage.turn()
    assert stage.machine().check_state == "late", "who really stays away is late all the same"


def test_after_a_step_nothing_destructive_starts_until_it_has_settled(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "erasing")
    run = RunId(stage.run().id)
    stage.clock.step(hours=1)
    stage.turn()

    with stage.sessions.begin() as session:
        answer = runs.grant(session, run, "erase", "disk7", stage.clock.now())
    assert isinstance(answer, NotNow)
    assert not answer.stop

    stage.clock.pass_by(minutes=6)
    assert stage.walk().outcome == "succeeded"
    assert stage.erased == [(M, "disk7")]


def test_a_new_run_waits_for_the_clock_and_says_so(stage: Stage) -> None:
    active(stage)
    stage.clock.step(hours=1)
    stage.netbox.ask(an_intent(IntentKind.WIPE))
    stage.turn()
    assert stage.run().findings[0]["code"] == "clock-untrusted"

    stage.clock.pass_by(minutes=6)

    assert stage.walk().outcome == "succeeded"


def test_a_clock_set_back_holds_what_is_destructive_and_looks_go_on(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)
    stage.clock.step(hours=-5)
    sweep(stage.world())
    assert not holds(stage)

    due = stage.machine().next_look_at
    assert due is not None
    assert due <= stage.clock.now(), "not first in five hours"
    stage.clock.pass_by(minutes=1)
    stage.turn()
    assert stage.run().state_name == "netbooting"


def test_a_check_of_before_is_not_the_one_that_is_asked_for_after_the_clock_was_set_back(stage: Stage) -> None:
    active(stage)
    sweep(stage.world())
    stage.clock.step(hours=1)
    sweep(stage.world())
    stage.check()
    stage.clock.step(hours=-1)
    stage.netbox.ask(an_intent(IntentKind.ATTEST))
    stage.turn()
    stage.turn()

    assert stage.run().state_name == "awaiting-check"
    stage.clock.pass_by(minutes=6)
    stage.check()
    assert stage.walk().outcome == "succeeded"


def test_a_machine_that_becomes_late_while_a_check_is_asked_for_has_not_answered_yet(stage: Stage) -> None:
    active(stage)
    stage.netbox.ask(an_intent(IntentKind.ATTEST))
    stage.turn()
    stage.clock.pass_by(minutes=2)
    with stage.sessions.begin() as session:
        row = session.get_one(MachineRow, M)
        row.checked_at, row.check_state = stage.clock.now(), "late"
    stage.turn()

    assert stage.run().state_name == "awaiting-check"
    stage.check()
    assert stage.walk().outcome == "succeeded"


def test_a_person_accepts_a_clock_that_was_wrong_before(stage: Stage) -> None:
    active(stage)
    stage.clock.step(days=400)
    stage.turn()
    stage.clock.step(days=-400)
    stage.turn()
    stage.clock.pass_by(minutes=6)
    assert not holds(stage), "rows of a future time would hold everything for a year"

    with stage.sessions.begin() as session:
        accept_clock(session, stage.clock, "olga", "NTP was wrong")

    assert holds(stage)


def test_time_that_only_passes_is_no_step_also_when_nobody_looked_for_weeks(stage: Stage) -> None:
    active(stage)
    stage.clock.pass_by(days=30)
    stage.turn()

    assert stage.machine().check_state == "lost"
    assert holds(stage)
