"""What goes wrong, what it becomes, and what is never touched."""

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from sqlalchemy import text

from fleetd.app import runs
from fleetd.app.fleet_reports import FleetReporter
from fleetd.app.look import look_at
from fleetd.app.poll import poll
from fleetd.app.wishes import WishRefusedError, declare_lost, forget, request_release
from fleetd.core.declaration import BaselineDecision, DeclaredKey, Disk, Vanished
from fleetd.core.findings import lifecycle as say
from fleetd.core.findings.identity import KeyNotApproved
from fleetd.core.identity import shown
from fleetd.core.names import DiskSerial, IntentKind, MachineId
from fleetd.core.outside import JobOutcome, Part, PowerState, WorkflowOutcome
from fleetd.store.checks import changes_of
from fleetd.store.endorsement_keys import ProvenKey, record_proven, waiting_count
from tests.integration.app.test_walks import active
from tests.worlds import Stage, a_class, a_declaration, an_intent

M = MachineId(7)


def until(stage: Stage, state: str, turns: int = 30, *, dark: bool = False) -> None:
    """Take turns until the run is in the state; `dark` machines do nothing meanwhile."""
    for _ in range(turns):
        stage.turn()
        if stage.run().state_name == state:
            return
        if not dark:
            stage.live()
        stage.clock.pass_by(seconds=6)
    raise AssertionError(f"still {stage.run().state_name}")


def closed(stage: Stage) -> bool:
    return not any(stage.tinkerbell.allowed.values()) and stage.tinkerbell.workflows == {}


def test_an_unapproved_key_waits_erases_nothing_and_goes_on_when_approved(stage: Stage) -> None:
    stage.unapproved.add(M)
    stage.netbox.ask(an_intent())
    until(stage, "awaiting-key")
    stage.clock.pass_by(hours=5)
    stage.turn()
    assert stage.erased == []
    assert stage.netbox.shown()["phase"] == "waiting"

    stage.unapproved.clear()

    assert stage.walk().outcome == "succeeded"


def test_a_key_that_nobody_approves_fails_after_three_days_and_the_machine_is_switched_off(stage: Stage) -> None:
    stage.unapproved.add(M)
    stage.netbox.ask(an_intent())
    until(stage, "awaiting-key")

    stage.clock.pass_by(days=3, minutes=1)
    run = stage.walk()

    assert (run.outcome, run.code) == ("failed", "approval")
    assert stage.bmc.power[M] is PowerState.OFF
    assert closed(stage)


def rejected(public_hash: str = "ab" * 32, status: str = "rejected") -> DeclaredKey:
    return DeclaredKey(int(public_hash[0], 16), public_hash, "", status)


def waiting_with(stage: Stage, key: DeclaredKey, kind: IntentKind = IntentKind.PROVISION) -> None:
    stage.unapproved.add(M)
    stage.noted[M] = (KeyNotApproved(shown(key.public_hash)),)
    stage.netbox.ask(an_intent(kind))
    until(stage, "awaiting-key")


def test_a_key_that_a_person_rejects_ends_the_wait_and_the_machine_is_switched_off(stage: Stage) -> None:
    waiting_with(stage, rejected())

    stage.netbox.declare(replace(stage.netbox.declared[M], keys=(rejected(),)))
    run = stage.walk()

    assert (run.outcome, run.code) == ("failed", "ek-rejected")
    assert stage.erased == []
    assert stage.bmc.power[M] is PowerState.OFF
    assert closed(stage)


def test_a_rejected_key_of_a_machine_that_went_away_is_nothing_that_waits_for_a_person(stage: Stage) -> None:
    stage.turn()
    known = ProvenKey("ab" * 32, b"public", b"name", "p-256", None, "", "", "", "", "none", ())
    with stage.sessions.begin() as session:
        record_proven(session, known, stage.clock.now())
        record_proven(session, replace(known, public_hash="cd" * 32), stage.clock.now())
        assert waiting_count(session) == 2

    stage.netbox.declare(replace(stage.netbox.declared[M], keys=(rejected(), rejected("cd" * 32, "pending"))))
    stage.turn()

    with stage.sessions() as session:
        assert waiting_count(session) == 1


@pytest.mark.parametrize(
    "others",
    [
        (rejected(), rejected("cd" * 32, "pending")),
        (rejected(), rejected("cd" * 32, "approved")),
        (rejected("cd" * 32),),
    ],
    ids=["another waits", "another is approved", "it is an older one that was rejected"],
)
def test_a_key_that_is_rejected_ends_no_wait_while_another_one_may_be_the_machine_s(
    stage: Stage, others: tuple[DeclaredKey, ...]
) -> None:
    waiting_with(stage, rejected())

    stage.netbox.declare(replace(stage.netbox.declared[M], keys=others))
    stage.clock.pass_by(hours=1)
    stage.turn()
    stage.turn()

    assert stage.run().state_name == "awaiting-key"


@pytest.mark.parametrize("siblings", [(), (rejected("ef" * 32, "pending"),)], ids=["alone", "with one never decided"])
def test_a_run_that_goes_on_beside_a_rejected_key_does_not_say_that_a_person_is_awaited(
    stage: Stage, siblings: tuple[DeclaredKey, ...]
) -> None:
    """One key of the old board is approved still, that of the new one was rejected: nothing is left to decide in NetBox."""
    waiting_with(stage, rejected())

    stage.netbox.change(keys=(rejected(), rejected("cd" * 32, "approved"), *siblings))
    stage.clock.pass_by(hours=1)
    stage.turn()

    shown_now = stage.netbox.shown()
    assert [found["code"] for found in shown_now["findings"]] == ["ek-rejected"]
    assert "rejected" in shown_now["message"]
    assert "key waits for a person" not in shown_now["message"]

    stage.clock.pass_by(hours=73)
    assert stage.walk().code == "ek-rejected"


def test_refused_evidence_is_repeated_a_few_times_and_then_fails_with_nothing_erased(stage: Stage) -> None:
    stage.refused[M] = (say.BmcRequired("lab"),)
    stage.netbox.ask(an_intent())

    run = stage.walk(turns=80)

    assert (run.outcome, run.code) == ("failed", "attestation")
    assert stage.erased == []
    assert run.refusals == 4


def test_a_wrong_disk_on_the_machine_fails_with_the_guards_words_and_nothing_erased(stage: Stage) -> None:
    stage.serials[M] = "other"
    stage.netbox.ask(an_intent())

    run = stage.walk(turns=60, minutes=2)

    assert (run.outcome, run.code) == ("failed", "disk")
    assert "no disk has serial disk7" in run.message
    assert stage.erased == []
    assert closed(stage)


@pytest.mark.parametrize("kind", [IntentKind.PROVISION, IntentKind.WIPE, IntentKind.RETIRE])
def test_a_serial_confirmed_wrongly_is_refused_at_the_gate(stage: Stage, kind: IntentKind) -> None:
    stage.netbox.ask(an_intent(kind, confirmed_serial=DiskSerial("typo")))

    run = stage.walk()

    assert (run.outcome, run.code) == ("failed", "serial-not-confirmed")
    assert stage.tinkerbell.hardware == {}


def test_a_disk_that_two_machines_declare_is_refused(stage: Stage) -> None:
    stage.netbox.declare(a_declaration(8, disk=Disk(DiskSerial("disk7"))))
    stage.netbox.ask(an_intent())

    assert stage.walk().code == "disk-declared-twice"


@pytest.mark.parametrize(
    ("action", "code"),
    [("erase", "erase"), ("write-image", "image"), ("write-seed", "action-failed"), ("finish", "action-failed")],
)
def test_an_action_that_fails_names_itself_and_leaves_nothing_outside(stage: Stage, action: str, code: str) -> None:
    stage.failing[action] = "it broke."
    stage.netbox.ask(an_intent())

    run = stage.walk(turns=60, minutes=2)

    assert (run.outcome, run.code) == ("failed", code)
    assert "it broke" in run.message
    assert closed(stage)
    assert stage.bmc.power[M] is PowerState.OFF, "half an hour after the failure"


def test_a_machine_whose_class_keeps_failures_stays_on(stage: Stage) -> None:
    stage.classes.classes["lab-alpine"] = a_class(keep_on_failure=True)
    stage.failing["erase"] = "it broke"
    stage.netbox.ask(an_intent())

    stage.walk(turns=60, minutes=2)

    assert stage.bmc.power[M] is PowerState.ON
    assert closed(stage)


def test_success_without_evidence_fails_after_a_minute(stage: Stage) -> None:
    stage.mute.add("write-image")
    stage.netbox.ask(an_intent())

    run = stage.walk(turns=60, seconds=20)

    assert run.code == "evidence-missing"
    assert run.outcome == "failed"


def test_a_failed_workflow_without_a_word_names_the_silent_action(stage: Stage) -> None:
    stage.failing["write-seed"] = ""
    stage.mute.add("write-seed")
    stage.netbox.ask(an_intent())

    run = stage.walk(turns=60, minutes=2)

    assert run.code == "action-failed"
    assert "write-seed" in run.message


def test_a_workflow_that_cannot_be_rendered_fails_the_run(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    stage.turn()
    flow = stage.tinkerbell.workflows[stage.run().id, Part.ATTEST]
    flow.outcome, flow.problem = WorkflowOutcome.UNRENDERED, "no key image_url"

    assert stage.walk(turns=60, minutes=2).code == "workflow-not-rendered"


def test_an_erase_that_stands_still_for_fifteen_minutes_is_stalled(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "erasing")
    flow = stage.tinkerbell.workflows[stage.run().id, Part.DISK]
    flow.outcome = WorkflowOutcome.RUNNING
    stage.tell(stage.run().id, "erase", "started")
    stage.turn()
    stage.clock.pass_by(minutes=14)
    stage.tell(stage.run().id, "erase", "progress")
    stage.turn()
    stage.clock.pass_by(minutes=14)
    stage.turn()
    assert stage.run().state_name == "erasing", "progress moves the deadline"

    stage.clock.pass_by(minutes=2)
    stage.turn()

    assert stage.run().code == "stalled"


def test_a_machine_that_is_off_during_the_erase_is_started_again_and_goes_on(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "erasing")
    stage.tinkerbell.workflows[stage.run().id, Part.DISK].outcome = WorkflowOutcome.RUNNING
    stage.bmc.power[M] = PowerState.OFF
    boots = len(stage.bmc.booted)

    stage.clock.pass_by(minutes=3)
    stage.turn()

    assert len(stage.bmc.booted) == boots + 1
    assert stage.walk().outcome == "succeeded"


def test_a_silent_bmc_is_tried_again_and_then_fails_power(stage: Stage) -> None:
    stage.bmc.answer = JobOutcome.FAILED
    stage.netbox.ask(an_intent())

    run = stage.walk(turns=80, seconds=30)

    assert (run.outcome, run.code) == ("failed", "power")
    assert not any(stage.tinkerbell.allowed.values())


def test_refused_bmc_credentials_fail_at_once_and_the_bmc_machine_is_removed(stage: Stage) -> None:
    stage.bmc.answer = JobOutcome.CREDENTIALS_REFUSED
    stage.netbox.ask(an_intent())
    stage.turn()

    stage.clock.pass_by(seconds=6)
    stage.turn()

    assert stage.run().code == "bmc-credentials-refused"
    assert stage.bmc.machines == {}
    assert len([name for _, name in stage.bmc.jobs if name.startswith("netboot")]) <= 1


def test_a_bmc_that_refuses_the_login_while_its_state_is_asked_for_fails_the_run_at_once(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)
    stage.bmc.refuses = True

    for _ in range(20):
        stage.clock.pass_by(minutes=3)
        stage.turn()

    assert (stage.run().outcome, stage.run().code) == ("failed", "bmc-credentials-refused")
    assert "Secret bmc7" in stage.netbox.shown()["run"]["error"]
    assert stage.bmc.logins == 1, "refused credentials are never tried again"
    assert stage.bmc.machines == {}
    assert closed(stage)


def test_a_bmc_that_refuses_the_login_during_the_erase_ends_the_run_after_the_disk_is_done(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "erasing")
    stage.tinkerbell.workflows[stage.run().id, Part.DISK].outcome = WorkflowOutcome.RUNNING
    stage.bmc.refuses = True
    stage.clock.pass_by(minutes=3)
    stage.turn()
    assert stage.run().state_name == "erasing"
    assert "Secret bmc7" in stage.run().message

    run = stage.walk()

    assert (run.outcome, run.code) == ("failed", "bmc-credentials-refused")
    assert len(stage.erased) == 1, "the machine went on"
    assert stage.bmc.logins == 1


def test_a_bmc_secret_that_is_not_ready_is_waited_for(stage: Stage) -> None:
    stage.bmc.ready = False
    stage.netbox.ask(an_intent())
    stage.turn()
    assert "bmc7" in stage.run().message
    assert stage.tinkerbell.hardware == {}

    stage.bmc.ready = True
    stage.clock.pass_by(minutes=2)

    assert stage.walk().outcome == "succeeded"


def test_a_machine_that_never_netboots_fails_with_its_power_state(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    for _ in range(40):
        stage.turn()
        stage.clock.pass_by(minutes=1)

    run = stage.run()

    assert run.code == "netboot"
    assert "power" in run.message
    assert not any(stage.tinkerbell.allowed.values())


def test_a_seed_that_is_never_fetched_fails_the_run(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "configuring")

    stage.clock.pass_by(hours=1, minutes=1)
    stage.turn()

    assert stage.run().code == "seed-never-fetched"


def test_cancel_before_the_erase_ends_the_run_and_switches_off(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)

    stage.netbox.cancel()
    run = stage.walk()

    assert run.outcome == "cancelled"
    assert stage.erased == []
    assert stage.bmc.power[M] is PowerState.OFF
    assert closed(stage)
    assert stage.tinkerbell.deleted_running == []


def test_cancel_inside_the_erase_lets_the_action_end(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "erasing")
    run = stage.run()
    stage.tinkerbell.workflows[run.id, Part.DISK].outcome = WorkflowOutcome.RUNNING
    stage.tell(run.id, "guard", "started")
    stage.tell(run.id, "guard", "finished")
    from fleetd.app import runs

    with stage.sessions.begin() as session:
        assert isinstance(runs.grant(session, run.id, "erase", "disk7", stage.clock.now()), runs.Granted)

    stage.netbox.cancel()
    stage.turn()

    assert stage.run().state_name == "erasing"
    with stage.sessions.begin() as session:
        answer = runs.grant(session, run.id, "write-image", "disk7", stage.clock.now())
    assert isinstance(answer, runs.NotNow)
    assert answer.stop
    stage.tell(run.id, "erase", "finished")
    assert stage.walk().outcome == "cancelled"
    assert closed(stage)


def test_an_approved_retirement_cancels_a_run_and_follows_it(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)
    first = stage.run().id

    stage.netbox.ask(an_intent(IntentKind.RETIRE))
    stage.turn()
    run = stage.walk()

    assert run.id != first
    assert (run.kind, run.outcome) == ("retire", "succeeded")


def test_a_retirement_that_waits_for_approval_says_so_and_cancels_nothing(stage: Stage) -> None:
    active(stage)
    stage.netbox.ask(an_intent(IntentKind.RETIRE, approved=False))

    stage.turn()

    assert "second person" in stage.run().message
    assert stage.machine().standing == "active"


def test_an_intent_taken_back_before_the_erase_is_withdrawn(stage: Stage) -> None:
    stage.netbox.ask(an_intent(IntentKind.RETIRE, approved=False))
    stage.turn()
    stage.netbox.change(intent=None)
    stage.clock.pass_by(minutes=2)

    stage.turn()
    stage.clock.pass_by(minutes=2)
    stage.turn()

    assert stage.run().outcome == "withdrawn"


@pytest.mark.parametrize(
    "change",
    [
        {"disk": Disk(DiskSerial("new"))},
        {"machine_class": "other"},
        {"bmc_address": "192.0.2.99"},
        {"interfaces": ()},
    ],
    ids=["disk", "class", "bmc", "mac"],
)
def test_a_declaration_changed_before_the_first_leave_fails_the_run(stage: Stage, change: dict) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)

    stage.netbox.change(**change)
    stage.turn()

    assert stage.run().code == "declaration-changed"
    assert stage.erased == []


def test_a_tombstone_stops_the_run_and_removes_nothing(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)

    stage.netbox.declare(Vanished(M))
    for _ in range(10):
        stage.turn()
        stage.clock.pass_by(seconds=6)

    assert stage.run().code == "orphaned"
    assert M in stage.tinkerbell.hardware
    assert stage.authority.revoked == []


def test_a_machine_that_a_full_read_does_not_show_keeps_everything(stage: Stage) -> None:
    active(stage)
    stage.netbox.declared.clear()

    poll(stage.world(), full=True)
    stage.look()

    assert stage.machine().standing == "active"
    assert not stage.machine().vanished


def test_forget_needs_a_vanished_record_and_withdraws_credentials(stage: Stage) -> None:
    active(stage)
    with pytest.raises(WishRefusedError):
        forget(M, "bea", "sold", stage.world())
    stage.netbox.declare(Vanished(M))
    stage.turn()

    forget(M, "bea", "sold", stage.world())

    assert M in stage.authority.revoked
    assert stage.tinkerbell.hardware == {}


def test_netbox_away_keeps_runs_going_until_the_erase_and_starts_none(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)
    stage.live()
    stage.netbox.away = True
    for _ in range(10):
        stage.turn()
        stage.live()
        stage.clock.pass_by(seconds=30)
    assert stage.run().state_name == "proven"
    assert stage.erased == []

    stage.netbox.away = False

    assert stage.walk().outcome == "succeeded"


def test_netbox_away_after_the_first_leave_stops_nothing(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "erasing")
    stage.netbox.away = True

    for _ in range(10):
        stage.turn()
        stage.live()
        stage.clock.pass_by(seconds=6)

    assert stage.run().outcome == "succeeded"


def test_tinkerbell_away_stretches_a_deadline_at_most_to_double(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)
    stage.tinkerbell.away = True
    for _ in range(20):
        stage.turn()
        stage.clock.pass_by(minutes=1)
    assert stage.run().state_name == "netbooting", "fifteen minutes have passed, but Tinkerbell was away"

    for _ in range(20):
        stage.turn()
        stage.clock.pass_by(minutes=1)

    assert stage.run().outcome == "failed"
    stage.tinkerbell.away = False
    stage.walk(turns=60, minutes=2)
    assert closed(stage)


def test_a_clock_that_went_back_holds_what_is_destructive(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    until(stage, "netbooting", dark=True)
    stage.live()
    stage.live()
    stage.clock.pass_by(minutes=-5)

    with stage.sessions.begin() as session:
        from fleetd.store.machines import wake

        wake(session, M, stage.clock.now())
    stage.turn()

    assert stage.run().state_name == "proven"
    assert stage.run().findings[0]["code"] == "clock-untrusted"


def test_a_full_budget_makes_an_active_machine_wait_and_force_passes(stage: Stage) -> None:
    from fleetd.core.classes import Budget

    active(stage)
    stage.classes.classes["lab-alpine"] = a_class(budget=Budget(max_unavailable=0))
    intent = an_intent(IntentKind.WIPE)
    stage.netbox.ask(intent)
    stage.turn()
    assert stage.run().findings[0]["code"] == "budget-full"
    assert stage.run().state_name == "gated"

    stage.netbox.ask(replace(intent, force_budget=True))
    stage.clock.pass_by(minutes=2)

    assert stage.walk().outcome == "succeeded"


def test_late_lost_and_back_again_by_a_check(stage: Stage) -> None:
    active(stage)
    stage.clock.pass_by(minutes=150)
    stage.turn()
    assert stage.netbox.shown()["check_result"] == "late"

    stage.clock.pass_by(hours=24)
    stage.turn()
    assert stage.machine().check_state == "lost"

    stage.check()
    stage.turn()

    assert stage.netbox.shown()["check_result"] == "ok"
    with stage.sessions() as session:
        changes = [change.result for change in changes_of(session, M)]
    assert changes == ["ok", "lost", "late", "ok"], "one row a change, newest first"

    stage.clock.pass_by(hours=1)
    stage.check()
    with stage.sessions() as session:
        assert len(changes_of(session, M)) == 4, "a check like the one before changes nothing"


def test_a_device_that_is_offline_is_never_late(stage: Stage) -> None:
    active(stage)
    stage.netbox.change(device_status="offline")
    stage.clock.pass_by(days=3)

    stage.turn()

    assert stage.machine().check_state == "ok"


def test_a_declined_difference_quarantines_until_a_release_with_a_fresh_attest(stage: Stage) -> None:
    active(stage)
    stage.check(result="drifted", digest="bb")
    stage.netbox.change(baseline_decision=BaselineDecision("bb", accepted=False, by="dora", at=stage.clock.now()))
    stage.turn()
    assert stage.netbox.shown()["phase"] == "quarantined"
    assert stage.authority.held == {M}

    with stage.sessions.begin() as session:
        request_release(session, M, "bea", "firmware update was ours", stage.clock.now())
    stage.netbox.ask(an_intent(IntentKind.ATTEST))
    stage.turn()
    stage.clock.pass_by(minutes=1)
    stage.check()
    stage.walk()
    stage.turn()

    assert stage.authority.held == set()
    assert stage.netbox.shown()["phase"] == "active"


def test_lost_can_only_be_declared_of_a_wipe_or_retirement(stage: Stage) -> None:
    active(stage)
    with stage.sessions.begin() as session, pytest.raises(WishRefusedError):
        declare_lost(session, M, "bea", "gone", stage.clock.now())


def test_who_does_not_hold_the_lease_does_nothing(stage: Stage) -> None:
    from fleetd.store.machines import take_lease

    stage.netbox.ask(an_intent())
    poll(stage.world())
    with stage.sessions.begin() as session:
        assert take_lease(session, M, stage.clock.now(), stage.settings.lease)

    look_at(M, stage.world())

    assert stage.machine().run_id is None


def test_a_leave_given_while_a_look_decides_makes_its_decision_void(stage: Stage) -> None:
    from fleetd.app import runs

    stage.netbox.ask(an_intent())
    until(stage, "erasing")
    run = stage.run()

    class Racing:
        """A provisioner during whose answer the machine gets its leave."""

        def __init__(self) -> None:
            self.raced = False

        def __getattr__(self, name: str):
            if name == "workflow" and not self.raced:
                self.raced = True
                with stage.sessions.begin() as session:
                    assert isinstance(runs.grant(session, run.id, "erase", "disk7", stage.clock.now()), runs.Granted)
            return getattr(stage.tinkerbell, name)

    stage.netbox.change(disk=Disk(DiskSerial("new")))
    poll(stage.world())
    stage.look(stage.world(provisioner=Racing()))

    assert stage.run().leaves == 1
    assert stage.run().state_name == "erasing", "the erase has its leave: the change comes too late"
    last = stage.walk()
    assert last.outcome == "succeeded", last.message
    assert "differs-from-declaration" in [finding["code"] for finding in stage.netbox.shown()["findings"]]


def test_a_key_that_is_rejected_while_its_machine_enrolls_breaks_neither(stage: Stage) -> None:
    """An enrollment writes the key first, then the machine: who takes them the other way round waits for it for ever."""
    stage.turn()
    known = ProvenKey("ab" * 32, b"public", b"name", "p-256", None, "", "", "", "", "none", ())
    with stage.sessions.begin() as session:
        record_proven(session, known, stage.clock.now())
    stage.netbox.declare(replace(stage.netbox.declared[M], keys=(rejected(),)))

    with ThreadPoolExecutor(1) as polling, stage.sessions.begin() as enrolling:
        record_proven(enrolling, known, stage.clock.now())
        polled = polling.submit(poll, stage.world())
        wait_for_a_lock(stage)
        outcome = runs.EnrollmentOutcome("waiting", (), {}, {}, stage.clock.now())
        runs.record_enrollment(enrolling, M, None, outcome)
        enrolling.commit()
        assert polled.result(timeout=30).changed == [M]

    with stage.sessions() as session:
        assert waiting_count(session) == 0


def test_keys_that_netbox_is_told_of_while_their_machine_enrolls_break_neither(stage: Stage) -> None:
    """An enrollment takes the keys of its TPM in their order: who takes them in another waits for it for ever."""
    first = ProvenKey("99" * 32, b"public", b"name", "p-256", None, "", "", "", "", "none", ())
    second = replace(first, public_hash="11" * 32)
    with stage.sessions.begin() as session:
        for key in (second, first):
            record_proven(session, key, stage.clock.now())
    reporter = FleetReporter(stage.sessions, stage.netbox, stage.classes.book, stage.clock, "1")

    with ThreadPoolExecutor(1) as reporting, stage.sessions.begin() as enrolling:
        record_proven(enrolling, first, stage.clock.now())
        sent = reporting.submit(reporter.send)
        wait_for_a_lock(stage)
        record_proven(enrolling, second, stage.clock.now())
        enrolling.commit()
        sent.result(timeout=30)


def wait_for_a_lock(stage: Stage) -> None:
    """Wait until a session waits for another one."""
    end = time.monotonic() + 20
    blocked = text(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )
    while time.monotonic() < end:
        with stage.sessions() as session:
            if session.scalar(blocked):
                return
        time.sleep(0.05)
    raise AssertionError("nothing waits")


@pytest.mark.parametrize("kind", [IntentKind.PROVISION, IntentKind.WIPE])
@pytest.mark.parametrize("state", ["attesting", "erasing"])
def test_a_key_that_is_approved_in_a_run_and_then_rejected_lets_nothing_be_erased(
    stage: Stage, kind: IntentKind, state: str
) -> None:
    waiting_with(stage, rejected(), kind)
    stage.unapproved.clear()
    stage.noted.clear()
    stage.netbox.change(keys=(rejected(status="approved"),))
    stage.turn()
    stage.live()
    if state == "erasing":
        until(stage, state, 1)

    stage.netbox.change(keys=(rejected(),))
    run = stage.walk()

    assert (run.outcome, run.code) == ("failed", "declaration-changed")
    assert stage.erased == []
    assert closed(stage)
