"""Many machines and more than one worker at once."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import func, select

from fleetd.app import runs
from fleetd.app.look import look_at
from fleetd.app.poll import poll
from fleetd.app.report import send_reports
from fleetd.core.classes import Budget, TagRules
from fleetd.core.names import IntentKind, MachineId
from fleetd.store.machines import MachineRow, due, wake
from fleetd.store.runs import RunRow
from tests.worlds import Stage, a_class, a_declaration, an_intent


def looks_by_two_workers(stage: Stage) -> None:
    """Let two workers look at everything, each machine told to both."""
    poll(stage.world())
    for _ in range(4):
        with stage.sessions.begin() as session:
            machines = due(session, stage.clock.now(), 100)
        with ThreadPoolExecutor(2) as workers:
            for done in [workers.submit(look_at, machine, stage.world()) for machine in machines for _ in (1, 2)]:
                done.result()
    send_reports(stage.world())


@pytest.mark.slow
def test_ten_machines_at_once_end_active_and_none_is_erased_twice(stage: Stage) -> None:
    numbers = range(10, 20)
    for number in numbers:
        stage.netbox.declare(a_declaration(number, intent=an_intent(machine=number)))

    for _ in range(14):
        looks_by_two_workers(stage)
        stage.live()
        stage.clock.pass_by(seconds=6)
    looks_by_two_workers(stage)

    with stage.sessions() as session:
        standing = session.scalars(select(MachineRow.standing).where(MachineRow.id.in_(numbers))).all()
    assert set(standing) == {"active"}
    assert sorted(machine for machine, _ in stage.erased) == list(numbers)
    assert stage.tinkerbell.workflows == {}
    assert not any(stage.tinkerbell.allowed.values())


@pytest.mark.slow
def test_a_budget_of_one_lets_one_active_machine_out_at_a_time(stage: Stage) -> None:
    numbers = (10, 11, 12)
    for number in numbers:
        stage.netbox.declare(a_declaration(number, intent=an_intent(machine=number)))
    for _ in range(14):
        stage.turn()
        stage.live()
        stage.clock.pass_by(seconds=6)
    stage.classes.classes["lab-alpine"] = a_class(budget=Budget(max_unavailable=1))
    for number in numbers:
        stage.netbox.ask(an_intent(machine=number), number)

    most, ended = 0, 0
    for _ in range(60):
        looks_by_two_workers(stage)
        with stage.sessions() as session:
            taken = RunRow.began_at.is_not(None) & RunRow.ended_at.is_(None)
            most = max(most, session.scalar(select(func.count()).select_from(RunRow).where(taken)) or 0)
            ended = session.scalar(select(func.count()).select_from(RunRow).where(RunRow.ended_at.is_not(None))) or 0
        if ended == 6:
            break
        stage.live()
        stage.clock.pass_by(seconds=61)

    assert most == 1
    assert ended == 6


@pytest.mark.slow
def test_the_budget_of_a_tag_holds_over_the_classes_of_its_machines_and_the_wait_is_shown(stage: Stage) -> None:
    stage.classes.classes["lab-cloud"] = replace(a_class(), slug="lab-cloud")
    kinds = {10: "lab-alpine", 11: "lab-cloud", 12: "lab-cloud"}
    for number, kind in kinds.items():
        tags = () if number == 12 else ("edge",)
        stage.netbox.declare(a_declaration(number, machine_class=kind, tags=tags, intent=an_intent(machine=number)))
    for _ in range(14):
        stage.turn()
        stage.live()
        stage.clock.pass_by(seconds=6)
    stage.classes.tags["edge"] = TagRules(Budget(max_unavailable=1))
    stage.netbox.ask(an_intent(machine=10), 10)
    stage.turn()
    for number in (11, 12):
        stage.netbox.ask(an_intent(machine=number), number)
    stage.turn()

    assert stage.run(10).began_at is not None
    assert stage.run(11).began_at is None
    assert stage.netbox.shown(11)["message"] == (
        "The availability budget has no room: tag edge: 1 of 2 out of service, 1 allowed (max_unavailable 1)."
    )
    assert stage.netbox.shown(11)["findings"][0]["next_step"].startswith("Wait until")
    assert stage.run(12).began_at is not None, "it has no such tag"

    for _ in range(30):
        stage.turn()
        stage.live()
        stage.clock.pass_by(seconds=61)

    assert stage.run(11).outcome == "succeeded", "it went on when the other was active again"


def test_a_rule_that_was_lifted_after_the_request_still_demands_a_second_person(stage: Stage) -> None:
    stage.netbox.ask(an_intent(two_person=True))
    stage.turn()

    assert stage.netbox.shown()["message"] == "The request of anna waits for a second person."
    assert stage.run().began_at is None


def test_a_tag_can_demand_a_second_person_for_what_erases(stage: Stage) -> None:
    stage.classes.tags["vault"] = TagRules(two_person=True)
    stage.netbox.declare(a_declaration(tags=("vault",)))
    stage.netbox.ask(an_intent())
    stage.turn()
    assert stage.netbox.shown()["message"] == "The request of anna waits for a second person."

    record = stage.netbox.declared[MachineId(7)]
    stage.netbox.ask(replace(record.intent, approved_by="bea"))
    stage.clock.pass_by(minutes=2)
    stage.turn()

    assert stage.run().began_at is not None


def test_no_more_runs_than_allowed_pass_the_gate(stage: Stage) -> None:
    stage.settings = replace(stage.settings, max_runs=2)
    for number in range(10, 16):
        stage.netbox.declare(a_declaration(number, intent=an_intent(IntentKind.ATTEST, machine=number)))

    looks_by_two_workers(stage)

    with stage.sessions() as session:
        assert session.scalar(select(func.count()).where(RunRow.began_at.is_not(None))) == 2


def test_a_wake_that_comes_while_somebody_looks_is_not_lost(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    poll(stage.world())

    class Waking:
        """A provisioner during whose work the machine is woken once."""

        woken = False

        def __getattr__(self, name: str):
            if not Waking.woken:
                Waking.woken = True
                with stage.sessions.begin() as session:
                    wake(session, MachineId(7), stage.clock.now())
            return getattr(stage.tinkerbell, name)

    look_at(MachineId(7), stage.world(provisioner=Waking()))

    assert Waking.woken
    with stage.sessions() as session:
        row = session.get_one(MachineRow, 7)
        assert row.lease_until is None
        assert row.next_look_at is not None


def test_calls_of_the_machine_and_looks_do_not_wait_for_one_another_in_a_circle(stage: Stage) -> None:
    intent = an_intent()
    stage.netbox.ask(intent)
    poll(stage.world())
    look_at(MachineId(7), stage.world())

    def looks() -> None:
        for _ in range(15):
            with stage.sessions.begin() as session:
                wake(session, MachineId(7), stage.clock.now())
            look_at(MachineId(7), stage.world())

    def calls(first: int) -> None:
        for number in range(first, first + 15):
            with stage.sessions.begin() as session:
                told = runs.MachineEvent(number, "erase", "progress", 1.0)
                runs.record_event(session, intent.id, told, stage.clock.now())
            with stage.sessions.begin() as session:
                runs.grant(session, intent.id, "erase", "disk7", stage.clock.now())

    with ThreadPoolExecutor(3) as workers:
        for done in [workers.submit(looks), workers.submit(calls, 0), workers.submit(calls, 100)]:
            done.result()

    assert stage.run().state_name in {"netbooting", "powering-on"}
