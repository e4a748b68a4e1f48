"""What strangers try with the calls that carry their own proof: at once, again, and with more than was asked."""

import json
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import select

from fleetd.app import messages
from fleetd.app.check import check
from fleetd.app.enroll import enroll
from fleetd.app.redeem import redeem
from fleetd.app.refusals import CallRefusedError
from fleetd.core.attestation.transcript import Label, redeem_transcript
from fleetd.core.exchange.tokens import Purpose, open_token
from fleetd.store.checks import CheckRow
from fleetd.store.enrollments import EnrollmentRow
from fleetd.store.outbox import ReportRow
from fleetd.store.tickets import TicketRow, TicketState
from fleetd.store.tokens import UsedTokenRow
from tests.integration.http.machines import a_declaration, approved, pretend_ek
from tests.integration.http.test_enrollment import codes
from tests.integration.http.test_seeds import with_ticket

AT_ONCE = 6


def at_once(service, use, kind, bodies):
    """Answer all bodies in as many threads, let loose together; return statuses and the kept answers."""
    gate = Barrier(len(bodies))

    def call(raw):
        gate.wait(10)
        try:
            return use(service.exchange, kind.model_validate_json(raw), raw, "192.0.2.1")
        except CallRefusedError as refusal:
            return refusal

    with ThreadPoolExecutor(len(bodies)) as threads:
        return list(threads.map(call, [json.dumps(body).encode() for body in bodies]))


def begun_enrollment(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),)))
    challenge = machine.challenge()
    return enroll, messages.Enroll, lambda: machine.enrollment_body(challenge), EnrollmentRow


def begun_check(service):
    machine, _, ticket = with_ticket(service)
    machine.redeem(machine.redemption(ticket))
    challenge = machine.check_challenge()
    return check, messages.Check, lambda: machine.check_body(challenge, []), CheckRow


def begun_redemption(service):
    machine, _, ticket = with_ticket(service)
    first = machine.redemption(ticket)

    def again():
        challenge = open_token(service.exchange.server_key, first["token"], Purpose.REDEEM)
        clear = {"pcrs": challenge.pcrs.as_dict(), "nonce": b64encode(challenge.nonce)}
        transcript = redeem_transcript(first["token"], ticket["ticket"])
        return {**first, "quote": machine.quote(clear, Label.REDEEM, transcript)}

    return redeem, messages.Redeem, again, TicketRow


@pytest.mark.parametrize("begun", [begun_enrollment, begun_check, begun_redemption], ids=["enroll", "check", "redeem"])
@pytest.mark.parametrize("alike", [True, False], ids=["the same bytes", "other bytes"])
def test_attack_one_challenge_answered_many_times_at_once_counts_once(service, begun, alike):
    use, kind, body, table = begun(service)
    with service.sessions() as session:
        used = len(session.scalars(select(UsedTokenRow)).all())
    bodies = [body()] * AT_ONCE if alike else [body() for _ in range(AT_ONCE)]

    answers = at_once(service, use, kind, bodies)

    good = [answer for answer in answers if getattr(answer, "status", 0) == 200]
    refused = [answer for answer in answers if isinstance(answer, CallRefusedError)]
    assert len(good) + len(refused) == AT_ONCE
    assert {answer.body for answer in good} == {good[0].body}
    assert alike or len(good) == 1
    assert {(refusal.status, refusal.code) for refusal in refused} <= {(409, "token-used")}
    with service.sessions() as session:
        assert len(session.scalars(select(UsedTokenRow)).all()) == used + 1
        assert len(session.scalars(select(table)).all()) == 1


def test_two_redemptions_of_one_ticket_at_once_give_one_seed(service):
    """Two challenges, one ticket: the ticket's row decides, not the challenge."""
    machine, _, ticket = with_ticket(service)
    bodies = [machine.redemption(ticket) for _ in range(AT_ONCE)]

    answers = at_once(service, redeem, messages.Redeem, bodies)

    # The machine itself may ask again within the window, and gets the same seed.
    assert {answer.status for answer in answers} == {200}
    with service.sessions() as session:
        row = session.scalars(select(TicketRow)).one()
        assert (row.state, row.redeemed_from) == (TicketState.REDEEMED, "192.0.2.1")


def test_attack_the_uuid_and_serial_of_another_machine_make_nobody_that_machine(service):
    """Claims select nothing: an unknown TPM waits for a person, whatever it says of itself."""
    owner, _ = service.enrolled()
    thief = service.machine(7, ek=pretend_ek(35))

    answer = thief.enroll(facts=owner.facts())

    assert answer.status_code == 202
    with service.sessions() as session:
        assert len(session.scalars(select(EnrollmentRow)).all()) == 1


def test_attack_a_whole_enrollment_sent_again_opens_for_nobody_else(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),)))
    body = machine.enrollment_body(machine.challenge())
    first = machine.send_enrollment(body)

    again = service.client.post("/v1/enrollments", json=body)

    # Who overheard it gets the bytes that he overheard, too: sealed to the TPM's secrets.
    assert again.content == first.content
    assert machine.result["session_key"] not in again.text


def test_values_that_were_sent_beside_the_quoted_ones_are_kept_nowhere(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),)))
    body = machine.enrollment_body(machine.challenge())
    body["pcrs"] = {
        "sha256": {**body["pcrs"]["sha256"], "23": "ee" * 32},
        "sha1": {"7": "ee" * 20},
        "md5": {"7": "ee" * 20},
    }

    assert machine.send_enrollment(body).status_code == 200
    with service.sessions() as session:
        kept = session.scalars(select(EnrollmentRow)).one().pcrs
        told = [
            row.body["attestation"]["pcrs"] for row in session.scalars(select(ReportRow)) if "attestation" in row.body
        ]
    assert "ee" * 20 not in json.dumps([kept, told])
    assert set(kept) == {"sha256"}


def test_pcr_values_of_a_refused_quote_are_shown_to_nobody(service):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),)))
    body = machine.enrollment_body(machine.challenge())
    body["pcrs"]["sha256"]["7"] = "ee" * 32

    answer = machine.send_enrollment(body)

    assert "pcr-digest" in codes(answer)
    with service.sessions() as session:
        told = [row.body["attestation"] for row in session.scalars(select(ReportRow)) if "attestation" in row.body]
    assert [(each["passed"], each["pcrs"]) for each in told] == [(False, {})]


@pytest.mark.parametrize(
    ("name", "many"),
    [
        ("eks", [{"public": "AAAA"}] * 7),
        ("eks", [{"public": "AAAA", "chain": ["AAAA"] * 9}]),
        ("pcrs", {f"bank{at}": {} for at in range(9)}),
        ("pcrs", {"sha256": {str(at): "00" * 32 for at in range(25)}}),
        ("pcrs", {"sha256": {"24": "00" * 32}}),
        ("pcrs", {"sha256": {"07": "00" * 32}}),
        ("facts", "A" * (64 * 1024 * 4 // 3 + 8)),
        ("log", "A" * (512 * 1024 * 4 // 3 + 8)),
        ("token", "A" * 8193),
        ("activation", "====" * 4),
        ("lak", "QUJD\n"),
    ],
)
def test_more_than_a_field_may_hold_is_refused_before_anything_is_judged(service, name, many):
    machine = service.machine()
    service.run(a_declaration(keys=(approved(machine.ek),)))
    body = {**machine.enrollment_body(machine.challenge()), name: many}

    answer = service.client.post("/v1/enrollments", json=body)

    assert (answer.status_code, answer.json()["type"]) == (400, "urn:fleetd:problem:malformed")
    with service.sessions() as session:
        assert session.scalars(select(UsedTokenRow)).all() == []


def test_a_field_that_stands_twice_counts_by_its_last_value_everywhere(service):
    """One parser reads a body, once: no part of the service can see another of the two."""
    machine, _, ticket = with_ticket(service)
    machine.redeem(machine.redemption(ticket))
    body = json.dumps(machine.check_body(machine.check_challenge(), []))

    other = service.client.post("/v1/checks", content=body[:-1] + ', "machine": 8}')
    own = service.client.post("/v1/checks", content='{"machine": 8, ' + body[1:])

    assert (other.status_code, own.status_code) == (403, 200)
