"""What only a person can say of a machine: written once, sent with the declaration, answered by the service."""

import uuid

import pytest
from core.models import ObjectChange
from dcim.models import Device
from django.test import Client
from django.urls import reverse

from netbox_fleet.actions import intents, statements
from netbox_fleet.actions.refusals import RefusalError
from netbox_fleet.feed.records import records
from netbox_fleet.models import Machine, Statement
from netbox_fleet.reports import batch
from netbox_fleet.ui.alerts import alerts_of, buttons_of

from .builders import a_machine, a_user, again
from .requests import logged

pytestmark = pytest.mark.usefixtures("database")

WORDS = ("release_machine", "declare_lost_machine", "vouch_machine")


def quarantined(**fields):
    machine = a_machine(**fields)
    Machine.objects.filter(pk=machine.pk).update(phase="quarantined")
    return machine


def being_retired():
    """A machine in a retirement that has begun."""
    machine = a_machine()
    intents.ask(machine.pk, intents.Request("wipe", machine.disk_serial), a_user("wipe_machine"))
    Machine.objects.filter(pk=machine.pk).update(desired_action="retire", intent_state="running")
    return Machine.objects.get(pk=machine.pk)


def say(machine, kind, user=None, **words):
    found = statements.Words(kind, **{"reason": "I looked", **words})
    return statements.say(machine.pk, found, user or a_user(*WORDS))


def declared(machine):
    (record,) = records(Machine.objects.filter(pk=machine.pk))
    return record["statements"]


def report(machine, **row):
    seq = Machine.objects.get(pk=machine.pk).report_seq + 1
    body = {"reports": [{"machine_id": machine.pk, "seq": seq, **row}]}
    return batch.apply(body, a_user("report_machine"))


def test_a_release_travels_with_the_declaration_until_it_is_answered():
    machine, bea = quarantined(), a_user(*WORDS, name="bea")
    said = say(machine, "release", bea, reason="The firmware update was ours.")

    (sent,) = declared(machine)

    assert (sent["id"], sent["kind"], sent["by"]) == (str(said.statement_id), "release", "bea")
    assert (sent["reason"], sent["intent"], sent["subject"]) == ("The firmware update was ours.", None, "")
    report(machine, statements=[{"id": sent["id"], "state": "taken"}])
    assert declared(machine) == []
    assert Statement.objects.get().state == "taken"


def test_a_refusal_of_the_service_is_shown_and_the_first_answer_stays():
    machine = quarantined()
    said = say(machine, "release")

    for state, message in (("refused", "it is not quarantined"), ("taken", "")):
        report(machine, statements=[{"id": str(said.statement_id), "state": state, "message": message}])

    said.refresh_from_db()
    assert (said.state, said.answer) == ("refused", "it is not quarantined")


def test_an_answer_about_another_machine_changes_nothing():
    machine, other = quarantined(), a_machine()
    said = say(machine, "release")

    report(other, statements=[{"id": str(said.statement_id), "state": "taken"}])

    assert Statement.objects.get().state == "given"


def test_words_about_a_retirement_name_its_intent_and_their_disk():
    machine = being_retired()
    for kind, disk in (("lost", ""), ("power-off", ""), ("disk", " STRAY1 ")):
        say(machine, kind, disk=disk)

    sent = declared(machine)

    assert [(each["kind"], each["subject"]) for each in sent] == [("lost", ""), ("power-off", ""), ("disk", "stray1")]
    assert {each["intent"] for each in sent} == {str(machine.intent_id)}


@pytest.mark.parametrize(
    ("make", "kind", "code"),
    [
        (a_machine, "release", "not-quarantined"),
        (a_machine, "lost", "no-run"),
        (quarantined, "lost", "no-run"),
        (a_machine, "power-off", "no-run"),
        (a_machine, "disk", "no-run"),
    ],
)
def test_what_makes_no_sense_now_is_refused(make, kind, code):
    with pytest.raises(RefusalError) as refused:
        say(make(), kind)

    assert refused.value.code == code
    assert not Statement.objects.exists()


def test_a_wipe_can_be_lost_but_not_vouched_for():
    machine = a_machine()
    intents.ask(machine.pk, intents.Request("wipe", machine.disk_serial), a_user("wipe_machine"))

    say(machine, "lost")
    with pytest.raises(RefusalError, match="No approved retirement"):
        say(machine, "power-off")


def test_a_retirement_that_waits_for_approval_cannot_end_by_a_word():
    machine = being_retired()
    Machine.objects.filter(pk=machine.pk).update(intent_state="requested")

    with pytest.raises(RefusalError, match="ask for one first"):
        say(machine, "lost")


def test_nobody_says_the_same_twice_before_it_is_answered():
    machine = quarantined()
    said = say(machine, "release", a_user(*WORDS, name="bea"))
    with pytest.raises(RefusalError, match="bea said so already"):
        say(machine, "release")

    report(machine, statements=[{"id": str(said.statement_id), "state": "refused", "message": "no"}])

    say(machine, "release")
    assert Statement.objects.count() == 2


@pytest.mark.parametrize("reason", ["", "   ", "\n"])
def test_nothing_is_said_without_a_reason(reason):
    machine, person = quarantined(), a_user("view_machine", *WORDS)
    client = Client()
    client.force_login(person)
    page = client.post(reverse("plugins:netbox_fleet:machine_release", args=[machine.pk]), {"reason": reason})
    url = reverse("plugins-api:netbox_fleet-api:machine-release", args=[machine.pk])
    answer = client.post(url, {"reason": reason}, content_type="application/json")

    with pytest.raises(RefusalError, match="Give a reason"):
        say(machine, "release", person, reason=reason)
    assert (page.status_code, answer.status_code) == (200, 400)
    assert not Statement.objects.exists()


@pytest.mark.parametrize("body", [{}, {"power_off": True, "disk": "stray1"}, {"disk": "  "}])
def test_one_thing_is_vouched_for_at_a_time(body):
    machine = being_retired()
    client = Client()
    client.force_login(a_user("view_machine", *WORDS))

    url = reverse("plugins-api:netbox_fleet-api:machine-vouch", args=[machine.pk])
    answer = client.post(url, {"reason": "I looked", **body}, content_type="application/json")

    assert (answer.status_code, answer.json()["code"]) == (400, "one-thing")


def test_a_statement_by_rest_is_answered_with_its_record():
    machine = being_retired()
    client = Client()
    client.force_login(a_user("view_machine", *WORDS, name="bea"))

    url = reverse("plugins-api:netbox_fleet-api:machine-vouch", args=[machine.pk])
    answer = client.post(url, {"reason": "I looked", "disk": "STRAY1"}, content_type="application/json")

    assert answer.status_code == 201
    shown = answer.json()
    assert (shown["kind"]["value"], shown["subject"], shown["by"]) == ("disk", "stray1", "bea")
    assert shown["state"]["value"] == "given"


def test_what_was_said_in_a_request_that_ended_is_never_sent_again():
    machine = being_retired()
    said = say(machine, "lost")

    report(machine, intent={"id": str(machine.intent_id), "state": "failed"})

    said.refresh_from_db()
    assert (said.state, declared(machine)) == ("refused", [])


def test_the_answer_that_comes_with_the_end_of_the_request_counts():
    machine = being_retired()
    said = say(machine, "lost")

    report(
        machine,
        intent={"id": str(machine.intent_id), "state": "succeeded"},
        statements=[{"id": str(said.statement_id), "state": "taken"}],
    )

    said.refresh_from_db()
    assert said.state == "taken"


def test_a_statement_is_in_the_change_log_with_its_author():
    machine, bea = quarantined(), a_user(*WORDS, name="bea")
    with logged(bea) as user:
        said = say(machine, "release", user)

    change = ObjectChange.objects.get(changed_object_id=said.pk, changed_object_type__model="statement")
    assert (change.user_name, change.action) == ("bea", "create")


def test_a_statement_is_news_of_its_machine_in_the_feed():
    from netbox_fleet.feed import changes

    with logged():
        a_machine()
    machine = quarantined()
    before = changes.position()
    ObjectChange.objects.update(time="2020-01-01T00:00:00Z")
    with logged(a_user(*WORDS)) as user:
        say(machine, "release", user)

    assert machine.pk in changes.changed(before).machines


def test_buttons_offer_what_can_be_said_now():
    user = a_user("view_machine", *WORDS)

    def offered(machine):
        return [button.label for button in buttons_of(Machine.objects.get(pk=machine.pk), again(user))]

    assert offered(a_machine()) == []
    assert offered(quarantined()) == ["Release"]
    assert offered(being_retired()) == ["Vouch", "Declare lost"]


def test_no_button_is_offered_on_a_retired_machine_whose_device_is_decommissioning():
    machine, user = a_machine(), a_user("view_machine", "provision_machine", "attest_machine", "wipe_machine")
    Machine.objects.filter(pk=machine.pk).update(phase="retired")

    def offered():
        return [button.label for button in buttons_of(Machine.objects.get(pk=machine.pk), again(user))]

    assert offered() == ["Provision", "Attest", "Wipe"]
    Device.objects.filter(pk=machine.device_id).update(status="decommissioning")
    assert offered() == []


def test_a_machine_that_attests_in_quarantine_can_be_released():
    machine = a_machine()
    finding = {"code": "quarantined", "severity": "refuses", "message": "held"}

    report(machine, phase="attesting", findings=[finding])

    assert say(machine, "release").kind == "release"


def test_a_banner_says_that_a_word_is_wanted():
    machine = being_retired()
    report(machine, message="Say that it is off.", findings=[{"code": "power-off-word", "message": "x"}])

    (alert,) = [found for found in alerts_of(Machine.objects.get(pk=machine.pk)) if found.link == "Vouch"]

    assert alert.text == "Say that it is off."
    assert alert.url == reverse("plugins:netbox_fleet:machine_vouch", args=[machine.pk])


def test_an_answer_to_an_unknown_statement_is_no_error():
    outcome = report(a_machine(), statements=[{"id": str(uuid.uuid4()), "state": "taken"}])

    assert (outcome.accepted, outcome.rejected) == (1, [])
