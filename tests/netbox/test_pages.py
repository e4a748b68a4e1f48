"""What pages show: escaped words, live parts, downloads, banners, and a fixed number of queries."""

import json
import re
import uuid
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from core.models import ObjectType
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from extras.events import serialize_for_event
from extras.models import EventRule, Webhook
from netbox.models import NetBoxModel
from netbox.registry import registry
from users.models import ObjectPermission

from netbox_fleet import models
from netbox_fleet.actions import intents
from netbox_fleet.choices import KeyStatusChoices, StatementStateChoices
from netbox_fleet.jobs import remove_old_records
from netbox_fleet.models import Baseline, Machine, Run, Statement
from netbox_fleet.reports import batch
from netbox_fleet.ui.strip import DAYS, check_strip

from .builders import a_class, a_device, a_key, a_machine, a_user, grant

pytestmark = pytest.mark.usefixtures("database")

EVIL = "<script>alert('x')</script>\"><img src=x onerror=alert(1)>"
PAGES = [name for name in models.__all__ if issubclass(getattr(models, name), NetBoxModel)]
"""The records that have pages."""
NOW = datetime(2026, 1, 15, 12, 30, tzinfo=UTC)


@pytest.fixture
def owner():
    client = Client()
    client.force_login(a_user(superuser=True, name="owner"))
    return client


def an_evil_machine():
    """A machine whose every word that comes from outside tries to run a script."""
    machine = a_machine()
    finding = {"code": EVIL, "severity": EVIL, "message": EVIL, "next_step": EVIL, "evidence": {EVIL: EVIL}}
    now = NOW.isoformat()
    run = str(uuid.uuid4())
    Machine.objects.filter(pk=machine.pk).update(
        desired_action="provision", intent_id=run, intent_state="running", intent_requested_by=EVIL, intent_reason=EVIL
    )
    row = {
        "machine_id": machine.pk,
        "seq": 1,
        "phase": "failed",
        "message": EVIL,
        "findings": [finding],
        "drift": [{"field": EVIL, "declared": EVIL, "reported": EVIL}],
        "check_days": {datetime.now(UTC).date().isoformat(): 5},
        "run": {
            "id": run,
            "kind": "provision",
            "requester": EVIL,
            "state": "erasing",
            "steps": [{"name": EVIL, "state": "running", "message": EVIL}],
            "result": EVIL,
            "error": EVIL,
            "evidence": {EVIL: [EVIL]},
            "started": now,
        },
        "attestation": {
            "id": str(uuid.uuid4()),
            "run": run,
            "passed": False,
            "policy": EVIL,
            "findings": [finding],
            "facts": {EVIL: {EVIL: EVIL}},
            "pcrs": {EVIL: EVIL},
            "pcr_digest": EVIL,
            "time": now,
        },
        "certificates": [
            {
                "kind": "ldevid",
                "serial": EVIL,
                "fingerprint": "ef" * 32,
                "not_before": now,
                "not_after": now,
                "issuer": EVIL,
                "pem": EVIL,
                "revoked_at": now,
                "revocation_reason": EVIL,
            }
        ],
        "eks": [
            {
                "public_hash": "ab" * 32,
                "key_type": "<script>",
                "manufacturer": EVIL,
                "model": EVIL,
                "version": EVIL,
                "first_seen_address": EVIL,
                "findings": [finding],
            }
        ],
        "boot_check": {"time": now, "result": "failed", "findings": [finding], "difference": [EVIL, {EVIL: EVIL}]},
        "baseline": {
            "digest": EVIL,
            "state": "offered",
            "time": now,
            "difference": [EVIL, {EVIL: EVIL}],
            "pcrs": {EVIL: EVIL},
        },
    }
    classes = [{"slug": "evil", "family": EVIL, "reason": EVIL, "warning": EVIL, "role": EVIL, "digest": EVIL}]
    outcome = batch.apply({"reports": [row], "classes": classes}, a_user("report_machine"))
    assert (outcome.accepted, outcome.rejected) == (1, [])
    Statement.objects.create(
        statement_id=uuid.uuid4(),
        machine=machine,
        machine_name=machine.node_name,
        kind="disk",
        subject=EVIL,
        by=EVIL,
        reason=EVIL,
        answer=EVIL,
        time=NOW,
    )
    return machine


def every_page(machine):
    yield reverse("plugins:netbox_fleet:overview")
    for model in (getattr(models, name) for name in PAGES):
        name = model._meta.model_name
        yield reverse(f"plugins:netbox_fleet:{name}_list")
        columns = ",".join(field.name for field in model._meta.fields)
        yield reverse(f"plugins:netbox_fleet:{name}_list") + f"?include_columns={columns}"
        for record in model.objects.all():
            yield record.get_absolute_url()
    for part in (
        "live",
        "timeline",
        "cancel",
        "approve",
        "provision",
        "wipe",
        "changelog",
        "release",
        "declare_lost",
        "vouch",
    ):
        yield reverse(f"plugins:netbox_fleet:machine_{part}", args=[machine.pk])
    for part in ("approve", "reject"):
        yield reverse(f"plugins:netbox_fleet:endorsementkey_{part}", args=[machine.endorsement_keys.get().pk])
    for part in ("accept", "decline"):
        yield reverse(f"plugins:netbox_fleet:baseline_{part}", args=[machine.baselines.get().pk])
    yield reverse("plugins:netbox_fleet:run_live", args=[machine.runs.get().pk])
    yield machine.device.get_absolute_url()
    yield reverse("dcim:device_fleet", args=[machine.device_id])


def test_no_page_runs_what_a_machine_says(owner):
    machine = an_evil_machine()
    pages = list(every_page(machine))

    for url in pages:
        answer = owner.get(url)
        body = answer.content.decode()
        assert answer.status_code == 200, url
        assert "<script>alert(" not in body, url
        assert "<img src=x" not in body, url
        assert "ui/exception" not in body, url
        assert "is not JSON serializable" not in body, url
    assert len(pages) > 30


def test_the_live_part_stops_asking_when_a_run_is_final(owner):
    run = Run.objects.create(run_id=uuid.uuid4(), machine_name="x", kind="wipe", state="running")
    url = reverse("plugins:netbox_fleet:run_live", args=[run.pk])
    assert "hx-get" in owner.get(url).content.decode()

    Run.objects.filter(pk=run.pk).update(state="succeeded")

    assert "hx-get" not in owner.get(url).content.decode()


def test_evidence_and_certificates_are_downloads(owner):
    machine = an_evil_machine()
    evidence = owner.get(reverse("plugins:netbox_fleet:run_evidence", args=[machine.runs.get().pk]))
    pem = owner.get(reverse("plugins:netbox_fleet:devicecertificate_pem", args=[machine.certificates.get().pk]))

    assert json.loads(evidence.content)["evidence"] == {EVIL: [EVIL]}
    assert pem.content.decode() == EVIL
    for answer in (evidence, pem):
        assert answer["Content-Disposition"].startswith("attachment;")
        assert answer["X-Content-Type-Options"] == "nosniff"


def test_a_fresh_plugin_says_that_no_service_has_reported(owner):
    url = reverse("plugins:netbox_fleet:overview")
    assert "No service has reported yet" in owner.get(url).content.decode()

    batch.apply({"classes": [{"slug": "lab-alpine", "family": "alpine-image"}]}, a_user("report_machine"))

    assert "No service has reported yet" not in owner.get(url).content.decode()


def test_the_overview_names_retirements_that_wait_for_a_word(owner):
    waiting, other = a_machine("waiting"), a_machine("other")
    Machine.objects.update(phase="retiring")
    Machine.objects.filter(pk=waiting.pk).update(findings=[{"code": "note"}, {"code": "disk-word", "message": "x"}])

    page = owner.get(reverse("plugins:netbox_fleet:overview")).content.decode()
    (block,) = re.findall(r"Retirements that wait for your word.*?</div>\s*</div>", page, re.DOTALL)

    assert waiting.get_absolute_url() in block
    assert other.get_absolute_url() not in block


def test_an_import_of_an_unknown_class_says_who_must_report_it(owner):
    device = a_device("importme")
    body = {
        "data": f"device,machine_class\n{device.name},nowhere",
        "format": "csv",
        "csv_delimiter": ",",
        "import_method": "direct",
    }

    answer = owner.post(reverse("plugins:netbox_fleet:machine_bulk_import"), body)

    assert "No service has reported class nowhere" in answer.content.decode()
    assert not Machine.objects.exists()


def test_buttons_are_shown_to_those_who_may_use_them_on_this_very_machine():
    mine, other = a_machine(), a_machine()
    user = a_user("view_machine", "dcim.view_device")
    grant(user, "wipe_machine", constraints={"id": mine.pk})
    client = Client()
    client.force_login(user)

    for machine, shown in ((mine, True), (other, False)):
        for page in (machine.get_absolute_url(), machine.device.get_absolute_url()):
            button = reverse("plugins:netbox_fleet:machine_wipe", args=[machine.pk])
            assert (f'href="{button}"' in client.get(page).content.decode()) is shown


def test_a_device_shows_nothing_of_a_machine_that_the_user_may_not_view():
    machine = a_machine(disk_serial="hidden-serial")
    Machine.objects.update(message="hidden words")
    user = a_user("dcim.view_device")
    client = Client()
    client.force_login(user)

    page = client.get(machine.device.get_absolute_url()).content.decode()

    assert "hidden words" not in page
    assert client.get(reverse("dcim:device_fleet", args=[machine.device_id])).status_code == 404


def test_banners_say_what_an_owner_must_know(owner):
    machine = a_machine(disk_serial="")
    a_key(machine)
    machine.device.status = "decommissioning"
    machine.device.save()

    page = owner.get(machine.device.get_absolute_url()).content.decode()

    assert "Waits for approval" in page
    assert "A new endorsement key was proven" in page
    assert "No disk serial is declared" in page


@pytest.mark.parametrize("name", PAGES)
def test_a_list_costs_the_same_queries_for_few_rows_and_for_many(owner, name):
    model = getattr(models, name)
    url = reverse(f"plugins:netbox_fleet:{model._meta.model_name}_list")

    def cost():
        with CaptureQueriesContext(connection) as queries:
            assert owner.get(url).status_code == 200
        return len(queries)

    def rows(count):
        reporter = a_user("report_machine")
        for _ in range(count):
            machine = a_machine()
            serial = uuid.uuid4().hex
            batch.apply(
                {
                    "reports": [
                        {
                            "machine_id": machine.pk,
                            "seq": 1,
                            "run": {"id": str(uuid.uuid4()), "kind": "wipe", "state": "x", "started": NOW.isoformat()},
                            "attestation": {"id": str(uuid.uuid4()), "passed": True, "time": NOW.isoformat()},
                            "certificates": [
                                {
                                    "kind": "lak",
                                    "serial": serial,
                                    "fingerprint": serial * 2,
                                    "not_before": NOW.isoformat(),
                                    "not_after": NOW.isoformat(),
                                }
                            ],
                            "eks": [{"public_hash": serial * 2}],
                            "boot_check": {"time": NOW.isoformat(), "result": "ok"},
                            "baseline": {"digest": serial, "state": "offered", "time": NOW.isoformat()},
                        }
                    ]
                },
                reporter,
            )
            Statement.objects.create(
                statement_id=uuid.uuid4(),
                machine=machine,
                machine_name="x",
                kind="release",
                by="x",
                reason="x",
                time=NOW,
            )

    rows(2)
    cost()
    few = cost()
    rows(8)

    assert cost() == few


@contextmanager
def no_plugin():
    """Device pages as they are where the plugin adds nothing to them."""
    extensions, views = registry["plugins"]["template_extensions"], registry["views"]["dcim"]["device"]
    kept, tabs = list(extensions["dcim.device"]), list(views)
    extensions["dcim.device"] = [each for each in kept if not each.__module__.startswith("netbox_fleet")]
    views[:] = [view for view in tabs if view["name"] != "fleet"]
    assert len(extensions["dcim.device"]) < len(kept)
    assert len(views) < len(tabs)
    try:
        yield
    finally:
        extensions["dcim.device"] = kept
        views[:] = tabs


def cost_of(client, url):
    client.get(url)
    with CaptureQueriesContext(connection) as queries:
        assert client.get(url).status_code == 200
    return len(queries)


@pytest.mark.parametrize("superuser", [True, False])
def test_a_device_page_costs_at_most_four_queries_more_than_without_the_plugin(superuser):
    client, machine = Client(), a_machine()
    a_key(machine)
    intents.ask(machine.pk, intents.Request("attest"), a_user("attest_machine"))
    client.force_login(a_user("dcim.view_device", "view_machine", "wipe_machine", superuser=superuser))
    url = machine.device.get_absolute_url()

    with_plugin = cost_of(client, url)
    with no_plugin():
        without = cost_of(client, url)

    assert with_plugin - without <= 4


def test_core_s_device_list_offers_phase_and_trust_of_the_machines_that_the_reader_may_view():
    mine, other, _plain = a_machine("mine"), a_machine("other"), a_device("plain")
    Machine.objects.update(phase="active", check_result="drifted", last_check=NOW)
    user = a_user("dcim.view_device")
    grant(user, "view_machine", constraints={"id": mine.pk})
    client = Client()
    client.force_login(user)
    url = reverse("dcim:device_list") + "?include_columns=fleet_phase,fleet_trust,fleet_last_check"

    rows = re.findall(r"<tr.*?</tr>", client.get(url).content.decode(), re.DOTALL)
    (of_mine,) = [row for row in rows if mine.device.get_absolute_url() in row]
    (of_other,) = [row for row in rows if other.device.get_absolute_url() in row]
    export = client.get(url + "&export=table").content.decode()

    for word in (">Active<", ">Drifted<", "2026-01-15 12:30"):
        assert word in of_mine
        assert word not in of_other
    assert export.count("Drifted") == 1


def test_the_device_list_costs_the_same_queries_for_few_machines_and_for_many(owner):
    url = reverse("dcim:device_list") + "?include_columns=fleet_phase,fleet_trust,fleet_last_check"
    a_machine()
    few = cost_of(owner, url)
    for _ in range(8):
        a_machine()

    assert cost_of(owner, url) == few


def test_the_overview_draws_the_checks_of_the_last_day(owner):
    now = datetime.now(UTC)
    hour_ago, two_days_ago = now - timedelta(hours=1), now - timedelta(days=2)
    for moment in (hour_ago, hour_ago, two_days_ago):
        machine = a_machine()
        days = {moment.date().isoformat(): 1 << moment.hour}
        Machine.objects.filter(pk=machine.pk).update(phase="active", check_days=days)

    page = owner.get(reverse("plugins:netbox_fleet:overview")).content.decode()

    titles = re.findall(r"<title>([0-9:]+) UTC: ([0-9]+)</title>", page)
    assert len(titles) == 24
    assert {hour: count for hour, count in titles if count != "0"} == {f"{hour_ago.hour:02}:00": "2"}


def test_the_check_strip_tells_good_hours_missed_ones_and_no_record():
    machine = Machine(check_days={"2026-01-15": 0b1, "2026-01-14": 0xFFFFFF})

    strip = check_strip(machine, NOW)

    assert len(strip.cells) == DAYS * 24
    states = [cell.state for cell in strip.cells]
    assert states[-48:-24] == ["ok"] * 24
    assert states[-24:-11] == ["ok"] + ["missed"] * 12
    assert states[-11:] == ["none"] * 11
    assert strip.summary == "25 of 37 hours with a good check"


def test_old_records_go_but_the_newest_and_the_evidence_of_erasure_stay():
    machine = a_machine()
    old = datetime.now(UTC) - timedelta(days=2000)

    def a_run(kind, state="succeeded"):
        return Run.objects.create(
            run_id=uuid.uuid4(), machine=machine, machine_name="x", kind=kind, state=state, started=old, ended=old
        )

    gone, wiped, going_on = a_run("provision"), a_run("wipe"), a_run("attest", "running")
    newest = a_run("attest")

    removed = remove_old_records()

    assert removed["Run"] == 1
    assert set(Run.objects.all()) == {wiped, going_on, newest}
    assert gone.pk not in Run.objects.values_list("pk", flat=True)


def test_the_service_account_may_view_and_report_and_nothing_else():
    out = StringIO()
    call_command("fleet_service_account", "--quiet", stdout=out)
    token = out.getvalue().strip()

    grants = ObjectPermission.objects.filter(users__username="fleetd")
    assert {action for row in grants for action in row.actions} == {"view", "report"}
    assert {kind.app_label for row in grants for kind in row.object_types.all()} == {"netbox_fleet"}
    headers = {"HTTP_AUTHORIZATION": f"Bearer {token}"}
    client = Client()
    assert client.get(reverse("plugins-api:netbox_fleet-api:declarations"), **headers).status_code == 200
    answer = client.post(
        reverse("plugins-api:netbox_fleet-api:reports"), {"reports": []}, content_type="application/json", **headers
    )
    assert answer.json() == {"accepted": 0, "stale": [], "rejected": [], "unknown_classes": []}
    machine = a_machine()
    detail = reverse("plugins-api:netbox_fleet-api:machine-detail", args=[machine.pk])
    assert client.patch(detail, {}, content_type="application/json", **headers).status_code == 403


def test_the_webhook_names_the_machine_and_carries_no_data():
    call_command("fleet_webhook", "http://127.0.0.1:8443/hooks/netbox", "--quiet", stdout=StringIO())
    call_command("fleet_webhook", "http://127.0.0.1:8443/hooks/netbox", "--quiet", stdout=StringIO())

    hook = Webhook.objects.get(name="fleetd")
    rules = EventRule.objects.filter(action_object_id=hook.pk)
    assert sum(rule.object_types.count() for rule in rules) == 8
    secret = {"object_type": "netbox_fleet.endorsementkey", "data": {"id": 3, "machine": {"id": 7, "note": "secret"}}}
    assert json.loads(hook.render_body(secret)) == {"model": "endorsementkey", "data": {"id": 3, "machine": {"id": 7}}}
    machine = {"object_type": "netbox_fleet.machine", "data": {"id": 7}}
    assert json.loads(hook.render_body(machine)) == {"model": "machine", "data": {"id": 7}}


def test_the_webhook_tells_what_a_person_decides_and_not_what_fleetd_reported():
    call_command("fleet_webhook", "http://127.0.0.1:8443/hooks/netbox", "--quiet", stdout=StringIO())
    machine = a_machine()

    def told(record):
        data = {**serialize_for_event(record), "snapshots": {"prechange": None, "postchange": None}}
        kind = ObjectType.objects.get_for_model(record)
        return [rule.name for rule in EventRule.objects.filter(object_types=kind) if rule.eval_conditions(data)]

    assert told(machine) == ["fleetd"]
    assert told(machine.device) == ["fleetd"]
    for status in KeyStatusChoices.values():
        decided = ["fleetd: decisions on keys"] if status != KeyStatusChoices.PENDING else []
        assert told(a_key(machine, status=status)) == decided, status
    baseline = Baseline.objects.create(machine=machine, digest="d", time=NOW)
    assert told(baseline) == []
    baseline.decision = "accept"
    assert told(baseline) == ["fleetd: decisions on baselines"]
    statement = Statement(pk=1, machine=machine, statement_id=uuid.uuid4(), kind="lost", reason="stolen")
    for statement.state in StatementStateChoices.values():
        assert told(statement) == (["fleetd: statements"] if statement.state == "given" else []), statement.state


@pytest.mark.parametrize("query", ["cursor=x", "limit=0", "limit=x", "machine_id=-1", "machine_id=9" * 30])
def test_a_bad_query_of_the_feed_is_a_400(owner, query):
    assert owner.get(reverse("plugins-api:netbox_fleet-api:declarations") + "?" + query).status_code == 400


@pytest.mark.parametrize(
    "body", ["", "[", "[]", "null", '"x"', '{"reports": 1}', '{"reports": [{"machine_id": 1e400}]}']
)
def test_garbage_in_reports_is_never_a_500(owner, body):
    url = reverse("plugins-api:netbox_fleet-api:reports")
    assert owner.post(url, body, content_type="application/json").status_code in {200, 400}


def test_one_machine_can_be_read_alone(owner):
    machine, _other = a_machine(), a_machine()
    url = reverse("plugins-api:netbox_fleet-api:declarations")

    answer = owner.get(url, {"machine_id": machine.pk}).json()

    assert [record["machine_id"] for record in answer["results"]] == [machine.pk]


def test_no_migration_is_pending():
    call_command("makemigrations", "netbox_fleet", "--check", "--dry-run", verbosity=0)


def test_a_class_shows_its_machines_and_those_of_an_older_version(owner):
    machine_class = a_class("worker", digest="new")
    for digest in ("old", "new", ""):
        machine = a_machine(machine_class=machine_class)
        Machine.objects.filter(pk=machine.pk).update(installed_digest=digest)

    page = owner.get(machine_class.get_absolute_url()).content.decode()
    row = owner.get(reverse("plugins:netbox_fleet:machineclass_list"), headers={"HX-Request": "true"}).content.decode()

    assert "Installed from an older version of this class" in page
    assert "outdated=True" in page
    assert re.findall(r">\s*([0-9]+)\s*<", row)[:4] == ["0", "0", "3", "1"]


def test_a_machine_shows_where_its_hardware_differs(owner):
    machine = a_machine()
    Machine.objects.filter(pk=machine.pk).update(drift=[{"field": "serial", "declared": "SN-1", "reported": "SN-2"}])

    for url in (machine.get_absolute_url(), machine.device.get_absolute_url()):
        page = owner.get(url).content.decode()
        assert "Hardware differs." in page
    assert "SN-2" in owner.get(machine.get_absolute_url()).content.decode()
