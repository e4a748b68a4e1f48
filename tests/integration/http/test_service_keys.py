"""The service key is replaced while machines check: each learns the next key from an answer that it can verify."""

import json
from base64 import b64decode

import pytest

from fleetd.ca.rotation import RotationError
from fleetd.ca.service_rotation import ServiceRotation
from fleetd.core.attestation.transcript import Purpose
from fleetd.core.lifecycle import states
from tests.integration.http import machines
from tests.integration.http.test_seeds import installing, with_ticket


@pytest.fixture
def rotation(service):
    return ServiceRotation(service.sessions, service.tree, service.clock)


@pytest.fixture
def checked(service):
    """A machine that has redeemed its seed and tells its pins with each check."""
    machine, _run, ticket = with_ticket(service)
    machine.redeem(machine.redemption(ticket))
    machine.pinned = machines.pins_of(json.loads(b64decode(ticket["keys"])))
    machine.live_on()
    return machine


def hour_later(machine, service):
    service.clock.pass_by(hours=1)
    machine.clock += 3_600_000


def test_a_machine_learns_the_next_key_from_the_old_one_and_forgets_the_old_one_afterwards(checked, service, rotation):
    (old,) = checked.pinned
    rotation.begin()
    with pytest.raises(RotationError, match="node-7"):
        rotation.complete()
    hour_later(checked, service)

    assert "keys" in checked.live_on()
    assert len(checked.pinned) == 2
    with pytest.raises(RotationError, match="node-7"):
        rotation.complete()  # what it keeps it has still to tell
    hour_later(checked, service)
    assert "keys" not in checked.live_on()
    rotation.complete()
    hour_later(checked, service)

    assert "keys" in checked.live_on()
    assert old not in checked.pinned
    assert len(checked.pinned) == 1


def test_a_lost_answer_is_given_again_at_the_next_check(checked, service, rotation):
    rotation.begin()
    hour_later(checked, service)
    lost = checked.check(None, checked.serials)
    hour_later(checked, service)

    assert checked.live_on()["keys"] == lost["keys"]


def test_an_aborted_rotation_makes_machines_drop_the_key_that_never_signed(checked, service, rotation):
    before = dict(checked.pinned)
    rotation.begin()
    hour_later(checked, service)
    checked.live_on()
    rotation.abort()
    hour_later(checked, service)
    checked.live_on()

    assert checked.pinned.keys() == before.keys()


def test_the_pins_are_under_the_quote(checked, service, rotation):
    rotation.begin()
    hour_later(checked, service)
    body = checked.check_body(checked.check_challenge(), checked.serials)
    body["keys"] = list(service.exchange.speaker.kids())

    answer = service.client.post("/v1/checks", json=body)

    assert answer.status_code == 403, "somebody in between cannot say that a machine pins what it does not"
    assert rotation.status().moved == 0


def test_a_client_that_does_not_tell_its_pins_is_checked_as_before_and_blocks_the_rotation(checked, service, rotation):
    checked.pinned = None
    rotation.begin()
    hour_later(checked, service)

    answer = checked.check(None, checked.serials)

    assert answer["result"] == "ok"
    assert "keys" not in answer
    with pytest.raises(RotationError, match="node-7"):
        rotation.complete()


def test_the_answer_names_the_challenge_that_it_answers(checked, service):
    hour_later(checked, service)
    challenge = checked.check_challenge()

    assert checked.live_on(challenge)["challenge"] == challenge["challenge"]


def test_a_ticket_written_during_a_rotation_carries_both_keys(service, rotation):
    machine, run = installing(service)
    rotation.begin()

    ticket = json.loads(machine.sealed_call(f"/v1/runs/{run}/ticket", Purpose.TICKET))
    service.move(run, states.Configuring)
    machine.pinned = machines.pins_of(json.loads(b64decode(ticket["keys"])))

    assert len(machine.pinned) == 2
    machine.redeem(machine.redemption(ticket))
    assert "keys" not in machine.live_on()
    assert rotation.status().moved == 1


@pytest.mark.parametrize("kids", [["short"], ["x" * 43] * 9, ["!" * 43]])
def test_malformed_pins_are_refused(checked, service, kids):
    body = checked.check_body(checked.check_challenge(), [])
    body["keys"] = kids

    assert 400 <= service.client.post("/v1/checks", json=body).status_code < 500
