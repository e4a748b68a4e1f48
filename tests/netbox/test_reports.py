"""Reports of the service, applied as NetBox gets them."""

import uuid
from datetime import timedelta

import pytest
from core.models import ObjectChange
from django.core.exceptions import PermissionDenied
from django.db import OperationalError, connection
from django.urls import path
from django.utils import timezone
from drf_spectacular.generators import SchemaGenerator
from extras.models import Tag

from netbox_fleet.actions import intents
from netbox_fleet.api.views.service import ReportsView
from netbox_fleet.feed import cursor as cursors
from netbox_fleet.feed.pages import page
from netbox_fleet.filtersets import MachineFilterSet
from netbox_fleet.models import (
    Attestation,
    Baseline,
    BootCheck,
    DeviceCertificate,
    EndorsementKey,
    Machine,
    MachineClass,
    Run,
)
from netbox_fleet.reports import batch

from .builders import a_class, a_key, a_machine, a_user, again
from .requests import logged

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def service():
    return a_user("report_machine", "view_machine", name="fleetd")


def report(service, *rows, **parts):
    with logged(again(service)) as person:
        return batch.apply({"reports": list(rows), **parts}, person)


def about(machine, seq=1, **words):
    return {"machine_id": machine.pk, "seq": seq, **words}


def fresh(record):
    return type(record).objects.get(pk=record.pk)


def test_an_observation_shows_and_leaves_no_change_log(service):
    machine = a_machine()

    outcome = report(service, about(machine, phase="attesting", percent=40, message="waiting for the TPM"))

    machine = fresh(machine)
    assert (outcome.accepted, outcome.stale, outcome.rejected) == (1, [], [])
    assert (machine.phase, machine.percent, machine.message) == ("attesting", 40, "waiting for the TPM")
    assert not ObjectChange.objects.filter(changed_object_id=machine.pk, user_name="fleetd").exists()


def test_what_a_report_leaves_out_stays(service):
    machine = a_machine()
    report(service, about(machine, 1, phase="erasing", percent=10, message="erasing"))

    report(service, about(machine, 2, percent=20))

    machine = fresh(machine)
    assert (machine.phase, machine.percent, machine.message) == ("erasing", 20, "erasing")


@pytest.mark.parametrize("seq", [4, 5])
def test_a_report_that_is_not_newer_is_stale_and_dropped(service, seq):
    machine = a_machine()
    report(service, about(machine, 5, phase="erasing"))

    outcome = report(service, about(machine, seq, phase="active"))

    assert outcome.stale == [machine.pk]
    assert fresh(machine).phase == "erasing"


LOSES = """
CREATE FUNCTION pg_temp.lose() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION USING ERRCODE = '{code}'; END $$;
CREATE TRIGGER lose BEFORE UPDATE ON netbox_fleet_machine FOR EACH ROW EXECUTE FUNCTION pg_temp.lose();
"""


@pytest.mark.parametrize("code", ["40P01", "55P03", "57014"], ids=["deadlock", "lock timeout", "statement timeout"])
def test_a_row_that_the_database_cannot_take_now_refuses_the_whole_body_and_is_not_called_bad(service, code):
    machine = a_machine()
    with connection.cursor() as cursor:
        cursor.execute(LOSES.format(code=code))

    with pytest.raises(OperationalError):
        report(service, about(machine, 1, phase="active"))


@pytest.mark.parametrize(
    "words",
    [
        {"phase": "flying"},
        {"percent": 101},
        {"percent": "much"},
        {"check_days": {"2026-01-31": 2**24}},
        {"check_days": {"today": 1}},
        {"run": {"id": "x"}},
        {"eks": [{"public_hash": "zz"}]},
        {"findings": "none"},
        {"findings": ["x"]},
        {"certificates": [{"kind": "ldevid"}]},
        {"seq": 0},
        {"machine_id": 999_999_999},
    ],
)
def test_one_bad_row_is_named_and_does_not_refuse_the_rest(service, words):
    good, bad = a_machine(), a_machine()

    outcome = report(service, {**about(bad), **words}, about(good, phase="active"))

    assert [entry["index"] for entry in outcome.rejected] == [0]
    assert outcome.accepted == 1
    assert fresh(good).phase == "active"


@pytest.mark.parametrize("row", [None, 7, "x", [], {}])
def test_a_row_that_is_no_object_is_named(service, row):
    assert [entry["index"] for entry in report(service, row).rejected] == [0]


def test_words_of_a_machine_are_cleaned_and_cut(service):
    machine = a_machine()
    evil = "a\x00b\ud800c\u202ed<script>" + "x" * 9000

    outcome = report(
        service,
        about(
            machine,
            message=evil,
            findings=[
                {"code": "c", "severity": "warns", "message": evil, "next_step": evil, "evidence": {"k\x00": evil}}
            ],
        ),
    )

    machine = fresh(machine)
    assert outcome.accepted == 1
    assert len(machine.message) == 500
    assert machine.message.startswith("a\ufffdb\ufffdc\ufffdd<script>")
    assert len(machine.findings[0]["message"]) == 1000


def test_json_that_is_deep_or_large_is_refused(service):
    machine = a_machine()
    deep = {}
    for _ in range(60):
        deep = {"d": deep}
    run = {"id": str(uuid.uuid4()), "kind": "wipe", "state": "running"}

    outcome = report(
        service,
        about(machine, 1, run={**run, "evidence": deep}),
        about(machine, 2, run={**run, "evidence": {"x": "y" * 200_000}}),
    )

    assert [entry["index"] for entry in outcome.rejected] == [0, 1]


def test_a_run_follows_its_reports_until_it_is_final(service):
    machine = a_machine()
    run = {"id": str(uuid.uuid4()), "kind": "provision", "requester": "anna"}
    step = {"name": "erase", "state": "running", "percent": 12, "started": "2026-01-01T00:00:00Z"}

    report(service, about(machine, 1, run={**run, "state": "erasing", "percent": 40, "steps": [step]}))
    shown = Run.objects.get()
    assert (shown.state, shown.percent, shown.steps[0]["name"]) == ("running", 40, "erase")

    report(service, about(machine, 2, run={**run, "state": "failed", "error": "disk not found"}))
    report(service, about(machine, 3, run={**run, "state": "succeeded"}))

    assert (Run.objects.get().state, Run.objects.get().error) == ("failed", "disk not found")


@pytest.mark.parametrize("state", ["succeeded", "failed", "cancelled", "withdrawn"])
def test_the_end_of_an_intent_clears_it_and_spends_its_uuid(service, state):
    machine = a_machine()
    user = a_user("provision_machine")
    intent = intents.ask(machine.pk, intents.Request("provision", machine.disk_serial), again(user)).intent_id
    report(service, about(machine, 1, intent={"id": str(intent), "state": "running"}))
    assert fresh(machine).intent_state == "running"

    report(service, about(machine, 2, intent={"id": str(intent), "state": state}))

    machine = fresh(machine)
    assert (machine.desired_action, machine.intent_id, machine.intent_state) == ("", None, "")
    assert Run.objects.get(run_id=intent).state == state
    assert intents.spent(intent)


def test_the_end_of_another_intent_clears_nothing(service):
    machine = a_machine()
    user = a_user("provision_machine")
    intents.ask(machine.pk, intents.Request("provision", machine.disk_serial), again(user))

    report(service, about(machine, intent={"id": str(uuid.uuid4()), "state": "succeeded"}))

    assert fresh(machine).desired_action == "provision"


@pytest.mark.parametrize("status", ["planned", "staged", "offline", "failed"])
def test_an_active_machine_makes_its_device_active_in_the_services_name(service, status):
    machine = a_machine()
    type(machine.device).objects.filter(pk=machine.device_id).update(status=status)

    report(service, about(machine, phase="active"))

    machine.device.refresh_from_db()
    assert machine.device.status == "active"
    change = ObjectChange.objects.get(changed_object_id=machine.device_id, user_name="fleetd")
    assert (change.prechange_data["status"], change.postchange_data["status"]) == (status, "active")


@pytest.mark.parametrize("status", ["decommissioning", "inventory"])
def test_a_device_is_never_moved_out_of_decommissioning(service, status):
    machine = a_machine()
    type(machine.device).objects.filter(pk=machine.device_id).update(status=status)

    report(service, about(machine, phase="active"))

    machine.device.refresh_from_db()
    assert machine.device.status == status


def test_a_proven_key_waits_for_a_person_and_a_decision_outlives_reports(service):
    machine = a_machine()
    proven = {"public_hash": "ab" * 32, "key_type": "rsa-2048", "chain_status": "none", "manufacturer": "IBM"}
    report(service, about(machine, 1, eks=[proven]))
    key = EndorsementKey.objects.get()
    assert (key.status, key.machine_id, key.manufacturer) == ("pending", machine.pk, "IBM")

    EndorsementKey.objects.update(status="rejected")
    report(service, about(machine, 2, eks=[{**proven, "manufacturer": "SW"}]))

    key = EndorsementKey.objects.get()
    assert (key.status, key.manufacturer) == ("rejected", "SW")


def test_a_key_that_was_rejected_before_it_waited_for_a_machine_is_told_to_be_rejected(service):
    """Otherwise the machine waits for days: nothing of it is pending in NetBox, and the service knows of no word."""
    machine = a_machine()
    report(service, endorsement_keys=[{"public_hash": "ab" * 32}])
    EndorsementKey.objects.update(status="rejected")
    with logged():
        Tag.objects.create(name="past", slug="past")
    cursor = page(Machine.objects.all(), None, 500)["cursor"]
    ObjectChange.objects.update(time="2020-01-01T00:00:00Z")

    report(service, about(machine, eks=[{"public_hash": "ab" * 32}]))

    (record,) = page(Machine.objects.all(), cursors.parse(cursor), 500)["results"]
    assert [(entry["public_hash"], entry["status"]) for entry in record["eks"]] == [("ab" * 32, "rejected")]


def test_an_approved_key_stays_with_its_machine_whoever_shows_it(service):
    owner, other = a_machine(), a_machine()
    key = a_key(owner, status="approved")

    report(service, about(other, eks=[{"public_hash": key.public_hash}]))

    assert fresh(key).machine_id == owner.pk


def test_a_key_declared_by_its_certificate_learns_its_hash(service):
    machine = a_machine()
    declared = EndorsementKey.objects.create(machine=machine, certificate_sha256="cd" * 32, status="approved")

    report(service, about(machine, eks=[{"public_hash": "ab" * 32, "certificate_sha256": "cd" * 32}]))

    assert (fresh(declared).public_hash, EndorsementKey.objects.count()) == ("ab" * 32, 1)


def test_a_key_of_no_known_machine_names_its_candidates(service):
    machine = a_machine()

    report(service, endorsement_keys=[{"public_hash": "ab" * 32, "candidates": [machine.pk, 999_999]}])

    key = EndorsementKey.objects.get()
    assert key.machine is None
    assert list(key.candidates.all()) == [machine]


def test_attestations_certificates_and_checks_are_kept_once_however_often_reported(service):
    machine = a_machine()
    now = timezone.now()
    words = {
        "attestation": {"id": str(uuid.uuid4()), "passed": True, "policy": "judged", "time": now.isoformat()},
        "certificates": [
            {
                "kind": "ldevid",
                "serial": "0a",
                "fingerprint": "ef" * 32,
                "not_before": now.isoformat(),
                "not_after": (now + timedelta(days=90)).isoformat(),
                "pem": "-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----\n",
            }
        ],
        "boot_check": {"time": now.isoformat(), "result": "ok"},
        "baseline": {"digest": "d1", "state": "offered", "time": now.isoformat()},
    }

    report(service, about(machine, 1, **words))
    report(service, about(machine, 2, **words))

    assert [model.objects.count() for model in (Attestation, DeviceCertificate, BootCheck, Baseline)] == [1, 1, 1, 1]
    assert "\nAAA\n" in DeviceCertificate.objects.get().pem


def test_a_revocation_is_taken_over_and_nothing_else_of_a_certificate_changes(service):
    machine = a_machine()
    now = timezone.now().isoformat()
    certificate = {"kind": "lak", "serial": "0a", "fingerprint": "ef" * 32, "not_before": now, "not_after": now}
    report(service, about(machine, 1, certificates=[certificate]))

    revoked = {**certificate, "serial": "ff", "revoked_at": now, "revocation_reason": "cessation"}
    report(service, about(machine, 2, certificates=[revoked]))

    kept = DeviceCertificate.objects.get()
    assert (kept.serial, kept.revocation_reason) == ("0a", "cessation")
    assert kept.revoked_at is not None


def test_a_new_baseline_replaces_the_one_before(service):
    machine = a_machine()
    now = timezone.now().isoformat()
    report(service, about(machine, 1, baseline={"digest": "one", "state": "accepted", "time": now}))
    report(service, about(machine, 2, baseline={"digest": "two", "state": "offered", "time": now}))
    report(service, about(machine, 3, baseline={"digest": "two", "state": "accepted", "time": now}))

    assert dict(Baseline.objects.values_list("digest", "state")) == {"one": "superseded", "two": "accepted"}


def test_check_days_are_merged_and_old_ones_dropped(service):
    machine = a_machine()
    today = timezone.now().date()
    days = [(today - timedelta(days=back)).isoformat() for back in (0, 1, 60)]
    report(service, about(machine, 1, check_days={days[1]: 7, days[2]: 7}))

    report(service, about(machine, 2, check_days={days[0]: 1}))

    assert fresh(machine).check_days == {days[1]: 7, days[0]: 1}


def test_a_report_from_the_far_future_is_refused_and_silences_no_later_one(service):
    machine = a_machine()
    now = int(timezone.now().timestamp() * 1000)
    day = 24 * 3600 * 1000

    far = report(service, about(machine, now + 2 * day, phase="failed"))
    later = report(service, about(machine, now, phase="active"))

    assert "ahead of NetBox's clock" in str(far.rejected[0]["errors"]["seq"])
    assert (later.accepted, fresh(machine).phase) == (1, "active")


@pytest.mark.parametrize(
    "days",
    [
        {"9999-12-31": 1},
        {"2026-13-01": 1},
        {"2026-02-30": 1},
        {"0000-01-01": 1},
        {"2026-01-01": True},
        {"2026-01-01": 1 << 24},
        {"2026-01-01": -1},
        {"2026-01-01": 1.0},
        {"\uff12026-01-01": 1},
        {"": 1},
        {f"2020-01-{day:02}": 1 for day in range(1, 32)}
        | {f"2020-03-{day:02}": 1 for day in range(1, 32)}
        | {"2020-05-01": 1},
    ],
)
def test_days_of_checks_that_cannot_be_are_refused(service, days):
    machine = a_machine()

    outcome = report(service, about(machine, check_days=days))

    assert "check_days" in outcome.rejected[0]["errors"]
    assert fresh(machine).check_days == {}


def test_days_of_checks_that_were_kept_from_the_future_go_with_the_next_report(service):
    machine = a_machine()
    today = timezone.now().date().isoformat()
    Machine.objects.filter(pk=machine.pk).update(check_days={"9999-12-31": 1})

    report(service, about(machine, check_days={today: 1}))

    assert fresh(machine).check_days == {today: 1}


def test_classes_are_taken_over_and_one_that_is_gone_cannot_be_installed(service):
    kept = {"slug": "kept", "family": "talos", "installable": True, "two_person": True}
    report(service, classes=[kept, {"slug": "gone", "family": "talos", "installable": True}])
    machine = a_machine(machine_class=MachineClass.objects.get(slug="gone"))

    outcome = report(service, classes=[{**kept, "warning": "old"}])

    assert outcome.unknown_classes == ["gone"]
    assert MachineClass.objects.get(slug="kept").warning == "old"
    gone = MachineClass.objects.get(slug="gone")
    assert (gone.installable, gone.pk) == (False, machine.machine_class_id)


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        "x",
        {"reports": {}},
        {"classes": [{"slug": "not a slug"}]},
        {"service": 1},
        {"classes": [{"slug": "twice"}] * 2},
    ],
)
def test_a_body_of_another_shape_is_refused(service, body):
    with pytest.raises(batch.BadBodyError):
        batch.apply(body, again(service))


def test_the_openapi_document_says_of_json_what_it_is():
    calls = SchemaGenerator(patterns=[path("reports/", ReportsView.as_view())])
    said = calls.get_schema(public=True)["components"]["schemas"]

    def kinds(name, *fields):
        return [said[f"{name}Request"]["properties"][field]["type"] for field in fields]

    assert kinds("MachineReport", "findings", "drift", "check_days") == ["array", "array", "object"]
    assert kinds("RunReport", "evidence") == ["object"]
    assert kinds("AttestationReport", "findings", "pcrs", "facts") == ["array", "object", "object"]
    assert kinds("KeyReport", "findings") == kinds("UnknownKeyReport", "findings") == ["array"]
    assert kinds("BootCheckReport", "findings", "difference") == ["array", "array"]
    assert kinds("BaselineReport", "pcrs", "difference") == ["object", "array"]


def test_reports_need_their_permission():
    with pytest.raises(PermissionDenied):
        batch.apply({"reports": []}, a_user("view_machine", "change_machine"))


def test_reports_about_machines_outside_the_grant_are_refused():
    mine, other = a_machine(), a_machine()
    service = a_user("report_machine", constraints={"id": mine.pk})

    outcome = batch.apply({"reports": [about(mine), about(other)]}, again(service))

    assert outcome.accepted == 1
    assert [entry["index"] for entry in outcome.rejected] == [1]
    assert Machine.objects.get(pk=other.pk).report_seq == 0


# --- drift and versions of classes ---------------------------------------------------------------------------------------


def test_hardware_that_is_not_as_declared_shows_and_goes_again(service):
    machine = a_machine()
    row = {"field": "serial", "declared": "SN-1", "reported": "SN-2"}
    report(service, about(machine, 1, drift=[row]))
    assert fresh(machine).drift == [row]

    report(service, about(machine, 2, drift=[]))

    assert fresh(machine).drift == []


@pytest.mark.parametrize("drift", [{"field": "serial"}, ["serial"], 7])
def test_drift_of_another_shape_is_refused(service, drift):
    outcome = report(service, about(a_machine(), 1, drift=drift))

    assert outcome.rejected


def test_a_machine_that_was_installed_from_another_version_of_its_class_is_outdated(service):
    machine = a_machine(machine_class=a_class("worker", digest="new"))
    never = a_machine(machine_class=machine.machine_class)

    report(service, about(machine, 1, installed_digest="old"), about(never, 1, installed_digest=""))
    assert (fresh(machine).outdated, fresh(never).outdated) == (True, False)
    outdated = MachineFilterSet({"outdated": True}, Machine.objects.filter(pk__in=[machine.pk, never.pk])).qs
    assert [one.pk for one in outdated] == [machine.pk]

    report(service, about(machine, 2, installed_digest="new"))

    assert not fresh(machine).outdated
