"""Enrollment with a real software TPM against a fleetd that checks every signature."""

import json

import pytest

from fleet_machine import transcript
from fleet_machine.actions import run_action
from fleet_machine.runfolder import RunFolder
from tests.integration.fleet_machine.fleetd_double import MACHINE, RUN, FleetdDouble, b64, problem
from tests.integration.fleet_machine.surroundings import QuickClock, a_machine
from tests.swtpm import start_swtpm


def kinds(fleetd):
    return [event["kind"] for event in fleetd.events]


@pytest.fixture
def machine(tmp_path, tpm):
    return a_machine(tmp_path, tpm.tcti)


def test_a_machine_enrolls_and_keeps_its_session(machine, fleetd):
    status = run_action("enroll", fleetd.environment(), machine)

    session = RunFolder(machine.run_folder).session()
    assert status == 0, machine.console.lines
    assert (session.machine, session.run, session.node_name) == (MACHINE, RUN, "node-1")
    assert session.key == fleetd.session_key
    assert kinds(fleetd) == ["finished"]


def test_the_facts_say_what_the_machine_is(machine, fleetd):
    run_action("enroll", fleetd.environment(), machine)

    assert fleetd.facts["dmi"]["serial"] == "SN1"
    assert fleetd.facts["macs"] == ["52:54:00:00:00:01"]
    assert fleetd.facts["tpm"]["manufacturer"] == "IBM"


def test_an_unknown_machine_waits_as_long_as_it_is_told_and_shows_its_fingerprint(machine, fleetd):
    fleetd.approved = False

    def approve():
        fleetd.approved = True

    fleetd.script["/v1/enrollments"] = [None, None, approve]

    assert run_action("enroll", fleetd.environment(), machine) == 0
    assert machine.clock.slept == [15.0, 15.0]
    assert "ab:cd" in machine.console


def test_waiting_keeps_the_same_lak_and_the_same_ldevid(machine, fleetd):
    fleetd.approved = False
    fleetd.script["/v1/enrollments"] = [None, lambda: setattr(fleetd, "approved", True)]

    assert run_action("enroll", fleetd.environment(), machine) == 0, machine.console.lines

    sent = [body for _method, path, body in fleetd.requests if path == "/v1/enrollments"]
    assert len(sent) == 2
    assert sent[0]["lak"] == sent[1]["lak"]
    assert sent[0]["ldevid"] == sent[1]["ldevid"]


def test_a_refusal_that_may_be_repeated_is_repeated_after_the_time_told(machine, fleetd):
    finding = {
        "code": "secure-boot-off",
        "severity": "refuses",
        "message": "Secure Boot is off.",
        "next_step": "Switch it on.",
    }
    fleetd.script["/v1/enrollments"] = [problem(403, "no", findings=[finding], headers={"Retry-After": "60"})]

    assert run_action("enroll", fleetd.environment(), machine) == 0
    assert machine.clock.slept == [60.0]
    assert "secure-boot-off: Secure Boot is off. Switch it on." in machine.console


def test_a_final_refusal_ends_the_action_with_the_findings_on_the_console(machine, fleetd):
    finding = {"code": "ek-unknown", "severity": "refuses", "message": "Nobody knows this TPM.", "next_step": "Ask."}
    fleetd.script["/v1/enrollments"] = [problem(403, "no", findings=[finding], stop=True)]

    assert run_action("enroll", fleetd.environment(), machine) == 1
    assert "Nobody knows this TPM." in machine.console
    assert RunFolder(machine.run_folder).session() is None


def test_a_silent_fleetd_is_asked_again_until_it_answers(machine, fleetd):
    fleetd.script["/v1/challenges"] = ["hang up", problem(503, "starting"), "hang up"]

    assert run_action("enroll", fleetd.environment(), machine) == 0
    assert len(machine.clock.slept) == 3


@pytest.mark.parametrize("path", ["/v1/challenges", "/v1/enrollments"])
def test_an_answer_that_breaks_off_is_asked_for_again(machine, fleetd, path):
    fleetd.cuts[path] = [0, 1, 200]

    assert run_action("enroll", fleetd.environment(), machine) == 0, machine.console.lines
    assert len(machine.clock.slept) == 3
    assert "broke off" in machine.console


@pytest.mark.parametrize("path", ["/v1/challenges", "/v1/enrollments"])
@pytest.mark.parametrize("status", [103, 200, 302, 404, 408, 413, 429, 502, 520])
def test_a_page_of_something_in_front_of_fleetd_is_waited_out(machine, fleetd, path, status):
    fleetd.script[path] = [(status, b"" if status == 103 else b"<html>Back soon.</html>", {})]

    assert run_action("enroll", fleetd.environment(), machine) == 0, machine.console.lines
    assert len(machine.clock.slept) == 1


def test_a_refusal_of_something_in_front_of_fleetd_is_waited_out_in_json_too(machine, fleetd):
    fleetd.script["/v1/challenges"] = [(404, {"message": "no Route matched with those values"}, {})]

    assert run_action("enroll", fleetd.environment(), machine) == 0, machine.console.lines
    assert len(machine.clock.slept) == 1


def test_a_time_to_ask_again_that_lies_years_ahead_is_not_waited_for(tmp_path, tpm, fleetd):
    machine = a_machine(tmp_path, tpm.tcti, clock=QuickClock(wrong_by=-20 * 365 * 86400.0))
    fleetd.script["/v1/challenges"] = [problem(503, "busy", headers={"Retry-After": "Wed, 01 Jan 2031 00:00:00 GMT"})]

    assert run_action("enroll", fleetd.environment(FLEET_PATIENCE="604800"), machine) == 0, machine.console.lines
    assert sum(machine.clock.slept) <= 3600


def test_the_client_gives_up_when_its_patience_is_over(machine, fleetd):
    fleetd.close()

    assert run_action("enroll", fleetd.environment(FLEET_PATIENCE="30"), machine) == 1
    assert sum(machine.clock.slept) <= 30
    assert "does not answer" in machine.console


def test_a_used_token_leads_to_a_new_challenge(machine, fleetd):
    fleetd.script["/v1/enrollments"] = [problem(409, "token used", type="token-used")]

    assert run_action("enroll", fleetd.environment(), machine) == 0


def test_a_fleetd_that_dies_at_each_step_of_its_answer_is_asked_until_it_lives(machine, fleetd):
    busy = problem(409, "the first use is still being answered", type="token-used", headers={"Retry-After": "2"})
    fleetd.script["/v1/enrollments"] = [busy] * 12

    assert run_action("enroll", fleetd.environment(), machine) == 0, machine.console.lines
    assert machine.clock.slept == [2.0] * 12


def test_a_key_approved_between_the_two_halves_of_a_challenge_is_followed(machine, fleetd):
    """fleetd names the LAK by the run once it knows the machine: a LAK of the name before could not be made again."""
    before = transcript.lak_unique(b"the EK's Name")
    fleetd.script["/v1/challenges"] = [
        lambda: fleetd.signed("fleet-challenge+jwt", {"lak_unique": b64(before)}, status=201)
    ]

    assert run_action("enroll", fleetd.environment(), machine) == 0

    asked = [body for _method, path, body in fleetd.requests if path == "/v1/challenges"]
    laks = [body["lak"] for body in asked if "lak" in body]
    (sent,) = [body for _method, path, body in fleetd.requests if path == "/v1/enrollments"]
    assert len(laks) == 2
    assert laks[0] != laks[1]
    assert sent["lak"] == laks[1]


def test_an_answer_signed_by_another_key_is_not_believed(machine, fleetd):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    other = Ed25519PrivateKey.generate()
    fleetd.script["/v1/challenges"] = [
        lambda: fleetd.signed("fleet-challenge+jwt", {"lak_unique": "AA=="}, signer=other)
    ]

    assert run_action("enroll", fleetd.environment(), machine) == 1
    assert "signature" in machine.console


def test_a_server_whose_certificate_the_pinned_ca_did_not_issue_is_refused(machine, fleetd):
    other = FleetdDouble()
    try:
        environment = fleetd.environment(FLEET_CA=other.environment()["FLEET_CA"])
        assert run_action("enroll", environment, machine) == 1
    finally:
        other.close()
    assert "FLEET_CA" in machine.console
    assert fleetd.requests == []


def test_a_result_for_another_machine_stops_everything(machine, fleetd):
    fleetd.result_machine = MACHINE + 1

    assert run_action("enroll", fleetd.environment(), machine) == 1
    assert "another machine booted" in machine.console
    assert RunFolder(machine.run_folder).session() is None


def test_a_repeated_enroll_action_says_only_again_that_it_is_done(machine, fleetd):
    run_action("enroll", fleetd.environment(), machine)
    asked = len(fleetd.requests)

    assert run_action("enroll", fleetd.environment(), machine) == 0
    assert [path for _m, path, _b in fleetd.requests[asked:]] == [f"/v1/runs/{RUN}/events"]
    assert fleetd.events[1]["seq"] > fleetd.events[0]["seq"]


def test_after_a_power_cut_the_same_lak_is_made_again_and_the_stored_ldevid_is_loaded(tmp_path, tpm, fleetd):
    first = a_machine(tmp_path / "first", tpm.tcti)
    run_action("enroll", fleetd.environment(), first)
    lak, fleetd.stored_ldevid = fleetd.lak, fleetd.ldevid
    tpm.power_cycle()

    assert run_action("enroll", fleetd.environment(), a_machine(tmp_path / "second", tpm.tcti)) == 0
    assert fleetd.lak == lak
    assert fleetd.ldevid == fleetd.stored_ldevid


def test_an_ldevid_of_another_tpm_is_replaced_by_a_new_one(tmp_path, tpm, fleetd):
    run_action("enroll", fleetd.environment(), a_machine(tmp_path / "first", tpm.tcti))
    fleetd.stored_ldevid = fleetd.ldevid
    with start_swtpm(tmp_path / "other", certificates=False) as other:
        machine = a_machine(tmp_path / "second", other.tcti)
        assert run_action("enroll", fleetd.environment(), machine) == 0

    assert fleetd.ldevid != fleetd.stored_ldevid
    assert "making a new one" in machine.console


def test_a_machine_whose_clock_is_wrong_by_years_takes_the_time_from_the_signed_challenge(tmp_path, tpm):
    ahead = 5 * 365 * 24 * 3600.0
    fleetd = FleetdDouble(valid=(5 * 365 - 1, 5 * 365 + 30), time_offset=ahead)
    try:
        machine = a_machine(tmp_path, tpm.tcti, clock=QuickClock())
        assert run_action("enroll", fleetd.environment(), machine) == 0, machine.console.lines
    finally:
        fleetd.close()
    assert "The clock of this machine is wrong" in machine.console


def test_a_certificate_that_is_expired_by_fleetds_own_time_is_refused(tmp_path, tpm):
    fleetd = FleetdDouble(valid=(-30, -1))
    try:
        machine = a_machine(tmp_path, tpm.tcti)
        assert run_action("enroll", fleetd.environment(), machine) == 1
    finally:
        fleetd.close()
    assert "out of date" in machine.console
    assert [path for _m, path, _b in fleetd.requests if path == "/v1/enrollments"] == []


def test_a_tpm_with_an_endorsement_password_is_named_with_what_to_do(tmp_path, fleetd):
    from tpm2_pytss import ESAPI
    from tpm2_pytss.constants import ESYS_TR

    with start_swtpm(tmp_path / "owned", certificates=False) as owned:
        esys = ESAPI(owned.tcti)
        esys.hierarchy_change_auth(ESYS_TR.ENDORSEMENT, b"secret")
        esys.close()
        machine = a_machine(tmp_path, owned.tcti)
        assert run_action("enroll", fleetd.environment(), machine) == 1
    assert "Clear the TPM" in machine.console


def test_a_machine_without_a_tpm_says_so(tmp_path, fleetd):
    machine = a_machine(tmp_path, "swtpm:path=/nonexistent/tpm")

    assert run_action("enroll", fleetd.environment(), machine) == 1
    assert "TPM does not answer" in machine.console


@pytest.mark.parametrize("name", ["FLEET_URL", "FLEET_CA", "FLEET_KEYS"])
def test_what_the_environment_lacks_is_named(tmp_path, fleetd, name):
    machine = a_machine(tmp_path)
    environment = {key: value for key, value in fleetd.environment().items() if key != name}

    assert run_action("enroll", environment, machine) == 1
    assert name in machine.console


def test_the_session_file_is_readable_by_its_owner_only(machine, fleetd):
    run_action("enroll", fleetd.environment(), machine)

    path = machine.run_folder / "session.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert json.loads(path.read_text())["enrollment"] == fleetd.enrollment
