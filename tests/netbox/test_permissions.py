"""The permission matrix: each action by each role, on pages and by REST."""

import itertools

import pytest
from django.test import Client
from django.urls import reverse
from users.models import Token
from utilities.exceptions import AbortRequest

from netbox_fleet.actions import intents
from netbox_fleet.models import Baseline, EndorsementKey, Machine

from .builders import a_class, a_device, a_key, a_machine, a_user, again, grant

pytestmark = pytest.mark.usefixtures("database")

SAY = ("release", "declare_lost", "vouch")
ALL = ("provision", "attest", "wipe", "cancel", "approve", "approve_key", "reject_key", "accept", "decline", *SAY)

VIEW = ("view_machine", "view_endorsementkey", "view_baseline", "view_machineclass", "view_statement")
EDIT = ("add_machine", "change_machine", "delete_machine", "change_endorsementkey")
OPERATE = ("provision_machine", "attest_machine", "wipe_machine", "cancel_machine")
WORDS = ("release_machine", "declare_lost_machine", "vouch_machine")
APPROVE = ("approve_machine", "approve_endorsementkey", "accept_baseline")

ROLES = {
    "anonymous": None,
    "viewer": VIEW,
    "editor": (*VIEW, *EDIT),
    "operator": (*VIEW, *OPERATE),
    "approver": (*VIEW, *APPROVE),
    "warden": (*VIEW, *WORDS),
    "service": (*VIEW, "report_machine"),
    "elsewhere": (*VIEW, *OPERATE, *APPROVE, *WORDS),
    "superuser": (),
}
ALLOWED = {
    "operator": {"provision", "attest", "wipe", "cancel"},
    "approver": {"approve", "approve_key", "reject_key", "accept", "decline"},
    "warden": set(SAY),
    "superuser": set(ALL),
}


def a_person(role):
    """The user of a role; the one elsewhere holds every right, but on objects that do not exist."""
    if role == "anonymous":
        return None
    if role == "elsewhere":
        user = a_user(*VIEW)
        grant(user, *OPERATE, *APPROVE, *WORDS, constraints={"id": 0})
        return user
    return a_user(*ROLES[role], superuser=role == "superuser")


def a_scene(action):
    """A record on which the action makes sense, and where it is on pages and by REST."""
    machine = a_machine(machine_class=a_class("guarded", two_person=action == "approve", installable=True))
    if action in {"cancel", "approve"}:
        owner = a_user("wipe_machine")
        intents.ask(machine.pk, intents.Request("wipe", machine.disk_serial), owner)
    if action == "release":
        Machine.objects.filter(pk=machine.pk).update(phase="quarantined")
    if action in {"declare_lost", "vouch"}:
        intents.ask(machine.pk, intents.Request("wipe", machine.disk_serial), a_user("wipe_machine"))
        Machine.objects.filter(pk=machine.pk).update(desired_action="retire")
    if action in {"approve_key", "reject_key"}:
        return a_key(machine), "endorsementkey", action.removesuffix("_key")
    if action in {"accept", "decline"}:
        made = Baseline.objects.create(machine=machine, digest="d", time="2026-01-01T00:00:00Z")
        return made, "baseline", action
    return machine, "machine", action


def state(record):
    """All that an action could change."""
    found = type(record).objects.filter(pk=record.pk).values().get()
    found["said"] = record.statements.count() if isinstance(record, Machine) else 0
    return {name: value for name, value in found.items() if name not in {"last_updated", "custom_field_data"}}


@pytest.mark.parametrize(("role", "action"), list(itertools.product(ROLES, ALL)))
def test_each_action_on_a_page_is_for_those_who_hold_its_permission(role, action):
    record, model, name = a_scene(action)
    client = Client()
    person = a_person(role)
    if person is not None:
        client.force_login(person)
    before = state(record)
    url = reverse(f"plugins:netbox_fleet:{model}_{name}", args=[record.pk])
    body = {"confirm_serial": getattr(record, "disk_serial", ""), "reason": "because", "power_off": True}

    answer = client.post(url, body)

    if action in ALLOWED.get(role, ()):
        assert answer.status_code == 302
        assert state(record) != before
    else:
        login = answer.status_code == 302 and "/login/" in answer["Location"]
        assert answer.status_code in {403, 404} or login
        assert state(record) == before


@pytest.mark.parametrize(("role", "action"), list(itertools.product(ROLES, ALL)))
def test_each_action_by_rest_is_for_those_who_hold_its_permission(role, action):
    record, model, name = a_scene(action)
    person = a_person(role)
    headers = {}
    if person is not None:
        token = Token(user=person, write_enabled=True)
        token.save()
        headers["HTTP_AUTHORIZATION"] = f"{token.get_auth_header_prefix()}{token.token}"
    before = state(record)
    url = reverse(f"plugins-api:netbox_fleet-api:{model}-{name.replace('_', '-')}", args=[record.pk])
    body = {"confirm_serial": getattr(record, "disk_serial", ""), "reason": "because", "power_off": True}

    answer = Client().post(url, body, content_type="application/json", **headers)

    if action in ALLOWED.get(role, ()):
        assert answer.status_code in {200, 201}, answer.content
        assert state(record) != before
    else:
        assert answer.status_code in {401, 403, 404}
        assert state(record) == before


def test_a_token_that_may_not_write_asks_nothing():
    machine, person = a_machine(), a_user(superuser=True)
    token = Token(user=person, write_enabled=False)
    token.save()
    url = reverse("plugins-api:netbox_fleet-api:machine-wipe", args=[machine.pk])
    header = f"{token.get_auth_header_prefix()}{token.token}"

    answer = Client().post(
        url, {"confirm_serial": machine.disk_serial}, content_type="application/json", HTTP_AUTHORIZATION=header
    )

    assert answer.status_code == 403
    assert not Machine.objects.get(pk=machine.pk).busy


@pytest.mark.parametrize("field", ["desired_action", "intent_id", "phase", "report_seq", "approved_by"])
def test_no_edit_by_rest_writes_what_only_actions_and_reports_write(field):
    machine, person = a_machine(), a_user(superuser=True)
    client = Client()
    client.force_login(person)
    before = state(machine)
    values = {"desired_action": "wipe", "intent_id": "0" * 32, "phase": "active", "report_seq": 9, "approved_by": "x"}
    url = reverse("plugins-api:netbox_fleet-api:machine-detail", args=[machine.pk])

    client.patch(url, {field: values[field]}, content_type="application/json")

    assert state(machine) == before


def test_an_edit_by_rest_does_not_approve_a_key():
    key, person = a_key(a_machine()), a_user(superuser=True)
    client = Client()
    client.force_login(person)

    url = reverse("plugins-api:netbox_fleet-api:endorsementkey-detail", args=[key.pk])
    client.patch(url, {"status": "approved"}, content_type="application/json")

    assert EndorsementKey.objects.get(pk=key.pk).status == "pending"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"confirm_serial": "wrong"}, 400, "wrong-serial"),
        ({"confirm_serial": "lab0001", "force_budget": True}, 403, "not-permitted"),
    ],
)
def test_a_refusal_by_rest_has_its_status_and_code(body, status, code):
    machine = a_machine(disk_serial="lab0001")
    client = Client()
    client.force_login(a_user(*VIEW, *OPERATE))

    url = reverse("plugins-api:netbox_fleet-api:machine-provision", args=[machine.pk])
    answer = client.post(url, body, content_type="application/json")

    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert answer.json()["detail"]


@pytest.mark.parametrize("field", ["device", "node_name"])
def test_what_another_machine_has_is_refused_by_rest(field):
    machine, other, device = a_machine(), a_machine(), a_device()
    client = Client()
    client.force_login(a_user(superuser=True))
    taken = {"device": machine.device_id, "node_name": machine.node_name}[field]
    row = {"device": device.pk, "node_name": "second", field: taken}

    def said(call, url, body):
        answer = call(reverse(f"plugins-api:netbox_fleet-api:machine-{url[0]}", args=url[1:]), body, "application/json")
        return answer.status_code, field in answer.content.decode()

    assert said(client.post, ("list",), row) == (400, True)
    assert said(client.post, ("list",), [row]) == (400, True)
    assert said(client.patch, ("detail", other.pk), {field: taken}) == (400, True)
    assert said(client.patch, ("detail", machine.pk), {field: taken}) == (200, True)


def test_a_device_whose_name_another_machine_has_is_refused_by_rest():
    machine = a_machine(node_name="rack1-u4")
    client = Client()
    client.force_login(a_user(superuser=True))
    url = reverse("plugins-api:netbox_fleet-api:machine-list")

    answer = client.post(url, {"device": a_device(machine.node_name).pk}, content_type="application/json")

    assert (answer.status_code, list(answer.json())) == (400, ["node_name"])


def test_a_second_request_by_rest_is_a_conflict():
    machine = a_machine()
    client = Client()
    client.force_login(a_user(*VIEW, *OPERATE))
    url = reverse("plugins-api:netbox_fleet-api:machine-provision", args=[machine.pk])
    body = {"confirm_serial": machine.disk_serial}

    first = client.post(url, body, content_type="application/json")
    second = client.post(url, body, content_type="application/json")

    assert (first.status_code, first.json()["desired_action"]["value"]) == (200, "provision")
    assert (second.status_code, second.json()["code"]) == (409, "busy")


def test_a_bulk_action_by_rest_is_all_or_nothing_with_a_reason_for_each():
    good, wrong = a_machine(), a_machine()
    client = Client()
    client.force_login(a_user(*VIEW, *OPERATE))
    url = reverse("plugins-api:netbox_fleet-api:machine-bulk-wipe")
    rows = [{"id": good.pk, "confirm_serial": good.disk_serial}, {"id": wrong.pk, "confirm_serial": "x"}]

    refused = client.post(url, rows, content_type="application/json")
    assert refused.status_code == 400
    assert list(refused.json()["errors"]) == [str(wrong.pk)]
    assert not Machine.objects.exclude(desired_action="").exists()

    rows[1]["confirm_serial"] = wrong.disk_serial
    done = client.post(url, rows, content_type="application/json")
    assert done.status_code == 200, done.content
    assert [machine["id"] for machine in done.json()] == [good.pk, wrong.pk]


@pytest.mark.parametrize(("name", "status"), [("approve", "approved"), ("reject", "rejected")])
def test_keys_are_decided_in_bulk_by_rest_all_or_none(name, status):
    bound, loose, machine = a_key(a_machine()), a_key(), a_machine()
    decided = a_key(a_machine())
    EndorsementKey.objects.filter(pk=decided.pk).update(status=status)
    client = Client()
    client.force_login(a_user(*VIEW, *APPROVE))
    url = reverse(f"plugins-api:netbox_fleet-api:endorsementkey-bulk-{name}")
    rows = [{"id": bound.pk, "reason": "seen"}, {"id": loose.pk, "machine": machine.pk}]

    refused = client.post(url, [*rows, {"id": decided.pk}], content_type="application/json")
    unchanged = set(EndorsementKey.objects.exclude(pk=decided.pk).values_list("status", flat=True))
    done = client.post(url, rows, content_type="application/json")

    assert (refused.status_code, list(refused.json()["errors"])) == (409, [str(decided.pk)])
    assert unchanged == {"pending"}
    assert done.status_code == 200, done.content
    assert [key["status"]["value"] for key in done.json()] == [status, status]
    assert EndorsementKey.objects.get(pk=bound.pk).decision_reason == "seen"


def test_a_key_that_the_caller_may_not_decide_holds_up_the_whole_bulk():
    mine, other = a_key(a_machine()), a_key(a_machine())
    user = a_user(*VIEW)
    grant(user, "approve_endorsementkey", constraints={"id": mine.pk})
    client = Client()
    client.force_login(user)

    url = reverse("plugins-api:netbox_fleet-api:endorsementkey-bulk-approve")
    answer = client.post(url, [{"id": mine.pk}, {"id": other.pk}], content_type="application/json")

    assert (answer.status_code, list(answer.json()["errors"])) == (403, [str(other.pk)])
    assert not EndorsementKey.objects.filter(status="approved").exists()


UNREADABLE = [
    ("machine-provision", {"reason": ["x"], "reboot": "perhaps"}, ("reason: ", "reboot: ")),
    ("machine-cancel", [1], ("Expected a dictionary",)),
    ("machine-release", {}, ("reason: This field is required",)),
    ("machine-approve", "{", ("JSON parse error",)),
    ("endorsementkey-approve", {"machine": "x"}, ("machine: ",)),
    ("baseline-accept", {"reason": "x" * 501}, ("reason: ",)),
    ("endorsementkey-bulk-approve", {}, ("must be a list",)),
    ("endorsementkey-bulk-approve", [], ("must be a list",)),
    ("endorsementkey-bulk-approve", [{"reason": "no id"}], ("row 0: id: This field is required",)),
    ("endorsementkey-bulk-approve", [{"id": 1}, {"id": "x"}], ("row 1: id: ",)),
    ("machine-bulk-attest", [{"id": 1}, {"id": 1}], ("named twice",)),
    ("machine-bulk-wipe", [{"id": 1}, 7], ("row 1: Invalid data. Expected a dictionary",)),
]


@pytest.mark.parametrize(("name", "body", "told"), UNREADABLE)
def test_an_action_whose_body_cannot_be_read_is_refused_with_detail_and_code(name, body, told):
    scene = "approve_key" if "endorsementkey" in name else "accept" if "baseline" in name else "provision"
    args = [] if "bulk" in name else [a_scene(scene)[0].pk]
    client = Client()
    client.force_login(a_user(superuser=True))

    answer = client.post(
        reverse(f"plugins-api:netbox_fleet-api:{name}", args=args), body, content_type="application/json"
    )

    assert (answer.status_code, set(answer.json()), answer.json()["code"]) == (400, {"detail", "code"}, "bad-body")
    assert all(words in answer.json()["detail"] for words in told), answer.json()


def test_what_keeps_a_call_from_its_action_is_told_with_detail_and_code():
    machine = a_machine()
    person, nobody = Client(), Client()
    person.force_login(a_user(superuser=True))

    def post(client, pk, content_type="application/json"):
        url = reverse("plugins-api:netbox_fleet-api:machine-attest", args=[pk])
        answer = client.post(url, "{}", content_type=content_type)
        return answer.status_code, answer.json()["code"], bool(answer.json()["detail"])

    assert post(nobody, machine.pk) == (403, "not-permitted", True)
    assert post(person, 2**40) == (404, "not-found", True)
    assert post(person, machine.pk, "text/csv") == (415, "refused", True)


def test_an_action_that_something_in_netbox_aborts_is_refused_in_its_words(monkeypatch):
    def aborts(*_):
        raise AbortRequest("Frozen until Monday.")

    monkeypatch.setattr(intents, "ask", aborts)
    client = Client()
    client.force_login(a_user(superuser=True))

    answer = client.post(reverse("plugins-api:netbox_fleet-api:machine-attest", args=[a_machine().pk]))

    assert (answer.status_code, answer.json()) == (400, {"detail": "Frozen until Monday.", "code": "refused"})


def test_a_bulk_action_on_the_list_is_all_or_nothing_with_a_reason_for_each():
    good, wrong = a_machine(), a_machine()
    client = Client()
    client.force_login(again(a_user(*VIEW, *OPERATE)))
    url = reverse("plugins:netbox_fleet:machine_bulk_wipe")
    body = {"pk": [good.pk, wrong.pk], f"serial-{good.pk}": good.disk_serial, f"serial-{wrong.pk}": "x"}

    asked = client.post(url, body)
    assert asked.status_code == 200
    assert "Type the disk serial" in asked.content.decode()

    refused = client.post(url, {**body, "_confirm": "1"})
    assert "not the declared disk serial" in refused.content.decode()
    assert not Machine.objects.exclude(desired_action="").exists()

    done = client.post(url, {**body, f"serial-{wrong.pk}": wrong.disk_serial, "_confirm": "1"})
    assert done.status_code == 302
    assert Machine.objects.filter(desired_action="wipe").count() == 2
