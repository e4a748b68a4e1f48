"""What is exposed is what the rows say, from whichever process, and no label grows with the fleet."""

from collections.abc import Iterator
from datetime import timedelta
from uuid import uuid4

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.orm import sessionmaker

from fleetd.app.sweep import sweep
from fleetd.cli.wakes import Waker, hint_of
from fleetd.core.names import IntentKind, MachineId
from fleetd.metrics.exporter import Exporter, Issuer
from fleetd.metrics.names import METRICS
from fleetd.store.certificates import CertificateRow, CertificateState, PauseRow, RevocationListRow
from fleetd.store.endorsement_keys import ProvenKey, record_proven
from fleetd.store.engine import open_engine, session_factory
from fleetd.store.tables import METADATA
from tests.worlds import Stage, a_declaration, an_intent


@pytest.fixture
def stage(empty_database) -> Iterator[Stage]:
    engine = open_engine(empty_database)
    METADATA.create_all(engine)
    found = Stage(session_factory(engine))
    found.netbox.declare(a_declaration())
    yield found
    engine.dispose()


def read(stage: Stage, **more) -> dict[tuple, float]:
    """Every sample by its name and its label values, in the order of `names`; the bound of a bucket is the last."""
    order = {series: (*metric.labels, "le") for metric in METRICS for series in metric.series}
    text, _ = Exporter(stage.sessions, stage.clock, "1.2.3", **more).exposition()
    return {
        (sample.name, *(sample.labels[name] for name in order[sample.name] if name in sample.labels)): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


def provisioned(stage: Stage) -> None:
    stage.netbox.ask(an_intent(IntentKind.PROVISION))
    assert stage.walk().outcome == "succeeded"


def test_an_installed_machine_shows_by_phase_class_run_and_durations(stage):
    provisioned(stage)

    seen = read(stage)

    assert seen["fleetd_machines", "active", "lab-alpine"] == 1
    assert seen["fleetd_runs_total", "provision", "succeeded", ""] == 1
    assert seen["fleetd_run_duration_seconds_count", "provision", "succeeded"] == 1
    assert seen["fleetd_run_duration_seconds_bucket", "provision", "succeeded", "+Inf"] == 1
    assert seen["fleetd_run_duration_seconds_bucket", "provision", "succeeded", "1.0"] == 0
    assert seen["fleetd_phase_duration_seconds_count", "attesting"] == 1
    assert seen["fleetd_boot_checks", "awaited"] == 1
    assert seen["fleetd_build_info", "1.2.3"] == seen["fleetd_database_up",] == 1


def test_a_run_that_fails_says_why_by_its_code(stage):
    stage.serials[MachineId(7)] = "another"
    stage.netbox.ask(an_intent(IntentKind.PROVISION))
    stage.walk(minutes=5)

    (failed,) = [key for key in read(stage) if key[:3] == ("fleetd_runs_total", "provision", "failed")]

    assert failed[3]


def test_a_run_held_up_by_tinkerbell_is_counted(stage):
    stage.netbox.ask(an_intent(IntentKind.PROVISION))
    stage.turn()
    assert read(stage)["fleetd_runs_held_up",] == 0

    stage.tinkerbell.away = True
    for _ in range(3):
        stage.clock.pass_by(seconds=60)
        stage.turn()

    assert read(stage)["fleetd_runs_held_up",] == 1
    assert sum(value for key, value in read(stage).items() if key[0] == "fleetd_runs_open") == 1


def test_ages_of_poll_and_sweep_grow_until_the_next(stage):
    stage.turn()
    sweep(stage.world())
    stage.clock.pass_by(seconds=90)

    seen = read(stage)
    assert seen["fleetd_sweep_age_seconds",] == seen["fleetd_netbox_poll_age_seconds",] == 90

    sweep(stage.world())
    assert read(stage)["fleetd_sweep_age_seconds",] == 0


def test_what_is_due_and_how_late_it_is(stage):
    stage.turn()
    assert read(stage)["fleetd_looks_due",] == 0
    stage.netbox.ask(an_intent(IntentKind.PROVISION))
    stage.turn()
    stage.clock.pass_by(minutes=5)

    seen = read(stage)

    assert seen["fleetd_looks_due",] == 1
    assert 200 < seen["fleetd_oldest_due_look_seconds",] <= 300


def test_late_checks_and_the_age_of_the_oldest_good_one(stage):
    provisioned(stage)
    stage.check()
    stage.clock.pass_by(hours=4)
    stage.turn()

    assert read(stage)["fleetd_boot_checks", "late"] == 1


def test_keys_certificates_lists_and_a_pause(stage):
    now = stage.clock.now()
    issued = {
        "kind": "lak",
        "issuer": "f1",
        "enrollment_id": uuid4(),
        "taken_at": now,
        "state": CertificateState.ISSUED,
    }
    with stage.sessions.begin() as session:
        for serial, machine, days in (("1", 7, 3), ("2", 8, 3), ("3", 8, 300), ("4", 9, 20)):
            until = now + timedelta(days=days)
            session.add(CertificateRow(serial=serial, machine_id=machine, key_hash=serial, not_after=until, **issued))
        session.add(
            RevocationListRow(
                issuer="f1",
                number=1,
                der=b"",
                this_update=now - timedelta(hours=2),
                next_update=now + timedelta(days=1),
            )
        )
        session.add(PauseRow(id=1, since=now, by="anna", reason="test"))
        record_proven(session, ProvenKey("a" * 64, b"", b"", "rsa", None, "", "IBM", "", "", "verified", ()), now)

    ends = {"root_list_end": lambda: now, "server_end": lambda: now}
    seen = read(stage, authorities=lambda: [Issuer("lak", "f1", 1000.0)], queue_length=lambda: 5, **ends)

    assert seen["fleetd_certificates_expiring", "7"] == 1, "machine 8 has a newer certificate"
    assert seen["fleetd_certificates_expiring", "30"] == 2
    assert seen["fleetd_crl_age_seconds", "lak"] == 7200
    assert seen["fleetd_authority_expiry_timestamp_seconds", "lak"] == 1000
    assert seen["fleetd_crl_next_update_timestamp_seconds", "root"] == now.timestamp()
    assert seen["fleetd_server_certificate_expiry_timestamp_seconds",] == now.timestamp()
    assert seen["fleetd_endorsement_keys_waiting",] == seen["fleetd_issuance_paused",] == 1
    assert seen["fleetd_queue_length",] == 5


def test_webhooks_are_counted_over_processes(stage):
    for _ in range(2):  # two processes
        hint = hint_of(Waker(lambda _: None, lambda: None), stage.sessions, stage.clock)
        hint(None)
        hint(7)

    assert read(stage)["fleetd_webhook_hints_total",] == 4


def test_without_a_database_that_is_what_is_exposed():
    gone = sessionmaker(open_engine("postgresql+psycopg://127.0.0.1:1/none"))
    text = Exporter(gone, Stage(gone).clock, "0").exposition()[0].decode()

    assert "fleetd_database_up 0.0" in text
    assert "fleetd_machines" not in text


def test_no_label_names_a_machine_a_run_or_an_address():
    labels = {label for metric in METRICS for label in metric.labels}

    assert labels == {"version", "phase", "machine_class", "kind", "state", "result", "reason", "days", "authority"}


def test_everything_that_is_listed_is_exposed(stage):
    provisioned(stage)
    stage.check()
    hint_of(Waker(lambda _: None, lambda: None), stage.sessions, stage.clock)(None)
    now = stage.clock.now()
    with stage.sessions.begin() as session:
        session.add(RevocationListRow(issuer="f1", number=1, der=b"", this_update=now, next_update=now))
    stage.netbox.ask(an_intent(IntentKind.WIPE))
    stage.turn()
    sweep(stage.world())

    more = {"authorities": lambda: [Issuer("lak", "f1", 1.0)], "queue_length": lambda: 0, "server_end": lambda: now}
    seen = {key[0] for key in read(stage, **more)}

    assert {name for metric in METRICS for name in metric.series} == seen
