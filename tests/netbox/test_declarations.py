"""The declarations feed, read as the service reads it."""

import pytest
from core.models import ObjectChange
from dcim.models import Interface, MACAddress
from extras.models import Tag
from ipam.models import IPAddress, Prefix

from netbox_fleet.actions import intents, keys
from netbox_fleet.feed import cursor as cursors
from netbox_fleet.feed.pages import page
from netbox_fleet.models import Machine, Run

from .builders import a_class, a_key, a_machine, a_user, again
from .requests import logged

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(autouse=True)
def a_log_with_a_past(database):
    """A change log that did not begin with the test: a first row whose id is far off asks for a full read."""
    with logged():
        Tag.objects.create(name="past", slug="past")


def read(cursor=None, limit=500):
    return page(Machine.objects.all(), cursors.parse(cursor) if cursor else None, limit)


def ids(answer):
    return [record["machine_id"] for record in answer["results"]]


def settle(cursor):
    """The same position as if two quiet minutes had gone by since."""
    position = cursors.parse(cursor)
    ObjectChange.objects.update(time="2020-01-01T00:00:00Z")
    return str(cursors.Since(position.change, position.time))


def test_a_full_read_serves_every_machine_once_page_by_page():
    made = [a_machine().pk for _ in range(5)]

    first = read(limit=2)
    second = read(first["cursor"], limit=2)
    third = read(second["cursor"], limit=2)

    assert ids(first) + ids(second) + ids(third) == made
    assert (first["more"], second["more"], third["more"]) == (True, True, False)
    assert ids(read(settle(third["cursor"]))) == []


def test_a_record_says_all_that_the_contract_names():
    machine = a_machine("rack1-u4", disk_serial=" LAB0001 ", bmc_address="192.0.2.104", bmc_secret="bmc-rack1-u4")
    machine.extra_disks = ["Data1", "data2@WWN-9"]
    machine.save()
    interface = Interface.objects.create(device=machine.device, name="eth0", type="1000base-t")
    MACAddress.objects.create(mac_address="52:54:00:00:00:01", assigned_object=interface)
    Prefix.objects.create(prefix="192.0.0.0/16", custom_field_data={"gateway": "192.0.0.1"})
    Prefix.objects.create(prefix="192.0.2.0/24", custom_field_data={"gateway": "192.0.2.1/24"})
    address = IPAddress.objects.create(address="192.0.2.4/24", assigned_object=interface, dns_name="rack1-u4.test")
    machine.device.primary_ip4 = address
    machine.device.save()
    machine.tags.add(Tag.objects.create(name="edge", slug="edge"))
    machine.device.tags.add(Tag.objects.create(name="row", slug="row"))
    key = a_key(machine)
    rejected = a_key(machine, status="rejected")

    (record,) = read()["results"]

    assert record["machine_id"] == machine.pk
    assert record["device"]["name"] == "rack1-u4"
    assert record["device"]["primary_ip4"] == "192.0.2.4/24"
    assert record["machine"]["disk_serial"] == "lab0001"
    assert record["machine"]["extra_disks"] == [{"serial": "data1", "wwn": ""}, {"serial": "data2", "wwn": "wwn-9"}]
    assert record["interfaces"] == [
        {"name": "eth0", "mac_addresses": ["52:54:00:00:00:01"], "mgmt_only": False, "enabled": True}
    ]
    assert record["addresses"] == [
        {"address": "192.0.2.4/24", "interface": "eth0", "dns_name": "rack1-u4.test", "gateway": "192.0.2.1"}
    ]
    assert record["tags"] == ["edge", "row"]
    assert [(entry["id"], entry["status"]) for entry in record["eks"]] == [
        (key.pk, key.status),
        (rejected.pk, "rejected"),
    ]
    assert record["intent"] is None
    assert record["baseline_decision"] is None


@pytest.mark.parametrize(
    "change",
    [
        lambda machine: machine.device.save(),
        lambda machine: Interface.objects.create(device=machine.device, name="eth9", type="1000base-t"),
        lambda machine: MACAddress.objects.create(
            mac_address="52:54:00:00:00:09", assigned_object=machine.device.interfaces.get()
        ),
        lambda machine: machine.device.interfaces.get().mac_addresses.get().delete(),
        lambda machine: IPAddress.objects.get().delete(),
        lambda machine: Prefix.objects.create(prefix="192.0.2.0/24"),
        lambda machine: machine.device.site.save(),
        lambda machine: machine.device.tags.add(Tag.objects.create(name="new", slug="new")),
        lambda machine: machine.tags.add(Tag.objects.create(name="new", slug="new")),
        a_key,
        lambda machine: machine.machine_class.save(),
    ],
    ids=["device", "interface", "mac", "mac gone", "address gone", "prefix", "site", "tag", "own tag", "key", "class"],
)
def test_what_a_person_changes_around_a_machine_serves_it_again(change):
    machine = a_machine()
    a_machine(machine_class=a_class("other"))
    interface = Interface.objects.create(device=machine.device, name="eth0", type="1000base-t")
    MACAddress.objects.create(mac_address="52:54:00:00:00:01", assigned_object=interface)
    IPAddress.objects.create(address="192.0.2.4/24", assigned_object=interface)
    cursor = settle(read()["cursor"])

    with logged():
        snapshot_all(machine)
        change(machine)

    assert machine.pk in ids(read(cursor))


def snapshot_all(machine):
    """Make a plain save count as a change: NetBox logs only what differs from the snapshot."""
    for record in (machine.device, machine.device.site, machine.machine_class):
        record.snapshot()
    machine.device.comments = "changed"
    machine.device.site.comments = "changed"
    machine.machine_class.reason = "changed"


def test_a_mac_address_moved_elsewhere_serves_both_machines():
    first, second = a_machine(), a_machine()
    there = [Interface.objects.create(device=m.device, name="eth0", type="1000base-t") for m in (first, second)]
    mac = MACAddress.objects.create(mac_address="52:54:00:00:00:01", assigned_object=there[0])
    cursor = settle(read()["cursor"])

    with logged():
        mac.snapshot()
        mac.assigned_object = there[1]
        mac.save()

    assert ids(read(cursor)) == [first.pk, second.pk]


def test_a_deleted_machine_is_a_tombstone_and_absence_is_none():
    machine, hidden = a_machine(), a_machine()
    cursor = settle(read()["cursor"])
    gone = machine.pk
    with logged():
        machine.delete()
        hidden.snapshot()
        hidden.bmc_address, hidden.bmc_secret = "192.0.2.9", "secret"
        hidden.save()

    answer = page(Machine.objects.none(), cursors.parse(cursor), 500)

    assert answer["results"] == [{"machine_id": gone, "tombstone": True}]


def test_changes_behind_the_cursor_are_read_again_for_two_minutes():
    machine = a_machine()
    with logged():
        machine.snapshot()
        machine.disk_serial = "other"
        machine.save()
    cursor = read()["cursor"]

    assert ids(read(cursor)) == [machine.pk]
    assert ids(read(settle(cursor))) == []


def test_many_changes_come_page_by_page_without_losing_what_happens_meanwhile():
    machines = [a_machine() for _ in range(3)]
    cursor = settle(read()["cursor"])
    with logged():
        for machine in machines:
            machine.snapshot()
            machine.disk_serial += "x"
            machine.save()
    first = read(cursor, limit=2)
    with logged():
        machines[0].snapshot()
        machines[0].disk_serial += "y"
        machines[0].save()
    second = read(first["cursor"], limit=2)

    assert ids(first) + ids(second) == [machine.pk for machine in machines]
    assert machines[0].pk in ids(read(second["cursor"]))


def test_a_pruned_change_log_asks_for_a_full_read():
    machine = a_machine()
    with logged():
        machine.snapshot()
        machine.disk_serial = "one"
        machine.save()
    cursor = read()["cursor"]
    with logged():
        for serial in ("two", "three"):
            machine.snapshot()
            machine.disk_serial = serial
            machine.save()
    ObjectChange.objects.exclude(pk=ObjectChange.objects.order_by("-pk").first().pk).delete()

    answer = read(cursor)

    assert answer["full_read_required"]
    assert answer["results"] == []
    assert not read(read()["cursor"])["full_read_required"]


def test_an_intent_is_sent_until_a_final_run_spends_it():
    machine = a_machine()
    user = a_user("provision_machine", "view_machine")
    with logged(again(user)) as person:
        asked = intents.ask(machine.pk, intents.Request("provision", machine.disk_serial), person)

    (record,) = read()["results"]
    assert record["intent"]["id"] == str(asked.intent_id)
    assert record["intent"]["state"] == "set"
    assert record["intent"]["confirmed_serial"] == machine.disk_serial

    Run.objects.create(run_id=asked.intent_id, machine=machine, kind="provision", machine_name="x", state="failed")
    (record,) = read()["results"]
    assert record["intent"] is None


def test_an_approval_wakes_the_feed():
    machine = a_machine()
    key = a_key(machine)
    cursor = settle(read()["cursor"])

    with logged(again(a_user("approve_endorsementkey"))) as person:
        keys.approve(key.pk, person)

    (record,) = read(cursor)["results"]
    assert record["eks"][0]["status"] == "approved"
    assert record["eks"][0]["approved_by"] == person.username


def test_a_page_costs_the_same_queries_for_one_machine_and_for_many():
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    def cost():
        with CaptureQueriesContext(
            connection,
        ) as queries:
            read()
        return len(queries)

    def one_more():
        machine = a_machine()
        interface = Interface.objects.create(device=machine.device, name="eth0", type="1000base-t")
        IPAddress.objects.create(address=f"192.0.2.{machine.pk % 250 + 1}/24", assigned_object=interface)
        a_key(machine)

    one_more()
    one = cost()
    for _ in range(6):
        one_more()

    assert cost() == one


@pytest.mark.parametrize("text", ["", "x", "since-1", "full-1-2", "page-1-2-3-4", "since--1-2", "since-1-2;drop"])
def test_what_is_no_cursor_is_refused(text):
    with pytest.raises(cursors.BadCursorError):
        cursors.parse(text)
