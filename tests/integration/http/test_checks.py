"""Boot checks: the machine's own quote, held against its baseline, hour after hour."""

from dataclasses import replace

import pytest
from sqlalchemy import select, update

from fleetd.core.declaration import BaselineDecision
from fleetd.core.lifecycle import states
from fleetd.store.certificates import CertificateRow, certificates_of, revoke_of
from fleetd.store.checks import CheckDayRow, CheckRow
from fleetd.store.clock import watch_clock
from fleetd.store.machines import MachineRow
from fleetd.store.outbox import ReportRow
from tests.integration.http.test_seeds import with_ticket
from tests.unit.attestation.evidence import a_boot, ecc_key


@pytest.fixture
def checked(service):
    """A machine that has redeemed its seed and passed its first check."""
    machine, run, ticket = with_ticket(service)
    machine.redeem(machine.redemption(ticket))
    machine.first = machine.check()
    machine.service, machine.run = service, run
    return machine


def hour_later(machine):
    machine.service.clock.pass_by(hours=1)
    machine.clock += 3_600_000


def reports(service, key):
    with service.sessions() as session:
        return [row.body[key] for row in session.scalars(select(ReportRow).order_by(ReportRow.id)) if key in row.body]


def test_the_first_good_check_is_the_baseline(checked, service):
    assert checked.first["result"] == "ok"
    assert reports(service, "baseline")[0]["state"] == "accepted"
    with service.sessions() as session:
        assert session.get(CheckRow, 7).baseline_digest
        assert session.get(MachineRow, 7).check_state == "ok"


def test_the_answer_carries_the_next_challenge_without_a_log(checked):
    following = checked.first["next"]

    assert following["send_log"] is False
    assert 1800 <= checked.first["next_check_in"] <= 4500

    hour_later(checked)
    assert checked.check(following)["result"] == "ok"


def test_a_good_check_sets_the_bit_of_its_hour(checked, service):
    with service.sessions() as session:
        assert session.scalars(select(CheckDayRow)).one().hours == 1 << 12
    assert reports(service, "check_days") == [{"2026-06-01": 1 << 12}]


def test_a_repeated_check_gets_the_identical_answer(checked, service):
    hour_later(checked)
    body = checked.check_body(checked.first["next"], [])

    first = service.client.post("/v1/checks", json=body)
    second = service.client.post("/v1/checks", json=body)

    assert first.content == second.content


def test_a_changed_boot_needs_its_log_first(checked):
    hour_later(checked)
    checked.log = a_boot(firmware="2.0")

    answer = checked.check(checked.first["next"])

    assert (answer["result"], answer["next_check_in"]) == ("log-needed", 0)
    assert answer["next"]["send_log"] is True

    drifted = checked.check(answer["next"])
    assert drifted["result"] == "drifted"
    assert {"boot-drifted"} <= {finding["code"] for finding in drifted["findings"]}


def test_a_difference_that_nobody_has_decided_on_is_told_once_and_not_by_each_check(checked, service):
    hour_later(checked)
    checked.log = a_boot(firmware="2.0")
    checked.check(checked.check(checked.first["next"])["next"])
    told = [len(reports(service, name)) for name in ("boot_check", "baseline")]

    hour_later(checked)
    again = checked.check(checked.check()["next"])

    assert again["result"] == "drifted"
    assert [len(reports(service, name)) for name in ("boot_check", "baseline")] == told


def test_an_accepted_difference_becomes_the_baseline(checked, service):
    hour_later(checked)
    checked.log = a_boot(firmware="2.0")
    checked.check(checked.check(checked.first["next"])["next"])
    offered = reports(service, "baseline")[-1]
    decision = BaselineDecision(offered["digest"], accepted=True, by="anna", at=service.clock.now())
    service.declare(replace(service.declared.records[7], baseline_decision=decision))
    hour_later(checked)

    assert offered["state"] == "offered"
    assert checked.check()["result"] == "ok"
    assert reports(service, "baseline")[-1]["state"] == "accepted"


def test_a_first_check_unlike_the_redemption_is_offered_and_not_taken(service):
    machine, _, ticket = with_ticket(service)
    machine.redeem(machine.redemption(ticket))
    machine.log = a_boot(firmware="2.0")

    answer = machine.check()

    assert answer["result"] == "drifted"
    assert "boot-not-as-redeemed" in {finding["code"] for finding in answer["findings"]}
    with service.sessions() as session:
        assert session.get(CheckRow, 7).baseline is None


def test_a_quote_of_another_key_is_refused_and_leaves_no_trace(checked, service):
    hour_later(checked)
    stranger = service.machine(7, lak=ecc_key())

    answer = service.client.post("/v1/checks", json=stranger.check_body(checked.first["next"], []))

    assert answer.status_code == 403
    with service.sessions() as session:
        assert session.get(MachineRow, 7).quarantined_at is None
        assert session.get(CheckRow, 7).result == "ok"


def test_the_token_of_another_machine_is_refused(checked, service):
    other = service.machine(8)
    body = checked.check_body(other.check_challenge(), [])

    assert service.client.post("/v1/checks", json=body).status_code == 403


def test_a_clock_that_went_back_fails(checked):
    hour_later(checked)
    checked.clock = 10

    assert checked.check(checked.first["next"])["result"] == "failed"


def test_a_quote_that_was_made_long_ago_is_out_of_pace(checked):
    hour_later(checked)
    checked.clock -= 3_000_000

    answer = checked.check(checked.first["next"])

    assert answer["result"] == "failed"
    assert "tpm-clock-pace" in {finding["code"] for finding in answer["findings"]}


@pytest.mark.parametrize("minutes", [30, -30])
def test_a_service_whose_clock_was_just_set_calls_no_machine_out_of_pace(checked, service, minutes):
    hour_later(checked)
    watch_clock(service.sessions, service.clock)
    service.clock.step(minutes=minutes)

    assert checked.check()["result"] == "ok", "nobody has noted the step yet"
    watch_clock(service.sessions, service.clock)
    hour_later(checked)
    assert checked.check()["result"] == "ok"

    hour_later(checked)
    checked.clock -= 3_000_000
    assert checked.check()["result"] == "failed", "the pace counts again"


def test_a_quote_of_a_time_when_the_clock_was_ahead_says_nothing_of_the_pace(checked, service):
    """After the clock was set back it comes to that time again; by then more time has passed than lies between."""
    hour_later(checked)
    watch_clock(service.sessions, service.clock)
    service.clock.step(minutes=30)
    watch_clock(service.sessions, service.clock)
    assert checked.check()["result"] == "ok"
    service.clock.step(minutes=-30)
    watch_clock(service.sessions, service.clock)

    hour_later(checked)

    assert checked.check()["result"] == "ok"
    hour_later(checked)
    checked.clock = 10
    assert checked.check()["result"] == "failed", "the TPM's clock must still not go back"


def test_a_power_cut_is_no_failure(checked):
    hour_later(checked)
    checked.clock, checked.resets = 500, checked.resets + 1

    assert checked.check(checked.first["next"])["result"] == "ok"


def test_new_certificates_ride_on_the_answer_until_the_machine_names_them(checked, service):
    service.clock.pass_by(days=300)
    checked.clock += 300 * 86_400_000

    renewed = checked.check()["certificates"]
    again = checked.check()["certificates"]

    assert renewed["ldevid"] != checked.result["certificates"]["ldevid"]
    assert again == renewed


def test_certificates_of_another_machine_fail_the_check(checked):
    hour_later(checked)

    answer = checked.check(checked.first["next"], ["abcd"])

    assert answer["result"] == "failed"
    assert "certificate-not-valid" in {finding["code"] for finding in answer["findings"]}


@pytest.mark.parametrize("reason", ["keyCompromise", "certificateHold"])
def test_a_machine_that_is_silent_about_its_revoked_certificates_gains_nothing(checked, service, reason):
    with service.sessions.begin() as session:
        session.execute(update(CertificateRow).values(revoked_at=service.clock.now(), reason=reason))
    hour_later(checked)

    answer = checked.check()

    assert answer["result"] == "failed"
    assert "certificate-not-valid" in {finding["code"] for finding in answer["findings"]}
    assert "certificates" not in answer


@pytest.mark.parametrize("flag", ["hold_wanted", "hold_done"], ids=["quarantined", "released, not lifted yet"])
def test_a_quarantined_machine_is_checked_as_before_so_that_a_good_attest_can_release_it(checked, service, flag):
    with service.sessions.begin() as session:
        session.execute(update(CertificateRow).values(revoked_at=service.clock.now(), reason="certificateHold"))
        setattr(session.get(MachineRow, 7), flag, True)
        serials = [row.serial for row in certificates_of(session, 7)]
    hour_later(checked)

    answer = checked.check(None, serials)

    assert answer["result"] == "ok"
    assert "certificates" not in answer


def test_a_quarantined_machine_whose_certificate_is_revoked_for_good_fails_its_check(checked, service):
    with service.sessions.begin() as session:
        session.execute(update(CertificateRow).values(revoked_at=service.clock.now(), reason="keyCompromise"))
        session.get(MachineRow, 7).hold_done = True
    hour_later(checked)

    assert checked.check()["result"] == "failed"


def test_an_older_certificate_does_not_stand_in_for_a_revoked_one_of_the_same_key(checked, service):
    def serials():
        with service.sessions() as session:
            return [row.serial for row in certificates_of(session, 7)]

    old = serials()
    service.clock.pass_by(days=300)
    checked.clock += 300 * 86_400_000
    checked.check()
    checked.check(None, [serial for serial in serials() if serial not in old])
    with service.sessions.begin() as session:
        revoke_of(session, 7, service.clock.now(), "keyCompromise")
    hour_later(checked)

    assert checked.check(None, old)["result"] == "failed"


@pytest.mark.parametrize("file", ["devid.pem", "generations.json"])
def test_an_authority_that_cannot_be_read_holds_up_no_check(checked, service, file):
    (service.tree.directory / file).write_text("half")
    hour_later(checked)

    answer = checked.check()

    assert answer["result"] == "ok"
    assert "certificates" not in answer


def test_what_the_client_noticed_is_told_and_decides_nothing(checked, service):
    hour_later(checked)
    body = checked.check_body(checked.first["next"], [], b'[{"code": "tpm-slow", "message": "took 9 s\\u0000"}]')

    answer = checked.opened(service.client.post("/v1/checks", json=body), "fleet-result+jwt")

    assert answer["result"] == "ok"
    assert "machine-says" in {finding["code"] for finding in answer["findings"]}


def test_a_machine_that_never_enrolled_is_refused(service):
    answer = service.client.post(
        "/v1/checks", json=service.machine(9).check_body(service.machine(9).check_challenge(), [])
    )

    assert answer.status_code == 403


def test_a_large_body_without_a_demand_for_the_log_is_refused(checked, service):
    hour_later(checked)
    body = checked.check_body(checked.first["next"], [])
    body["log"] = "AAAA" * 20_000

    assert service.client.post("/v1/checks", json=body).status_code == 413


def test_an_attest_that_was_asked_for_demands_the_full_log(checked, service):
    from fleetd.core.names import IntentKind

    service.run(service.declared.records[7], IntentKind.ATTEST, states.AwaitingCheck)
    hour_later(checked)

    answer = checked.check(checked.first["next"])

    assert answer["result"] == "log-needed"
    assert checked.check(answer["next"])["result"] == "ok"
    assert reports(service, "attestation")[-1]["kind"] == "check"
