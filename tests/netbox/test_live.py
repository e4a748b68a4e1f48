"""The part of a page that refreshes itself: what a machine waits for, what to do next, and silence where nothing changed."""

import re
import uuid
from datetime import UTC, datetime

import pytest
from django.test import Client
from django.urls import reverse

from netbox_fleet.actions import keys
from netbox_fleet.models import Baseline, EndorsementKey, Machine, Run
from netbox_fleet.models.endorsementkey import waiting_keys
from netbox_fleet.ui.outlook import outlook
from netbox_fleet.ui.panels import difference_rows, flat_pairs

from .builders import a_key, a_machine, a_user

pytestmark = pytest.mark.usefixtures("database")

NOW = datetime(2026, 1, 15, 12, 30, tzinfo=UTC)


@pytest.fixture
def owner():
    client = Client()
    client.force_login(a_user(superuser=True, name="owner"))
    return client


def live(machine):
    return reverse("plugins:netbox_fleet:machine_live", args=[machine.pk])


def shown_by(body):
    """What the answer names itself, for the next request."""
    return re.search(r"live/\?shown=([0-9a-f]{16})", body)[1]


def after(machine, **fields):
    """The machine, read afresh after its row was changed."""
    Machine.objects.filter(pk=machine.pk).update(**fields)
    return Machine.objects.get(pk=machine.pk)


def test_a_refresh_that_would_change_nothing_answers_nothing(owner):
    machine = a_machine()
    first = owner.get(live(machine)).content.decode()

    again = owner.get(live(machine), {"shown": shown_by(first)})
    after(machine, message="Writing the image.")
    changed = owner.get(live(machine), {"shown": shown_by(first)})

    assert (again.status_code, again.content) == (204, b"")
    assert "Writing the image." in changed.content.decode()
    assert shown_by(changed.content.decode()) != shown_by(first)


def test_a_refresh_brings_banners_and_buttons_along(owner):
    machine = a_machine()
    before = owner.get(live(machine)).content.decode()

    a_key(machine)
    after(machine, desired_action="wipe", intent_id=uuid.uuid4(), intent_state="running")
    now = owner.get(live(machine)).content.decode()

    assert "A new endorsement key was proven." not in before
    assert "A new endorsement key was proven." in now
    assert reverse("plugins:netbox_fleet:machine_wipe", args=[machine.pk]) in before
    assert reverse("plugins:netbox_fleet:machine_wipe", args=[machine.pk]) not in now
    assert "Cancel Wipe" in now
    assert now.count("hx-swap-oob") == 3


def test_the_live_part_of_a_run_is_silent_too(owner):
    run = Run.objects.create(run_id=uuid.uuid4(), machine_name="x", kind="wipe", state="running")
    url = reverse("plugins:netbox_fleet:run_live", args=[run.pk])

    assert owner.get(url, {"shown": shown_by(owner.get(url).content.decode())}).status_code == 204


def test_a_refresh_of_a_run_brings_its_evidence_along(owner):
    run = Run.objects.create(run_id=uuid.uuid4(), machine_name="x", kind="wipe", state="running")
    page = owner.get(run.get_absolute_url()).content.decode()
    url = reverse("plugins:netbox_fleet:run_live", args=[run.pk])
    before = owner.get(url).content.decode()

    Run.objects.filter(pk=run.pk).update(evidence={"disks": [{"serial": "SN-EVIDENCE"}]}, state="succeeded")
    now = owner.get(url, {"shown": shown_by(before)}).content.decode()

    place = f'id="fleet-evidence-{run.pk}"'
    assert place in page
    assert "SN-EVIDENCE" not in before
    assert "SN-EVIDENCE" in now.partition(f'{place} hx-swap-oob="true"')[2]


@pytest.mark.parametrize(
    ("fields", "next_step"),
    [
        ({}, "Provision it"),
        ({"disk_serial": ""}, "Enter its disk serial."),
        ({"machine_class": None}, "Enter its class."),
        ({"phase": "installing", "desired_action": "provision", "intent_state": "running"}, "goes on by itself"),
        ({"desired_action": "wipe", "intent_state": "requested"}, "Approve it, or cancel it."),
        ({"phase": "failed"}, "mend the cause"),
        ({"phase": "quarantined"}, "release it and ask for an attest"),
        ({"phase": "active", "check_result": "ok"}, "proves every hour"),
        ({"phase": "active", "check_result": "late"}, "switched on"),
        ({"phase": "active"}, "not checked"),
        ({"phase": "wiped"}, "decommissioning"),
        ({"phase": "retired"}, "may be deleted"),
    ],
)
def test_the_page_says_what_to_do_next(fields, next_step):
    if fields.get("desired_action"):
        fields = {**fields, "intent_id": uuid.uuid4()}

    assert next_step in outlook(after(a_machine(), **fields)).next_step


def test_a_persons_decision_comes_before_what_goes_on_by_itself(owner):
    machine = after(a_machine(), phase="active", check_result="drifted")
    offered = Baseline.objects.create(machine=machine, digest="d", time=NOW)

    assert outlook(machine).url == offered.get_absolute_url()
    assert "Boot changed." in owner.get(machine.get_absolute_url()).content.decode()
    key = a_key(machine)
    assert outlook(Machine.objects.get(pk=machine.pk)).url == key.get_absolute_url()


def test_one_approved_key_of_a_tpm_is_enough_and_its_other_keys_wait_for_nobody(owner):
    machine = after(a_machine(), phase="active", check_result="ok")
    first, _second, third = a_key(machine), a_key(machine), a_key(machine)
    assert Machine.objects.get(pk=machine.pk).pending_key == first
    keys.approve(third.pk, a_user("approve_endorsementkey", "view_machine"))

    page = owner.get(machine.get_absolute_url()).content.decode()
    overview = owner.get(reverse("plugins:netbox_fleet:overview")).content.decode()

    assert Machine.objects.get(pk=machine.pk).pending_key is None
    assert "A new endorsement key was proven" not in page
    assert first.get_absolute_url() not in overview


def test_a_key_that_comes_after_the_approval_is_of_another_tpm_and_waits(owner):
    machine = a_machine()
    keys.approve(a_key(machine).pk, a_user("approve_endorsementkey", "view_machine"))

    other = a_key(machine)

    assert Machine.objects.get(pk=machine.pk).pending_key == other
    assert other.get_absolute_url() in owner.get(reverse("plugins:netbox_fleet:overview")).content.decode()


def test_a_key_of_no_machine_yet_waits():
    key = a_key()

    assert list(waiting_keys(EndorsementKey.objects.all())) == [key]


def test_a_run_that_ends_says_when_without_being_loaded_again(owner):
    run = Run.objects.create(run_id=uuid.uuid4(), machine_name="x", kind="wipe", state="running", started=NOW)
    url = reverse("plugins:netbox_fleet:run_live", args=[run.pk])
    assert "13:45:00" not in owner.get(url).content.decode()

    Run.objects.filter(pk=run.pk).update(state="succeeded", ended=NOW.replace(hour=13, minute=45))

    assert "13:45:00" in owner.get(url).content.decode()


def test_evidence_of_several_disks_is_told_disk_by_disk():
    evidence = {"erase": {"disks": [{"serial": "a", "tried": []}, {"serial": "b"}]}, "macs": ["x", "y"]}

    assert flat_pairs(evidence) == [
        ("erase.disks.1.serial", "a"),
        ("erase.disks.1.tried", ""),
        ("erase.disks.2.serial", "b"),
        ("macs", "x, y"),
    ]


def test_a_difference_says_first_what_it_means():
    change = {"new": "2", "old": "", "pcr": 0, "event": "firmware", "sentence": "The firmware's version differs."}

    rows = difference_rows([change, "something"])

    assert [[str(name) for name, _text in row] for row in rows] == [["What", "PCR", "Event", "Before", "Now"], ["What"]]
    assert [text for _name, text in rows[0]] == ["The firmware's version differs.", "0", "firmware", "-", "2"]
