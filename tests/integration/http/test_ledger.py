"""The EK ledger from the command line."""

from datetime import UTC, datetime

import pytest
from sqlalchemy import select
from typer.testing import CliRunner

from fleetd.cli import program
from fleetd.store.audit import AuditRow
from fleetd.store.endorsement_keys import EndorsementKeyRow, RebindRow
from fleetd.store.machines import MachineRow
from tests.integration.http.machines import a_declaration, approved, pretend_ek


@pytest.fixture
def fleetd(service, database, tmp_path, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "olga")
    config = tmp_path / "fleetd.toml"
    config.write_text(f'[database]\nurl = "{database}"\n')
    return lambda *arguments: CliRunner().invoke(program(), ["--config", str(config), *map(str, arguments)])


def test_a_replaced_board_is_rebound_by_a_person_and_then_enrolls(service, fleetd):
    machine, _ = service.enrolled()
    other = service.machine(7, ek=pretend_ek(30))
    service.declare(a_declaration(keys=(approved(other.ek),)))
    assert other.enroll().status_code == 403
    with service.sessions() as session:
        assert session.get(MachineRow, 7).quarantined_at is not None

    freed = fleetd("ek", "rebind", machine.ek.hash[:20], "--machine", 0, "--reason", "board replaced")
    service.clock.at = datetime.now(UTC)  # the command wrote by this host's clock: nobody issues by one that is behind

    assert freed.exit_code == 0, freed.output
    with service.sessions() as session:
        row = session.get(MachineRow, 7)
        assert (row.quarantined_at, row.hold_wanted) == (None, False), "the quarantine ends with the contradiction"
    assert other.enroll().status_code == 200
    with service.sessions() as session:
        rebound = session.scalars(select(RebindRow)).one()
        assert (rebound.reason, rebound.by) == ("board replaced", "olga")
        assert "ek-rebind" in {row.what for row in session.scalars(select(AuditRow))}


def test_an_unknown_key_or_an_empty_reason_changes_nothing(service, fleetd):
    machine, _ = service.enrolled()

    assert fleetd("ek", "rebind", "f" * 64, "--machine", 0, "--reason", "x").exit_code == 1
    assert fleetd("ek", "rebind", machine.ek.hash, "--machine", 0, "--reason", " ").exit_code == 1
    with service.sessions() as session:
        assert session.get(EndorsementKeyRow, machine.ek.hash).machine_id == 7


def test_the_ledger_is_listed(service, fleetd):
    machine, _ = service.enrolled()

    assert machine.ek.hash in fleetd("ek", "list", "--json").stdout


def test_the_list_does_not_say_of_a_rejected_or_freed_key_that_another_one_is_bound(service, fleetd):
    stranger = service.machine(ek=pretend_ek(30))
    service.declare(a_declaration(keys=(approved(stranger.ek, status="rejected"),)))
    assert stranger.enroll().status_code == 403

    rejected = fleetd("ek", "list").stdout
    machine, _ = service.enrolled()
    fleetd("ek", "rebind", machine.ek.hash, "--machine", 0, "--reason", "sold")

    assert "nobody" in rejected
    assert "bound" not in rejected + fleetd("ek", "list").stdout
