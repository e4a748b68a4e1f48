"""Seeds and tickets: once, for the machine they are for, and never in the store."""

import io
import json
import tarfile
import uuid

import pytest
from fastapi.testclient import TestClient
from jsonschema import Draft202012Validator
from sqlalchemy import select, text

from fleetd.core.attestation.transcript import Purpose
from fleetd.core.lifecycle import states
from fleetd.core.names import IntentKind
from fleetd.core.seed import SEED_SCHEMA
from fleetd.http.machine import MachineParts, machine_app
from fleetd.store.audit import AuditRow
from fleetd.store.runs import RunRow
from fleetd.store.schema import Base
from fleetd.store.tickets import TicketRow, TicketState
from tests.integration.http.machines import a_declaration, put_run


def installing(service, number=7, **changes):
    machine, run = service.enrolled(number, **changes)
    service.move(run, states.Erasing)
    asked = machine.call("POST", f"/v1/runs/{run}/leave", {"action": "erase", "disk_serial": "LAB0001"})
    assert asked.status_code == 200, asked.text
    service.move(run, states.Installing)
    return machine, run


def with_ticket(service, **changes):
    machine, run = installing(service, **changes)
    ticket = json.loads(machine.sealed_call(f"/v1/runs/{run}/ticket", Purpose.TICKET))
    service.move(run, states.Configuring)
    return machine, run, ticket


def code(answer):
    return answer.json()["type"].removeprefix("urn:fleetd:problem:")


def test_the_nocloud_seed_is_a_tar_sealed_to_the_session(service):
    machine, run = installing(service, machine_class="lab-cloud-init")

    content = machine.sealed_call(f"/v1/runs/{run}/seed", Purpose.SEED)

    with tarfile.open(fileobj=io.BytesIO(content)) as files:
        assert files.getnames() == ["user-data", "meta-data", "network-config", "vendor-data"]
        assert b"node-7" in files.extractfile("meta-data").read()


def test_no_seed_before_the_disk_is_being_written(service):
    machine, run = service.enrolled(machine_class="lab-cloud-init")

    answer = machine.call("POST", f"/v1/runs/{run}/seed", {})

    assert (answer.status_code, code(answer)) == (409, "not-now")


def test_no_secrets_where_the_class_gives_none_to_an_unjudged_system(service):
    machine, run = installing(service, machine_class="strict")

    answer = machine.call("POST", f"/v1/runs/{run}/ticket", {})

    assert (answer.status_code, code(answer)) == (403, "boot-not-judged")


def test_a_ticket_is_redeemed_by_a_quote_for_the_seed(service):
    machine, run, ticket = with_ticket(service)

    seed = machine.redeem(machine.redemption(ticket))

    Draft202012Validator(SEED_SCHEMA).validate(seed)
    assert (seed["machine"], seed["device"], seed["run"]) == (7, "node-7", str(run))
    assert seed["certificates"] == machine.result["certificates"]
    with service.sessions() as session:
        assert session.get(RunRow, run).redeemed_at == service.clock.now()


def test_a_lost_answer_is_repeated_within_the_window(service):
    machine, _, ticket = with_ticket(service)
    first = machine.redeem(machine.redemption(ticket))
    service.clock.pass_by(minutes=9)

    assert machine.redeem(machine.redemption(ticket)) == first


def redeemed_from(service, body, address):
    app = machine_app(MachineParts(service.exchange, lambda kind, name: None))
    with TestClient(app, client=(address, 50000)) as client:
        return client.post("/v1/seeds/redeem", json=body)


def test_a_second_address_is_refused_and_alerted_and_burns_nothing(service):
    machine, _, ticket = with_ticket(service)
    first = redeemed_from(service, machine.redemption(ticket), "203.0.113.7")
    assert first.status_code == 200

    second = redeemed_from(service, machine.redemption(ticket), "203.0.113.8")

    assert (second.status_code, code(second)) == (403, "ticket-other-address")
    with service.sessions() as session:
        assert session.scalars(select(TicketRow)).one().state == TicketState.REDEEMED
        assert "ticket-other-address" in {row.what for row in session.scalars(select(AuditRow))}
    assert redeemed_from(service, machine.redemption(ticket), "203.0.113.7").status_code == 200


def test_a_lost_answer_is_repeated_to_any_address_that_netbox_gives_the_machine(service):
    machine, _, ticket = with_ticket(service)
    assert redeemed_from(service, machine.redemption(ticket), "203.0.113.7").status_code == 200

    assert redeemed_from(service, machine.redemption(ticket), "192.0.2.7").status_code == 200


def test_a_ticket_is_not_good_after_its_time(service):
    machine, _, ticket = with_ticket(service)
    with service.sessions() as session:
        service.clock.at = session.scalars(select(TicketRow)).one().expires

    answer = service.client.post("/v1/seeds/redeem", json=machine.redemption(ticket))

    assert (answer.status_code, code(answer)) == (403, "ticket-again")


def test_a_ticket_is_not_good_during_another_run(service):
    machine, _, ticket = with_ticket(service)
    with service.sessions.begin() as session:
        put_run(session, a_declaration(7), IntentKind.PROVISION, states.Attesting, service.clock.now())

    answer = service.client.post("/v1/seeds/redeem", json=machine.redemption(ticket))

    assert (answer.status_code, code(answer)) == (403, "ticket-again")


def test_after_the_window_the_ticket_is_burnt(service):
    machine, _, ticket = with_ticket(service)
    machine.redeem(machine.redemption(ticket))
    service.clock.pass_by(minutes=11)

    answer = service.client.post("/v1/seeds/redeem", json=machine.redemption(ticket))

    assert (answer.status_code, code(answer)) == (403, "ticket-again")
    with service.sessions() as session:
        assert session.scalars(select(TicketRow)).one().state == TicketState.BURNT


def test_the_first_boot_check_burns_the_ticket(service):
    machine, _, ticket = with_ticket(service)
    machine.redeem(machine.redemption(ticket))
    assert machine.check()["result"] == "ok"

    answer = service.client.post("/v1/seeds/redeem", json=machine.redemption(ticket))

    assert code(answer) == "ticket-again"


def test_a_seed_that_would_differ_is_not_given_again(service):
    machine, run, ticket = with_ticket(service)
    machine.redeem(machine.redemption(ticket))
    with service.sessions.begin() as session:
        row = session.get(RunRow, run)
        row.orders = {**row.orders, "device_name": "another"}

    answer = service.client.post("/v1/seeds/redeem", json=machine.redemption(ticket))

    assert code(answer) == "seed-changed"


@pytest.mark.parametrize(
    "dmi", [{"serial": "SN8", "uuid": str(uuid.UUID(int=7 << 64 | 77))}, {"uuid": str(uuid.uuid4())}]
)
def test_other_hardware_burns_the_ticket_and_raises_an_alert(service, dmi):
    machine, _, ticket = with_ticket(service)

    answer = service.client.post("/v1/seeds/redeem", json=machine.redemption(ticket, machine.facts(dmi=dmi)))

    assert (answer.status_code, code(answer)) == (403, "ticket-other-hardware")
    with service.sessions() as session:
        assert session.scalars(select(TicketRow)).one().state == TicketState.BURNT
        assert "ticket-other-hardware" in {row.what for row in session.scalars(select(AuditRow))}


def test_placeholders_of_firmware_contradict_nothing(service):
    machine, _, ticket = with_ticket(service)
    facts = machine.facts(dmi={"serial": "To be filled by O.E.M.", "uuid": "03000200-0400-0500-0006-000700080009"})

    assert machine.redeem(machine.redemption(ticket, facts))["machine"] == 7


def test_a_thief_with_the_ticket_and_another_tpm_gets_nothing_and_burns_nothing(service):
    machine, _, ticket = with_ticket(service)
    thief = service.machine(8)
    body = machine.redemption(ticket)
    body["quote"] = {"attest": body["quote"]["attest"], "signature": thief_signature(thief, body)}

    answer = service.client.post("/v1/seeds/redeem", json=body)

    assert (answer.status_code, code(answer)) == (403, "not-verified")
    assert machine.redeem(machine.redemption(ticket))["machine"] == 7


def thief_signature(thief, body):
    from base64 import b64decode

    from tests.integration.http.machines import text

    return text(thief.lak.sign(b64decode(body["quote"]["attest"])))


def test_the_ticket_of_another_machine_is_not_known(service):
    machine, _, _ = with_ticket(service, number=7)
    _, _, other = with_ticket(service, number=8)
    challenge_of = machine.redemption({**other, "machine": 7, "run": machine.result["run"]})

    answer = service.client.post("/v1/seeds/redeem", json=challenge_of)

    assert code(answer) == "ticket-unknown"


def test_a_second_ticket_voids_the_first(service):
    machine, run = installing(service)
    first = json.loads(machine.sealed_call(f"/v1/runs/{run}/ticket", Purpose.TICKET))
    second = json.loads(machine.sealed_call(f"/v1/runs/{run}/ticket", Purpose.TICKET))
    service.move(run, states.Configuring)

    assert service.client.post("/v1/seeds/redeem", json=machine.redemption(first)).status_code == 403
    assert machine.redeem(machine.redemption(second))["machine"] == 7


def test_a_ticket_of_a_run_that_is_over_is_worth_nothing(service):
    machine, run, ticket = with_ticket(service)
    service.move(run, states.Attesting)

    answer = service.client.post("/v1/seeds/redeem", json=machine.redemption(ticket))

    assert code(answer) == "ticket-again"


def test_a_quarantined_machine_gets_no_seed(service):
    from fleetd.store.machines import MachineRow

    machine, _, ticket = with_ticket(service)
    with service.sessions.begin() as session:
        session.get(MachineRow, 7).quarantined_at = service.clock.now()

    answer = service.client.post("/v1/seeds/redeem", json=machine.redemption(ticket))

    assert code(answer) == "quarantined"


def test_no_secret_of_the_exchange_is_in_the_store(service):
    machine, _, ticket = with_ticket(service)
    machine.redeem(machine.redemption(ticket))
    secrets = [ticket["ticket"].encode(), machine.session_key, service.exchange.server_key]
    secrets += [secret.hex().encode() for secret in secrets[1:]] + [ticket["ticket"].encode().hex().encode()]

    with service.sessions() as session:
        dump = b"".join(
            str(row).encode() + repr(row).encode()
            for table in Base.metadata.sorted_tables
            for row in session.execute(text(f'SELECT row_to_json(t)::text FROM "{table.name}" t'))
        )

    assert not [secret for secret in secrets if secret in dump]
