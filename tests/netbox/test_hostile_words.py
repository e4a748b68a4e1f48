"""Whatever a person or an import wrote into NetBox, the plugin's pages show it and the feed tells it: as data."""

import html

import pytest
from dcim.models import DeviceRole, Interface, Rack, Site
from django.test import Client
from django.urls import reverse
from extras.models import Tag
from ipam.models import IPAddress

from netbox_fleet.feed.records import records
from netbox_fleet.models import Machine
from tests.unit.hostile.words import SHARP

from .builders import a_device, a_machine, a_user

pytestmark = pytest.mark.usefixtures("database")

RAW = ("<script>alert(1)", '<img src=x onerror="alert(1)">', "<?include")
"""What a page must never hold unescaped."""


@pytest.fixture
def owner():
    client = Client()
    client.force_login(a_user(superuser=True, name="owner"))
    return client


def a_hostile_machine(word, number=0):
    """A machine whose every text in NetBox is this word, as far as its field is long enough."""
    site = Site.objects.create(name=word[:90] + str(number), slug=f"site-{number}", description=word[:200])
    role = DeviceRole.objects.create(name=word[:90].replace("\t", " ") + str(number), slug=f"role-{number}")
    device = a_device(
        word[:60] + str(number),
        site=site,
        role=role,
        rack=Rack.objects.create(name=word[:90] + str(number), site=site),
        serial=word[:50],
        description=word[:200],
        comments=(word * 10240)[:10240],
    )
    port = Interface.objects.create(device=device, name=word[:60] + str(number), type="other", description=word[:200])
    address = IPAddress.objects.create(address=f"192.0.2.{number + 1}/24", assigned_object=port, description=word[:200])
    device.primary_ip4 = address
    device.save()
    device.tags.add(Tag.objects.create(name=word[:90] + str(number), slug=f"tag-{number}"))
    machine = a_machine(device=device, node_name=f"hostile-{number}")
    # Past the validators, as a script or an import of the database may write.
    words = {"disk_serial": word[:90] + str(number), "bmc_address": word[:200], "bmc_secret": word[:200]}
    drift = [{"field": word, "declared": word, "reported": word}]
    Machine.objects.filter(pk=machine.pk).update(**words, firmware=word[:90], drift=drift, message=word[:500])
    return Machine.objects.get(pk=machine.pk)


@pytest.mark.slow
def test_no_page_takes_a_word_for_markup(owner):
    machines = [a_hostile_machine(word, number) for number, word in enumerate(SHARP)]
    shown = [word for word in SHARP if "<" in word]
    assert len(shown) >= 3

    pages = [reverse("plugins:netbox_fleet:overview"), reverse("plugins:netbox_fleet:machine_list") + "?per_page=100"]
    for machine in machines:
        if "<" in machine.message or "{{" in machine.message:
            pages += [machine.get_absolute_url(), machine.device.get_absolute_url()]
            pages += [reverse("plugins:netbox_fleet:machine_timeline", args=[machine.pk])]
    seen = ""
    for url in pages:
        answer = owner.get(url)
        assert answer.status_code == 200, url
        text = answer.content.decode()
        for raw in RAW:
            assert raw not in text, f"{url} holds {raw} as markup"
        seen += html.unescape(text)
    for word in shown:
        assert word.strip()[:40] in seen


def test_a_reason_is_kept_the_same_by_page_by_rest_and_in_bulk(owner):
    reason = "why\x00 \x1b[31mnot\u202e\nback\ud800"[:-1] + "\x7f"
    kept = []
    for way in ("page", "rest", "bulk"):
        machine = a_machine()
        name = {"page": "plugins:netbox_fleet:machine_attest", "rest": "plugins-api:netbox_fleet-api:machine-attest"}
        if way == "bulk":
            url, body = reverse("plugins:netbox_fleet:machine_bulk_attest"), {"pk": machine.pk, "_confirm": 1}
        else:
            url, body = reverse(name[way], args=[machine.pk]), {}
        how = {"content_type": "application/json"} if way == "rest" else {}
        assert owner.post(url, {**body, "reason": reason}, **how).status_code in {200, 302}
        kept.append(Machine.objects.get(pk=machine.pk).intent_reason.replace("\r\n", "\n"))

    assert kept == ["why\ufffd \ufffd[31mnot\ufffd\nback\ufffd"] * 3


@pytest.mark.slow
def test_the_feed_tells_every_word_as_it_stands(owner):
    machines = [a_hostile_machine(word, number) for number, word in enumerate(SHARP)]

    told = {record["machine_id"]: record for record in records(Machine.objects.all())}

    for number, (machine, word) in enumerate(zip(machines, SHARP, strict=True)):
        record = told[machine.pk]
        assert record["device"]["name"] == machine.device.name == word[:60] + str(number)
        assert record["device"]["serial"] == word[:50]
        assert record["machine"]["disk_serial"] == word[:90] + str(number)
        assert record["machine"]["firmware"] == word[:90]
        assert record["interfaces"][0]["name"] == word[:60] + str(number)
