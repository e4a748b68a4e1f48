"""Asking something of a machine: who may, when it is refused, and what a second person does."""

import pytest
from core.models import ObjectChange
from dcim.models import Device
from django.core.exceptions import ValidationError
from extras.models import Tag
from utilities.exceptions import AbortRequest

from netbox_fleet.actions import intents, keys
from netbox_fleet.actions.refusals import ConflictError, NotPermittedError, RefusalError, WrongSerialError
from netbox_fleet.feed.records import records
from netbox_fleet.models import Machine, MachineClass, Run

from .builders import a_class, a_key, a_machine, a_user, again, grant
from .requests import logged

pytestmark = pytest.mark.usefixtures("database")

ASKERS = ("provision_machine", "attest_machine", "wipe_machine")


def fresh(machine):
    return Machine.objects.get(pk=machine.pk)


def ask(machine, user, kind="provision", serial=None, **words):
    typed = machine.disk_serial if serial is None else serial
    with logged(again(user)) as person:
        return intents.ask(machine.pk, intents.Request(kind, typed, **words), person)


def test_an_intent_keeps_who_asked_what_and_the_confirmed_serial():
    machine, anna = a_machine(), a_user("provision_machine", name="anna")

    asked = ask(machine, anna, reason="new node")

    assert (asked.desired_action, asked.intent_state) == ("provision", "set")
    assert (asked.intent_requested_by, asked.intent_reason) == ("anna", "new node")
    assert asked.confirmed_serial == machine.disk_serial
    assert ObjectChange.objects.get(user_name="anna").postchange_data["desired_action"] == "provision"


@pytest.mark.parametrize("kind", ["provision", "attest", "wipe"])
def test_each_action_needs_its_own_permission(kind):
    machine = a_machine()
    others = [name for name in ASKERS if name != f"{kind}_machine"]
    user = a_user("change_machine", "view_machine", *others)

    with pytest.raises(NotPermittedError):
        ask(machine, user, kind)

    grant(user, f"{kind}_machine")
    assert ask(machine, user, kind).desired_action == kind


@pytest.mark.parametrize("kind", ["provision", "wipe"])
@pytest.mark.parametrize("typed", ["", "other", "lab"])
def test_what_erases_needs_the_typed_serial(kind, typed):
    machine, user = a_machine(disk_serial="lab0001"), a_user(*ASKERS)

    with pytest.raises(WrongSerialError):
        ask(machine, user, kind, serial=typed)

    assert not fresh(machine).busy


def test_the_typed_serial_is_compared_trimmed_and_case_folded():
    machine = a_machine(disk_serial="Lab0001")

    assert ask(machine, a_user("wipe_machine"), "wipe", serial=" LAB0001 ").busy


def test_an_attestation_erases_nothing_and_needs_no_serial():
    machine = a_machine(disk_serial="", machine_class=None)

    assert ask(machine, a_user("attest_machine"), "attest", serial="", reboot=True).reboot


def test_a_second_intent_is_refused_while_one_is_set():
    machine, user = a_machine(), a_user(*ASKERS)
    first = ask(machine, user).intent_id

    with pytest.raises(ConflictError) as refused:
        ask(machine, user, "wipe")

    assert refused.value.code == "busy"
    assert fresh(machine).intent_id == first


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"disk_serial": ""}, "no-disk-serial"),
        ({"machine_class": None}, "no-class"),
        ({"machine_class": "broken"}, "class-not-installable"),
    ],
)
def test_an_incomplete_declaration_is_refused(fields, code):
    if fields.get("machine_class") == "broken":
        fields = {"machine_class": a_class("broken", installable=False, reason="no image")}

    with pytest.raises(ConflictError) as refused:
        ask(a_machine(**fields), a_user("provision_machine"))

    assert refused.value.code == code


@pytest.mark.parametrize("kind", ["provision", "attest", "wipe"])
def test_nothing_is_asked_of_a_retired_machine_until_its_device_leaves_decommissioning(kind):
    machine, user = a_machine(), a_user(*ASKERS)
    Machine.objects.filter(pk=machine.pk).update(phase="retired")
    Device.objects.filter(pk=machine.device_id).update(status="decommissioning")

    with pytest.raises(ConflictError) as refused:
        ask(machine, user, kind)
    Device.objects.filter(pk=machine.device_id).update(status="planned")

    assert refused.value.code == "retired"
    assert ask(machine, user, kind).desired_action == kind


def test_going_past_the_budget_needs_its_own_permission():
    machine, user = a_machine(), a_user("provision_machine")

    with pytest.raises(NotPermittedError):
        ask(machine, user, force_budget=True)

    grant(user, "force_machine")
    assert ask(machine, user, force_budget=True).force_budget


def two_person_machines():
    by_class = a_machine(machine_class=a_class("guarded", two_person=True))
    tag = Tag.objects.create(name="two", slug="fleet-two-person")
    by_tag, by_device_tag = a_machine(), a_machine()
    by_tag.tags.add(tag)
    by_device_tag.device.tags.add(tag)
    return by_class, by_tag, by_device_tag


def test_a_two_person_machine_waits_for_another_person():
    anna = a_user("wipe_machine", "approve_machine", name="anna")
    bert = a_user("approve_machine", name="bert")

    for machine in two_person_machines():
        assert ask(machine, anna, "wipe").intent_state == "requested"
        with pytest.raises(NotPermittedError) as refused:
            intents.approve(machine.pk, again(anna))
        assert refused.value.code == "same-person"

        approved = intents.approve(machine.pk, again(bert))
        assert (approved.intent_state, approved.approved_by) == ("set", "bert")


def test_a_rule_that_one_person_lifts_in_between_still_demands_a_second_one():
    anna, bea = a_user("wipe_machine", "approve_machine", name="anna"), a_user("approve_machine", name="bea")
    for machine in two_person_machines():
        intents.ask(machine.pk, intents.Request("wipe", machine.disk_serial), anna)
        machine.device.tags.clear()
        machine.tags.clear()
        MachineClass.objects.update(two_person=False)

        with pytest.raises(RefusalError) as refused:
            intents.approve(machine.pk, again(anna))

        assert refused.value.code == "same-person"
        assert intents.approve(machine.pk, again(bea)).intent_two_person
        (record,) = records(Machine.objects.filter(pk=machine.pk))
        assert record["intent"]["two_person"] is True


def test_a_rule_that_came_after_the_request_counts_at_its_approval():
    anna = a_user("approve_machine", name="anna")
    machine = a_machine(machine_class=a_class("guarded", two_person=True))
    intents.ask(machine.pk, intents.Request("wipe", machine.disk_serial), a_user("wipe_machine"))
    Machine.objects.filter(pk=machine.pk).update(intent_two_person=False, intent_requested_by="anna")

    with pytest.raises(RefusalError) as refused:
        intents.approve(machine.pk, anna)

    assert refused.value.code == "same-person"


def test_a_request_that_a_later_rule_holds_up_can_be_approved_by_another_person():
    anna, bea = a_user("wipe_machine", "approve_machine", name="anna"), a_user("approve_machine", name="bea")
    machine = a_machine()
    intents.ask(machine.pk, intents.Request("wipe", machine.disk_serial), anna)
    with pytest.raises(ConflictError, match="Nothing waits"):
        intents.approve(machine.pk, bea)
    machine.tags.add(Tag.objects.get_or_create(name="Two", slug="fleet-two-person")[0])

    with pytest.raises(NotPermittedError, match="second person"):
        intents.approve(machine.pk, again(anna))
    approved = intents.approve(machine.pk, again(bea))

    assert (approved.intent_state, approved.approved_by) == ("set", "bea")


def test_an_attestation_of_a_two_person_machine_waits_for_nobody():
    machine = two_person_machines()[0]

    assert ask(machine, a_user("attest_machine"), "attest").intent_state == "set"


def test_a_serial_changed_after_the_request_cannot_be_approved():
    machine = two_person_machines()[0]
    ask(machine, a_user("wipe_machine"), "wipe")
    Machine.objects.filter(pk=machine.pk).update(disk_serial="another")

    with pytest.raises(ConflictError) as refused:
        intents.approve(machine.pk, a_user("approve_machine"))

    assert refused.value.code == "declaration-changed"


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(
    "change",
    [{"disk_serial": "other"}, {"disk_wwn": "w1"}, {"extra_disks": ["precious"]}, {"node_name": "other"}],
    ids=lambda change: next(iter(change)),
)
def test_what_an_erase_was_confirmed_for_cannot_change_under_it(change, waits):
    machine = two_person_machines()[0] if waits else a_machine()
    edited = fresh(machine)
    ask(machine, a_user("wipe_machine"), "wipe")
    for name, value in change.items():
        setattr(edited, name, value)

    with pytest.raises(ValidationError):
        edited.full_clean()
    with pytest.raises(AbortRequest):
        edited.save()

    assert {name: getattr(fresh(machine), name) for name in change} == {name: getattr(machine, name) for name in change}


def test_what_was_confirmed_may_change_once_it_is_over():
    machine = two_person_machines()[0]
    ask(machine, a_user("wipe_machine"), "wipe")
    intents.cancel(machine.pk, "", a_user("cancel_machine"))

    edited = fresh(machine)
    edited.extra_disks = ["precious"]
    edited.full_clean()
    edited.save()

    assert fresh(machine).extra_disks == ["precious"]


def test_a_request_that_waits_is_withdrawn_at_once_and_its_uuid_is_spent():
    machine = two_person_machines()[0]
    intent = ask(machine, a_user("wipe_machine"), "wipe").intent_id

    intents.cancel(machine.pk, "no longer", a_user("cancel_machine", name="carl"))

    assert not fresh(machine).busy
    assert Run.objects.get(run_id=intent).state == "withdrawn"


def test_a_begun_intent_is_only_marked_for_its_end():
    machine = a_machine()
    ask(machine, a_user("provision_machine"))

    cancelled = intents.cancel(machine.pk, "stop", a_user("cancel_machine", name="carl"))

    assert cancelled.busy
    assert (cancelled.cancel_requested_by, cancelled.cancel_reason) == ("carl", "stop")


def test_nothing_to_cancel_or_approve_is_said():
    machine, user = a_machine(), a_user("cancel_machine", "approve_machine")

    with pytest.raises(ConflictError):
        intents.cancel(machine.pk, "", user)
    with pytest.raises(ConflictError):
        intents.approve(machine.pk, user)


def test_a_grant_with_a_constraint_holds_for_its_objects_only():
    mine, other = a_machine(), a_machine()
    user = a_user("wipe_machine", constraints={"node_name": mine.node_name})

    assert ask(mine, user, "wipe").busy
    with pytest.raises(NotPermittedError):
        ask(other, user, "wipe")


def test_an_ordinary_save_neither_sets_nor_undoes_an_intent():
    machine, stale = a_machine(), None
    stale = fresh(machine)
    asked = ask(machine, a_user("provision_machine"))

    stale.desired_action, stale.intent_id = "", None
    stale.phase, stale.bmc_address, stale.bmc_secret = "active", "192.0.2.1", "secret"
    stale.save()

    kept = fresh(machine)
    assert (kept.intent_id, kept.phase, kept.bmc_address) == (asked.intent_id, "declared", "192.0.2.1")


# --- retirement by the Device's status


def decommission(machine, user, path="/dcim/devices/1/edit/", status="decommissioning"):
    device = machine.device
    device.refresh_from_db()
    with logged(again(user), path.replace("/1/", f"/{device.pk}/")):
        device.snapshot()
        device.status = status
        device.save()
    return fresh(machine)


def test_decommissioning_starts_at_once_for_one_who_may_wipe():
    machine = decommission(a_machine(), a_user("wipe_machine", name="anna"))

    assert (machine.desired_action, machine.intent_state) == ("retire", "set")
    assert machine.intent_requested_by == "anna"


@pytest.mark.parametrize(
    "path",
    ["/dcim/devices/import/", "/extras/scripts/1/", "/nowhere/"],
)
def test_decommissioning_by_an_import_or_a_script_waits_for_approval(path):
    assert decommission(a_machine(), a_user("wipe_machine"), path).intent_state == "requested"


def test_decommissioning_by_one_who_may_not_wipe_waits_for_approval():
    machine = decommission(a_machine(), a_user("dcim.change_device"))
    assert machine.intent_state == "requested"

    assert intents.approve(machine.pk, a_user("approve_machine")).intent_state == "set"


def test_decommissioning_without_a_request_waits_for_approval():
    machine = a_machine()
    machine.device.status = "decommissioning"
    machine.device.save()

    assert fresh(machine).intent_state == "requested"


def test_decommissioning_without_a_disk_serial_cannot_be_approved():
    machine = decommission(a_machine(disk_serial=""), a_user("wipe_machine"))
    assert machine.intent_state == "requested"

    with pytest.raises(ConflictError):
        intents.approve(machine.pk, a_user("approve_machine"))


def test_moving_the_status_back_withdraws_what_waits_and_marks_what_runs():
    waiting = decommission(a_machine(), a_user("dcim.change_device"))
    assert not decommission(waiting, a_user(), status="active").busy

    started = decommission(a_machine(), a_user("wipe_machine"))
    assert decommission(started, a_user(name="dora"), status="active").cancel_requested_by == "dora"


def test_a_run_in_progress_is_cancelled_first_and_the_retirement_follows_it():
    machine = a_machine()
    first = ask(machine, a_user("provision_machine")).intent_id
    machine = decommission(machine, a_user("wipe_machine", name="anna"))
    assert (machine.intent_id, machine.cancel_requested_by) == (first, "anna")

    from netbox_fleet.reports import batch

    row = {"machine_id": machine.pk, "seq": 1, "intent": {"id": str(first), "state": "cancelled"}}
    batch.apply({"reports": [row]}, a_user("report_machine"))

    machine = fresh(machine)
    assert (machine.desired_action, machine.intent_state) == ("retire", "requested")


# --- records that may not vanish


@pytest.mark.parametrize(("phase", "goes"), [("declared", True), ("wiped", True), ("retired", True), ("active", False)])
def test_only_a_machine_of_which_nothing_is_left_can_be_deleted(phase, goes):
    from utilities.exceptions import AbortRequest

    machine = a_machine()
    Machine.objects.filter(pk=machine.pk).update(phase=phase)

    if goes:
        machine.delete()
        assert not Machine.objects.filter(pk=machine.pk).exists()
    else:
        with pytest.raises(AbortRequest):
            machine.delete()


def test_a_device_with_a_machine_cannot_be_deleted():
    from django.db.models import ProtectedError

    with pytest.raises(ProtectedError):
        a_machine().device.delete()


# --- endorsement keys


def test_a_key_is_approved_for_its_machine_by_one_who_may():
    key = a_key(a_machine())
    with pytest.raises(NotPermittedError):
        keys.approve(key.pk, a_user("change_endorsementkey"))

    approved = keys.approve(key.pk, a_user("approve_endorsementkey", name="anna"), reason="label checked")

    assert (approved.status, approved.decided_by, approved.decision_reason) == ("approved", "anna", "label checked")


def test_a_key_of_no_machine_needs_one_and_a_bound_key_keeps_its_own():
    user, machine, other = a_user("approve_endorsementkey"), a_machine(), a_machine()
    key = a_key()

    with pytest.raises(ConflictError):
        keys.approve(key.pk, user)
    assert keys.approve(key.pk, user, machine=machine).machine == machine
    keys.reject(key.pk, user)
    with pytest.raises(ConflictError):
        keys.approve(key.pk, user, machine=other)


def test_a_grant_for_some_machines_does_not_reach_others_through_the_choice():
    mine, other = a_machine(), a_machine()
    constraint = [{"machine__node_name": mine.node_name}, {"machine__isnull": True}]
    user = a_user("approve_endorsementkey", constraints=constraint)

    with pytest.raises(NotPermittedError):
        keys.approve(a_key().pk, user, machine=other)
    assert keys.approve(a_key().pk, user, machine=mine).status == "approved"


def test_an_approved_key_cannot_be_moved_by_an_edit():
    key = a_key(a_machine(), status="approved")
    key.machine = a_machine()

    with pytest.raises(ValidationError):
        key.full_clean()


def test_a_key_cannot_be_moved_by_an_edit_that_began_before_its_approval():
    key = a_key(a_machine())
    keys.approve(key.pk, a_user("approve_endorsementkey"))
    key.machine = a_machine()

    with pytest.raises(ValidationError):
        key.full_clean()


def test_every_refusal_has_a_status_and_a_code():
    kinds = RefusalError.__subclasses__()
    assert {kind.status for kind in kinds} == {400, 403, 409}
