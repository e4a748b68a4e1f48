"""How a Talos node fetches its configuration: by code, hardware and address, once."""

import json
import uuid

import pytest
import yaml
from fastapi.testclient import TestClient
from sqlalchemy import select

from fleetd.core.attestation.transcript import Purpose
from fleetd.core.lifecycle import states
from fleetd.http.machine import MachineParts, machine_app
from fleetd.store.audit import AuditRow
from fleetd.store.machines import MachineRow
from fleetd.store.runs import RunRow
from fleetd.store.tickets import TicketRow, TicketState, burn_tickets
from tests.integration.http.test_seeds import installing

ADDRESS = "192.0.2.7"


@pytest.fixture
def node(service):
    """A Talos machine that rebooted with its code."""
    machine, run = installing(service, machine_class="lab-talos")
    held = json.loads(machine.sealed_call(f"/v1/runs/{run}/ticket", Purpose.TICKET))
    service.move(run, states.Configuring)
    assert held.keys() == {"code"}
    machine.query = {
        "code": held["code"],
        "uuid": str(uuid.UUID(int=7 << 64 | 77)),
        "serial": "SN7",
        "mac": "52:54:00:00:00:07",
    }
    machine.run = run
    return machine


def fetch(service, node, address=ADDRESS, **changes):
    app = machine_app(MachineParts(service.exchange, lambda kind, name: None))
    with TestClient(app, client=(address, 50000)) as client:
        return client.get("/v1/config", params={**node.query, **changes})


def state_of(service):
    with service.sessions() as session:
        return session.scalars(select(TicketRow)).one().state


def test_the_node_gets_its_configuration_and_the_run_knows(service, node):
    answer = fetch(service, node)

    assert answer.status_code == 200, answer.text
    documents = list(yaml.safe_load_all(answer.content))
    assert "node-7" in [document.get("hostname") for document in documents]
    assert answer.headers["cache-control"] == "no-store"
    with service.sessions() as session:
        assert session.get(RunRow, node.run).redeemed_at is not None


def test_the_nodes_boot_check_is_taken_once_it_has_its_configuration(service, node):
    fetch(service, node)

    assert node.check()["result"] == "ok"


def test_a_node_that_takes_gzip_gets_it_and_the_same_content(service, node):
    app = machine_app(MachineParts(service.exchange, lambda kind, name: None))
    with TestClient(app, client=(ADDRESS, 50000)) as client:
        plain = client.get("/v1/config", params=node.query, headers={"Accept-Encoding": "identity"})
        packed = client.get("/v1/config", params=node.query, headers={"Accept-Encoding": "gzip"})

    assert "content-encoding" not in plain.headers
    assert packed.headers["content-encoding"] == "gzip"
    assert int(packed.headers["content-length"]) < len(plain.content)
    assert packed.content == plain.content


def test_a_lost_answer_is_repeated_and_then_no_more(service, node):
    first = fetch(service, node)
    service.clock.pass_by(minutes=5)
    assert fetch(service, node).content == first.content
    service.clock.pass_by(minutes=6)

    assert fetch(service, node).status_code == 404


def test_another_address_is_refused_and_alerted_but_burns_nothing(service, node):
    assert fetch(service, node, "192.0.2.99").status_code == 404
    with service.sessions() as session:
        assert "ticket-other-address" in {row.what for row in session.scalars(select(AuditRow))}

    assert fetch(service, node).status_code == 200


@pytest.mark.parametrize(
    "changes", [{"serial": "SN8"}, {"uuid": str(uuid.UUID(int=99))}, {"mac": "52:54:00:00:00:99"}, {"mac": "nonsense"}]
)
def test_other_hardware_burns_the_code(service, node, changes):
    answer = fetch(service, node, **changes)

    assert answer.status_code == 403
    assert state_of(service) == TicketState.BURNT


@pytest.mark.parametrize("changes", [{"serial": ""}, {"uuid": ""}, {"mac": ""}, {"serial": "Default string"}])
def test_a_code_without_all_that_is_known_of_the_machine_is_refused_alerted_and_not_burnt(service, node, changes):
    assert fetch(service, node, **changes).status_code == 404
    with service.sessions() as session:
        assert "ticket-without-fact" in {row.what for row in session.scalars(select(AuditRow))}

    assert fetch(service, node).status_code == 200


def test_a_code_is_not_good_after_its_time(service, node):
    with service.sessions() as session:
        service.clock.at = session.scalars(select(TicketRow)).one().expires

    assert fetch(service, node).status_code == 404


def test_a_code_is_not_good_when_another_run_has_begun(service, node):
    with service.sessions.begin() as session:
        burn_tickets(session, 7, "the run ended")

    assert fetch(service, node).status_code == 404


def test_a_quarantined_node_gets_nothing(service, node):
    with service.sessions.begin() as session:
        session.get(MachineRow, 7).quarantined_at = service.clock.now()

    assert fetch(service, node).status_code == 403


def test_no_configuration_before_the_machine_configures_itself(service, node):
    service.move(node.run, states.Attesting)

    assert fetch(service, node).status_code == 404


def test_a_code_nobody_has_finds_nothing(service, node):
    assert fetch(service, node, code="A" * 43).status_code == 404


def test_the_code_of_another_family_is_no_way_to_a_configuration(service, node):
    with service.sessions.begin() as session:
        row = session.get(RunRow, node.run)
        row.orders = {**row.orders, "machine_class": "lab-alpine"}

    assert fetch(service, node).status_code == 404


def test_a_configuration_is_not_given_where_the_address_is_only_claimed(service, node):
    app = machine_app(MachineParts(service.exchange, lambda kind, name: None))
    with TestClient(app, client=("203.0.113.9", 50000)) as client:
        answer = client.get("/v1/config", params=node.query, headers={"X-Forwarded-For": ADDRESS})

    assert answer.status_code == 404


def test_behind_a_trusted_proxy_the_forwarded_address_counts(service, node):
    from ipaddress import ip_network

    parts = MachineParts(service.exchange, lambda kind, name: None, trusted_proxies=(ip_network("203.0.113.0/24"),))
    with TestClient(machine_app(parts), client=("203.0.113.9", 50000)) as client:
        forged = client.get("/v1/config", params=node.query, headers={"X-Forwarded-For": f"{ADDRESS}, 198.51.100.1"})
        honest = client.get("/v1/config", params=node.query, headers={"X-Forwarded-For": f"198.51.100.1, {ADDRESS}"})

    assert (forged.status_code, honest.status_code) == (404, 200)


def test_a_missing_secret_is_a_problem_that_passes(service, node, tmp_path):
    (tmp_path / "secrets" / "talos-secrets.yaml").rename(tmp_path / "kept")
    assert fetch(service, node).status_code == 503
    (tmp_path / "kept").rename(tmp_path / "secrets" / "talos-secrets.yaml")

    assert fetch(service, node).status_code == 200
