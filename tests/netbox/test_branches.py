"""What comes with a merged branch or an import of rows asks nothing of a machine and decides nothing.

A merge (netbox-branching, which has no version for NetBox 4.7 yet) writes what its change log holds: new rows by
Django's deserializer, past the model's own save; changed ones field by field and an ordinary save; all of it under a
request of its own making. These tests do the same.
"""

import uuid

import pytest
from dcim.models import Device
from django.test import RequestFactory
from netbox.context_managers import event_tracking
from utilities.serialization import deserialize_object, serialize_object

from netbox_fleet.actions import intents, keys
from netbox_fleet.choices import RunStateChoices
from netbox_fleet.feed.records import records
from netbox_fleet.models import Baseline, EndorsementKey, Machine, Run, Statement

from .builders import a_key, a_machine, a_user, again

pytestmark = pytest.mark.usefixtures("database")


def merged_anew(record):
    """The record as a merge makes it where it is not yet."""
    model, pk = type(record), record.pk
    data = serialize_object(model.objects.get(pk=pk))
    rows = model.objects.filter(pk=pk)
    rows._raw_delete(rows.db)  # as where it never was
    found = deserialize_object(model, data, pk=pk)
    found.object.full_clean()
    found.save()
    return model.objects.get(pk=pk)


def merged_over(record, **changes):
    """The record after a merge has changed these fields."""
    present = type(record).objects.get(pk=record.pk)
    present.snapshot()
    for name, value in changes.items():
        setattr(present, name, value)
    present.full_clean()
    present.save()
    return type(record).objects.get(pk=record.pk)


def an_asked_machine():
    machine = a_machine()
    intents.ask(machine.pk, intents.Request("wipe", machine.disk_serial), a_user("wipe_machine"))
    return Machine.objects.get(pk=machine.pk)


def test_a_machine_that_a_merge_adds_comes_without_what_was_asked_of_it_in_the_branch():
    asked = an_asked_machine()
    intent = asked.intent_id

    machine = merged_anew(asked)

    assert (machine.node_name, machine.disk_serial) == (asked.node_name, asked.disk_serial)
    assert (machine.busy, machine.intent_id, machine.confirmed_serial, machine.phase) == (False, None, "", "declared")
    (record,) = records(Machine.objects.filter(pk=machine.pk))
    assert record["intent"] is None
    assert intent is not None


def test_a_merge_over_a_machine_asks_nothing_and_takes_nothing_back():
    idle, asked = a_machine(), an_asked_machine()
    words = {"desired_action": "wipe", "intent_id": uuid.uuid4(), "intent_state": "set", "approved_by": "mallory"}

    after = merged_over(idle, firmware="2.0", phase="active", **words)
    undone = merged_over(asked, desired_action="", intent_id=None, intent_state="")

    assert (after.firmware, after.busy, after.approved_by, after.phase) == ("2.0", False, "", "declared")
    assert undone.intent_id == asked.intent_id


def test_a_spent_intent_that_comes_back_in_any_way_is_not_sent():
    machine = an_asked_machine()
    Run.objects.create(run_id=machine.intent_id, machine=machine, kind="wipe", state=RunStateChoices.SUCCEEDED)

    (record,) = records(Machine.objects.filter(pk=machine.pk))

    assert record["intent"] is None


def test_a_decision_made_in_a_branch_decides_nothing_here():
    machine = a_machine()
    key = a_key(machine)
    keys.approve(key.pk, a_user("approve_endorsementkey"))
    baseline = Baseline.objects.create(
        machine=machine, digest="d", time="2026-01-01T00:00:00Z", decision="accept", decided_by="mallory"
    )

    assert merged_anew(EndorsementKey.objects.get(pk=key.pk)).status == "pending"
    assert merged_over(key, status="approved").status == "pending"
    assert merged_anew(baseline).open
    assert merged_over(baseline, decision="accept", decided_by="mallory").open


def test_a_statement_that_comes_with_a_merge_is_not_sent():
    machine = a_machine()
    said = Statement.objects.create(
        statement_id=uuid.uuid4(),
        machine=machine,
        machine_name=machine.node_name,
        kind="release",
        by="mallory",
        reason="x",
        time="2026-01-01T00:00:00Z",
    )

    assert merged_anew(said).state == "refused"
    (record,) = records(Machine.objects.filter(pk=machine.pk))
    assert record["statements"] == []


def test_a_device_that_a_merge_sets_to_decommissioning_waits_for_approval():
    machine = a_machine()
    request = RequestFactory().get("/")
    request.id, request.user = uuid.uuid4(), again(a_user("wipe_machine", "dcim.change_device"))

    with event_tracking(request):
        merged_over(Device.objects.get(pk=machine.device_id), status="decommissioning")

    machine.refresh_from_db()
    assert (machine.desired_action, machine.intent_state) == ("retire", "requested")
