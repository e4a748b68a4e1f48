"""Each intent from NetBox's word to its end, on a real store and a world in memory."""

from dataclasses import replace
from datetime import timedelta

from sqlalchemy import delete

from fleetd.app.sweep import chain_audit
from fleetd.app.wishes import declare_lost
from fleetd.core.names import Family, IntentKind, MachineId
from fleetd.core.outside import Part, PowerState, PowerStep
from fleetd.store.audit import AuditRow, in_order, verified
from fleetd.store.outbox import add_report, waiting
from tests.worlds import Stage, a_class, an_intent

M = MachineId(7)


def test_a_provision_ends_active_with_netboot_closed_and_no_workflow_left(stage: Stage) -> None:
    intent = an_intent()
    stage.netbox.ask(intent)

    run = stage.walk()

    assert (run.outcome, run.state_name) == ("succeeded", "ended")
    assert stage.tinkerbell.created == [(intent.id, Part.ATTEST), (intent.id, Part.DISK)]
    assert stage.tinkerbell.workflows == {}
    assert stage.tinkerbell.allowed == {M: False}
    assert stage.bmc.booted == [(M, PowerStep.BOOT_NETWORK), (M, PowerStep.BOOT_DISK)]
    assert stage.erased == [(M, "disk7")]
    assert stage.netbox.shown()["phase"] == "active"
    assert stage.netbox.shown()["intent"] == {"id": str(intent.id), "state": "succeeded"}


def test_a_lease_shorter_than_an_effect_may_take_still_lets_a_run_come_to_its_end(stage: Stage) -> None:
    stage.settings = replace(stage.settings, lease=timedelta(seconds=4))
    stage.netbox.ask(an_intent())

    assert stage.walk().outcome == "succeeded"


def test_the_first_good_check_of_an_active_machine_is_its_baseline(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    stage.walk()

    stage.check(digest="aa")
    stage.turn()

    assert stage.machine().baseline_digest == "aa"
    assert stage.netbox.shown()["baseline"]["state"] == "accepted"
    assert stage.netbox.shown()["check_result"] == "ok"


def test_netbox_is_told_that_a_wiped_machine_is_no_longer_trusted_for_its_last_check(stage: Stage) -> None:
    active(stage)
    assert stage.netbox.shown()["check_result"] == "ok"
    stage.netbox.ask(an_intent(IntentKind.WIPE))

    stage.walk()
    stage.turn()

    assert stage.machine().standing == "wiped"
    assert stage.netbox.shown()["check_result"] is None


def test_netbox_is_told_that_the_first_check_of_a_new_system_is_awaited(stage: Stage) -> None:
    active(stage)
    stage.netbox.ask(an_intent())

    stage.walk()
    stage.turn()

    assert stage.netbox.shown()["check_result"] == "awaited"


def test_a_family_with_its_seed_on_the_disk_is_active_at_hand_over(stage: Stage) -> None:
    stage.classes.classes["lab-alpine"] = a_class(family=Family.CLOUD_INIT_NOCLOUD)
    stage.netbox.ask(an_intent())

    run = stage.walk()

    assert run.outcome == "succeeded"
    assert run.redeemed_at is None


def test_attest_of_new_hardware_ends_attested_and_switched_off(stage: Stage) -> None:
    stage.netbox.ask(an_intent(IntentKind.ATTEST))

    run = stage.walk()

    assert run.outcome == "succeeded"
    assert stage.machine().phase == "attested"
    assert stage.bmc.power[M] is PowerState.OFF
    assert stage.erased == []
    assert stage.tinkerbell.workflows == {}


def test_attest_of_an_active_machine_is_its_next_check_without_a_reboot(stage: Stage) -> None:
    active(stage)
    boots = len(stage.bmc.booted)
    stage.netbox.ask(an_intent(IntentKind.ATTEST))
    stage.turn()
    stage.clock.pass_by(minutes=1)
    stage.check()

    run = stage.walk()

    assert run.outcome == "succeeded"
    assert len(stage.bmc.booted) == boots
    assert stage.machine().phase == "active"


def test_an_on_demand_check_that_never_comes_fails_after_two_and_a_half_intervals(stage: Stage) -> None:
    active(stage)
    stage.netbox.ask(an_intent(IntentKind.ATTEST))
    stage.turn()

    stage.clock.pass_by(minutes=151)
    run = stage.walk()

    assert (run.outcome, run.code) == ("failed", "check-never-came")
    assert stage.machine().standing == "active"


def test_attest_with_reboot_goes_through_hookos_and_back_to_the_disk(stage: Stage) -> None:
    active(stage)
    stage.netbox.ask(an_intent(IntentKind.ATTEST, reboot=True))
    for _ in range(12):
        stage.turn()
        stage.live()
        stage.clock.pass_by(seconds=6)
    assert stage.run().state_name == "awaiting-check"
    stage.check()

    run = stage.walk()

    assert run.outcome == "succeeded"
    assert stage.bmc.booted[-2:] == [(M, PowerStep.BOOT_NETWORK), (M, PowerStep.BOOT_DISK)]
    assert stage.erased == [(M, "disk7")], "only the provision erased"


def test_a_wipe_revokes_before_it_erases_and_ends_verified_off(stage: Stage) -> None:
    active(stage)
    intent = an_intent(IntentKind.WIPE)
    stage.netbox.ask(intent)

    run = stage.walk()

    assert run.outcome == "succeeded"
    assert M in stage.authority.revoked
    assert intent.id in stage.tickets.voided
    assert stage.bmc.power[M] is PowerState.OFF
    assert stage.machine().phase == "wiped"
    assert M in stage.tinkerbell.hardware, "a wiped machine may be provisioned again"


def test_a_retirement_takes_back_hardware_and_bmc_last(stage: Stage) -> None:
    active(stage)
    stage.netbox.ask(an_intent(IntentKind.RETIRE, confirmed_serial=""))

    run = stage.walk()

    assert run.outcome == "succeeded"
    assert M in stage.authority.revoked
    assert stage.tinkerbell.hardware == {}
    assert stage.bmc.machines == {}
    assert stage.netbox.shown()["phase"] == "retired"


def test_a_retirement_gives_the_address_away_only_when_power_is_off_and_a_wipe_never(stage: Stage) -> None:
    active(stage)
    power = []
    stage.reservations.watch = lambda: power.append(stage.bmc.power[M])
    stage.netbox.ask(an_intent(IntentKind.WIPE))
    assert stage.walk().outcome == "succeeded"
    assert stage.reservations.removed == []

    stage.netbox.ask(an_intent(IntentKind.RETIRE))
    assert stage.walk().outcome == "succeeded"

    assert set(stage.reservations.removed) == {M}
    assert set(power) == {PowerState.OFF}


def test_a_lost_machine_is_retired_without_its_disk_and_says_so(stage: Stage) -> None:
    active(stage)
    stage.netbox.ask(an_intent(IntentKind.RETIRE))
    stage.turn()
    with stage.sessions.begin() as session:
        declare_lost(session, M, "bea", "burnt down", stage.clock.now())
    stage.erased.clear()

    run = stage.walk()

    assert run.outcome == "succeeded"
    assert stage.erased == []
    assert M in stage.authority.revoked
    assert stage.machine().standing == "retired"


def test_without_a_bmc_a_person_starts_the_machine_and_it_reboots_itself(stage: Stage) -> None:
    stage.netbox.change(bmc_address="", bmc_secret="")
    stage.netbox.ask(an_intent())

    run = stage.walk()

    assert run.outcome == "succeeded"
    assert run.reboot_told_at is not None
    assert stage.bmc.jobs == {}


def test_an_active_machine_is_provisioned_again_and_its_old_checks_are_forgotten(stage: Stage) -> None:
    active(stage)
    stage.netbox.ask(an_intent())

    run = stage.walk()

    assert run.outcome == "succeeded"
    assert len(stage.erased) == 2
    assert stage.machine().check_state == "awaited"
    assert stage.machine().baseline_digest == ""


def test_a_spent_intent_that_comes_back_starts_nothing(stage: Stage) -> None:
    intent = an_intent()
    stage.netbox.ask(intent)
    stage.walk()
    stage.netbox.ask(intent)

    stage.turn()
    stage.turn()

    assert stage.ended()
    assert len(stage.erased) == 1


def test_a_store_restored_from_before_the_run_does_not_fire_it_again(stage: Stage) -> None:
    intent = an_intent()
    stage.netbox.finished.append(intent.id)
    stage.netbox.ask(intent)

    stage.turn()

    assert stage.machine().run_id is None


def test_the_audit_of_a_walk_is_chained_and_signed(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    stage.walk()

    assert chain_audit(stage.world()) > 10
    with stage.sessions() as session:
        assert verified(in_order(session), lambda message, signature: signature == message.hex()).broken_at is None


def test_an_audit_row_that_was_removed_shows(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    stage.walk()
    chain_audit(stage.world())
    with stage.sessions.begin() as session:
        session.execute(delete(AuditRow).where(AuditRow.position == 5))

    with stage.sessions() as session:
        assert verified(in_order(session), lambda message, signature: True).broken_at == 5


def test_report_numbers_only_grow_also_over_a_clock_that_went_back(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    stage.turn()
    stage.clock.pass_by(hours=-1)

    stage.turn()

    assert all(entry["seq"] > 0 for entry in stage.netbox.reports)
    with stage.sessions() as session:
        assert waiting(session, 10) == []


def test_reports_that_are_too_large_together_are_sent_in_smaller_bodies(stage: Stage) -> None:
    stage.netbox.ask(an_intent())
    stage.turn()
    with stage.sessions.begin() as session:
        for message in "abcdefgh":
            add_report(session, M, {"message": message}, stage.clock.now())
    stage.netbox.most_rows = 3

    stage.turn()

    told = [entry.get("message", "") for entry in stage.netbox.reports]
    assert [message for message in told if len(message) == 1] == list("abcdefgh")
    with stage.sessions() as session:
        assert waiting(session, 10) == []


def active(stage: Stage) -> None:
    """Make the machine active, with a good check."""
    stage.netbox.ask(an_intent())
    assert stage.walk().outcome == "succeeded"
    stage.check()
    stage.turn()
    stage.clock.pass_by(seconds=10)
