"""The nodes file inside NetBox: merged against what was last applied, and applied whole or not at all."""

import json

import pytest
from core.models import ObjectChange
from dcim.models import Device, Interface, MACAddress, Rack
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from hypothesis import given, settings
from hypothesis import strategies as st
from ipam.models import IPAddress
from users.models import Token

from netbox_fleet.models import AppliedNode, Machine
from netbox_fleet.nodes.apply import apply
from netbox_fleet.nodes.merge import merge
from netbox_fleet.nodes.plan import plan

from .builders import a_class, a_device, a_machine, a_user, again, grant
from .requests import logged

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def owner():
    # Brings the records that a node names: site lab, role node, device type acme/box.
    a_device("elsewhere")
    a_class()
    return a_user(superuser=True, name="owner")


def a_node(name="n1", **fields):
    number = sum(name.encode())
    values = {
        "site": "lab",
        "role": "node",
        "device_type": "acme/box",
        "class": "lab-alpine",
        "serial": f"SN-{name}",
        "disk_serial": f"DISK-{name}",
        "interfaces": {
            "eth0": {"mac": f"52:54:00:00:00:{number % 256:02x}", "addresses": [f"192.0.2.{number % 250 + 1}/24"]}
        },
        "bmc": {"address": f"bmc-{name}.example", "secret": f"bmc-{name}"},
    }
    return {"name": name, **values, **fields}


def applied(user, *nodes):
    """The last line of the answer to these nodes."""
    with logged(again(user)) as person:
        return list(apply(list(nodes), person))[-1]


def fields_of(rows):
    return [(row["node"], row["field"]) for row in rows]


# --- the merge, pure ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("file", "last", "netbox", "part"),
    [
        ("a", None, None, "changes"),  # new in the file, empty in NetBox
        ("b", "a", "a", "changes"),  # only the file changed
        (None, "a", "a", "changes"),  # the file empties it
        ("a", "a", "b", "kept"),  # only NetBox changed
        ("a", "a", None, "kept"),  # NetBox emptied it
        ("c", "a", "b", "conflicts"),  # both changed
        ("c", "a", None, "conflicts"),
        ("a", None, "b", "conflicts"),  # never applied, and NetBox says something else
        ("a", "b", "a", None),  # both changed to the same
        ("a", None, "a", None),
    ],
)
def test_a_field_is_changed_kept_or_in_conflict(file, last, netbox, part):
    before = {} if last is None else {"f": last}

    found = merge("n", {"f": file}, before, {} if netbox is None else {"f": netbox})

    parts = {name: len(getattr(found, name)) for name in ("changes", "kept", "conflicts")}
    assert parts == {name: int(name == part) for name in parts}


_SIDES = st.dictionaries(st.sampled_from("abc"), st.sampled_from([None, "x", "y", "z"]))


@settings(deadline=None, max_examples=50)
@given(file=_SIDES, last=_SIDES, netbox=_SIDES)
def test_a_merge_without_conflicts_is_stable_and_touches_nothing_that_the_file_does_not_name(file, last, netbox):
    netbox = {name: value for name, value in netbox.items() if value is not None}

    first = merge("n", file, last, netbox)
    after = {**netbox, **{row.field: row.file for row in first.changes}}
    second = merge("n", file, first.applied, {name: value for name, value in after.items() if value is not None})

    assert {row.field for row in first.changes} <= set(file)
    assert not second.changes
    assert [row.field for row in second.conflicts] == [row.field for row in first.conflicts]
    assert {name: first.applied.get(name) for name in last.keys() - file.keys()} == {
        name: last[name] for name in last.keys() - file.keys()
    }


# --- applying ------------------------------------------------------------------------------------------------------------


def test_a_new_node_is_a_device_with_its_interfaces_addresses_and_machine(owner):
    Rack.objects.create(name="R1", site=Device.objects.get(name="elsewhere").site)

    answer = applied(owner, a_node(rack="R1", position=4, face="front"))

    machine = Machine.objects.get(node_name="n1")
    device = machine.device
    interface = device.interfaces.get()
    assert (answer["outcome"], answer["created"], answer["problems"]) == ("applied", ["n1"], [])
    assert (device.name, device.status, device.serial, device.rack.name, device.position) == (
        "n1",
        "planned",
        "SN-n1",
        "R1",
        4,
    )
    assert str(interface.primary_mac_address).lower() == "52:54:00:00:00:9f"
    assert str(device.primary_ip4.address) == "192.0.2.160/24"
    assert (machine.disk_serial, machine.machine_class.slug, machine.bmc_secret) == ("disk-n1", "lab-alpine", "bmc-n1")
    assert machine.desired_action == ""


def test_applying_twice_changes_nothing_and_writes_nothing(owner):
    applied(owner, a_node(), a_node("n2"))
    log = ObjectChange.objects.count()

    answer = applied(owner, a_node(), a_node("n2"))

    assert (answer["outcome"], answer["changes"], ObjectChange.objects.count()) == ("unchanged", [], log)


def test_a_further_new_node_asks_the_database_no_more_than_netbox_itself_needs(owner):
    few, more = [a_node(f"d{number}") for number in range(2)], [a_node(f"m{number}") for number in range(5)]

    with CaptureQueriesContext(connection) as first:
        assert applied(owner, *few)["outcome"] == "applied"
    with CaptureQueriesContext(connection) as second:
        assert applied(owner, *more)["outcome"] == "applied"

    asked = [query["sql"] for query in second.captured_queries]
    assert (len(asked) - len(first.captured_queries)) / 3 <= 75
    assert not [sql for sql in asked if "extras_tag" in sql and "INNER JOIN" in sql], "a new record has no tags"


def test_only_what_changed_in_the_file_is_written(owner):
    applied(owner, a_node())
    log = ObjectChange.objects.count()

    answer = applied(owner, a_node(serial="SN-new"))

    assert fields_of(answer["changes"]) == [("n1", "serial")]
    assert Device.objects.get(name="n1").serial == "SN-new"
    assert ObjectChange.objects.count() == log + 1


def test_what_only_netbox_changed_stays(owner):
    applied(owner, a_node())
    Device.objects.filter(name="n1").update(serial="BY-HAND")

    answer = applied(owner, a_node(firmware="2.1"))

    assert fields_of(answer["kept"]) == [("n1", "serial")]
    assert fields_of(answer["changes"]) == [("n1", "firmware")]
    assert Device.objects.get(name="n1").serial == "BY-HAND"


def test_all_conflicts_are_told_at_once_and_nothing_is_applied(owner):
    applied(owner, a_node(), a_node("n2"), a_node("n3"))
    Device.objects.filter(name="n1").update(serial="BY-HAND")
    Machine.objects.filter(node_name="n2").update(disk_serial="by-hand")

    answer = applied(
        owner, a_node(serial="SN-new"), a_node("n2", disk_serial="NEW"), a_node("n3", serial="SN-new"), a_node("n4")
    )

    assert answer["outcome"] == "refused"
    assert fields_of(answer["conflicts"]) == [("n1", "serial"), ("n2", "disk_serial")]
    assert answer["conflicts"][0] | {"node": "", "field": ""} == {
        "node": "",
        "field": "",
        "file": "SN-new",
        "netbox": "BY-HAND",
        "applied": "SN-n1",
    }
    assert Device.objects.get(name="n3").serial == "SN-n3"
    assert not Device.objects.filter(name="n4").exists()


def test_a_field_that_the_file_does_not_name_is_not_touched(owner):
    applied(owner, a_node())
    Device.objects.filter(name="n1").update(serial="BY-HAND")
    node = a_node()
    del node["serial"]

    answer = applied(owner, node)

    assert (answer["outcome"], answer["kept"]) == ("unchanged", [])


def test_a_device_that_is_there_already_becomes_a_node(owner):
    a_device("n1", serial="SN-n1")

    answer = applied(owner, a_node())

    assert answer["outcome"] == "applied"
    assert Device.objects.filter(name="n1").count() == 1
    assert Machine.objects.get(node_name="n1").device.serial == "SN-n1"


def test_what_netbox_says_otherwise_of_a_device_that_was_never_applied_is_a_conflict(owner):
    a_device("n1", serial="OTHER")

    assert fields_of(applied(owner, a_node())["conflicts"]) == [("n1", "serial")]


def test_a_machine_of_another_name_keeps_its_device(owner):
    a_machine(device=a_device("n1"), node_name="somebody")

    (problem,) = applied(owner, a_node())["problems"]

    assert "somebody" in problem["message"]


def test_every_unknown_name_and_missing_field_is_told(owner):
    unnamed = {"name": "n5"}

    answer = applied(
        owner, a_node(site="nowhere"), a_node("n2", **{"class": "x"}), a_node("n3", rack="R9"), unnamed, {"name": "Ä"}
    )

    assert answer["outcome"] == "refused"
    assert set(fields_of(answer["problems"])) == {
        ("n1", "site"),
        ("n2", "class"),
        ("n3", "rack"),
        ("n5", "site"),
        ("n5", "role"),
        ("n5", "device_type"),
        ("nodes[4]", "name"),
    }
    assert not Device.objects.filter(name__startswith="n").exists()


def test_what_netbox_refuses_undoes_all_and_is_told_for_every_node(owner):
    long = "x" * 180

    answer = applied(owner, a_node(), a_node("n2", serial=long), a_node("n3", bmc={"address": "b.example"}))

    assert answer["outcome"] == "refused"
    assert {row["node"] for row in answer["problems"]} == {"n2", "n3"}
    assert not Device.objects.filter(name="n1").exists()
    assert not AppliedNode.objects.exists()


def test_a_mac_or_an_address_belongs_to_one_node(owner):
    same = {"eth0": {"mac": "52:54:00:00:00:01", "addresses": ["192.0.2.9/24"]}}

    answer = applied(owner, a_node(interfaces=same), a_node("n2", interfaces=same))

    assert fields_of(answer["problems"]) == [("n2", "interfaces.eth0.mac"), ("n2", "interfaces.eth0.addresses")]


def test_a_mac_of_another_device_in_netbox_is_refused(owner):
    applied(owner, a_node(interfaces={"eth0": {"mac": "52:54:00:00:00:01"}}))

    (problem,) = applied(owner, a_node("n2", interfaces={"eth0": {"mac": "5254.0000.0001"}}))["problems"]

    assert "52:54:00:00:00:01 belongs to another device" in problem["message"]


def test_interfaces_of_a_bond_share_a_mac(owner):
    same = {"mac": "52:54:00:00:00:01"}

    assert applied(owner, a_node(interfaces={"eth0": same, "eth1": same}))["outcome"] == "applied"
    assert Interface.objects.filter(device__name="n1").count() == 2


def test_a_replaced_mac_and_address_stay_in_netbox_assigned_to_nothing(owner):
    applied(owner, a_node(interfaces={"eth0": {"mac": "52:54:00:00:00:01", "addresses": ["192.0.2.9/24"]}}))

    answer = applied(owner, a_node(interfaces={"eth0": {"mac": "52:54:00:00:00:02", "addresses": ["192.0.2.10/24"]}}))

    device = Device.objects.get(name="n1")
    assert answer["outcome"] == "applied", answer
    assert str(device.primary_ip4.address) == "192.0.2.10/24"
    assert str(device.interfaces.get().primary_mac_address).lower() == "52:54:00:00:00:02"
    assert MACAddress.objects.get(mac_address="52:54:00:00:00:01").assigned_object is None
    assert IPAddress.objects.get(address="192.0.2.9/24").assigned_object is None


def test_a_prefix_length_is_corrected_in_place(owner):
    applied(owner, a_node(interfaces={"eth0": {"addresses": ["192.0.2.9/24"]}}))

    applied(owner, a_node(interfaces={"eth0": {"addresses": ["192.0.2.9/25"]}}))

    assert [str(row.address) for row in IPAddress.objects.all()] == ["192.0.2.9/25"]


def test_interfaces_that_the_device_type_makes_are_used(owner):
    from dcim.models import InterfaceTemplate

    kind = Device.objects.get(name="elsewhere").device_type
    InterfaceTemplate.objects.create(device_type=kind, name="eth0", type="1000base-t")

    applied(owner, a_node())

    assert Interface.objects.get(device__name="n1").type == "1000base-t"


def test_the_primary_address_may_be_named(owner):
    node = a_node(
        interfaces={
            "eth0": {"addresses": ["192.0.2.9/24", "192.0.2.8/24"]},
            "eth0.7": {"addresses": ["2001:db8::1/64"]},
        },
        primary_ip4="192.0.2.9/24",
        primary_ip6="2001:db8::1/64",
    )

    applied(owner, node)

    device = Device.objects.get(name="n1")
    assert (str(device.primary_ip4.address), str(device.primary_ip6.address)) == ("192.0.2.9/24", "2001:db8::1/64")
    assert applied(owner, node)["outcome"] == "unchanged"


def test_a_person_without_the_rights_changes_nothing(owner):
    reader = a_user("view_machine", "view_machineclass", name="reader")
    grant(reader, "dcim.view_device", "dcim.view_site", "dcim.view_devicerole", "dcim.view_devicetype")

    answer = applied(reader, a_node())

    assert answer["outcome"] == "refused"
    assert "dcim.add_device" in answer["problems"][0]["message"]
    assert not Device.objects.filter(name="n1").exists()


def test_the_rights_on_this_very_record_count(owner):
    applied(owner, a_node())
    person = a_user("view_machine", "view_machineclass", name="person")
    grant(person, "dcim.view_device", "dcim.view_site", "dcim.view_devicerole", "dcim.view_devicetype")
    grant(person, "dcim.view_interface", "dcim.change_interface")
    grant(person, "dcim.change_device", constraints={"name": "another"})

    answer = applied(person, a_node(serial="SN-new"))

    assert answer["outcome"] == "refused"
    assert Device.objects.get(name="n1").serial == "SN-n1"


def test_the_change_log_names_the_person(owner):
    applied(owner, a_node())

    assert set(ObjectChange.objects.values_list("user_name", flat=True)) == {"owner"}
    assert AppliedNode.objects.get().applied_by == "owner"


# --- hostile words -------------------------------------------------------------------------------------------------------

HOSTILE = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "{{ 7*7 }}",
            "{% include '/etc/passwd' %}",
            "!!python/object:os.system",
            "'; DROP TABLE x; --",
            "a\nb",
            '"',
            "x" * 10240,
        ]
    ),
    st.integers(),
    st.booleans(),
    st.none(),
    st.lists(st.text(max_size=5), max_size=3),
    st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3),
)


@settings(deadline=None, max_examples=50)
@given(
    row=st.fixed_dictionaries(
        {"name": st.one_of(st.just("n1"), HOSTILE)},
        optional=dict.fromkeys(
            ("site", "rack", "position", "serial", "disk_serial", "extra_disks", "bmc", "interfaces", "x"), HOSTILE
        ),
    )
)
def test_no_value_of_a_file_is_ever_a_crash(row):
    user = a_user(superuser=True)

    found = plan([row], user)

    json.dumps(found.as_dict("planned"))
    user.delete()


# --- over HTTP -----------------------------------------------------------------------------------------------------------


def post(user, body, *, write=True):
    token = Token(user=user, write_enabled=write)
    token.save()
    header = token.get_auth_header_prefix() + token.token
    answer = Client().post(
        "/api/plugins/fleet/nodes/",
        json.dumps(body),
        content_type="application/json",
        headers={"Authorization": header},
    )
    raw = answer.getvalue() if answer.streaming else answer.content
    return answer.status_code, [json.loads(line) for line in raw.splitlines() if line]


def test_a_dry_run_tells_all_and_writes_nothing(owner):
    status, (answer,) = post(owner, {"nodes": [a_node()], "dry_run": True})

    assert (status, answer["outcome"], answer["created"]) == (200, "planned", ["n1"])
    assert ("n1", "serial") in fields_of(answer["changes"])
    assert not Device.objects.filter(name="n1").exists()


def test_applying_over_http_tells_how_far_it_is_and_logs_the_change(owner):
    status, lines = post(owner, {"nodes": [a_node(), a_node("n2")]})

    assert status == 200
    assert lines[0] == {"done": 2, "of": 2}
    assert lines[-1]["outcome"] == "applied"
    assert ObjectChange.objects.filter(user_name="owner", changed_object_type__model="machine").count() == 2


def test_a_conflict_over_http_is_a_409(owner):
    a_device("n1", serial="OTHER")

    status, (answer,) = post(owner, {"nodes": [a_node()]})

    assert (status, answer["outcome"]) == (409, "refused")


def test_a_token_that_may_only_read_applies_nothing(owner):
    status, _ = post(owner, {"nodes": [a_node()]}, write=False)

    assert status == 403
    assert not Device.objects.filter(name="n1").exists()


@pytest.mark.parametrize("body", [[], {"nodes": 7}, {"nodes": [], "dry_run": "no"}])
def test_a_body_of_another_shape_is_a_400(owner, body):
    assert post(owner, body)[0] == 400


def test_a_reader_that_goes_away_undoes_everything(owner):
    with logged(again(owner)) as person:
        lines = apply([a_node(f"m{number}", interfaces={}) for number in range(21)], person)
        assert next(lines) == {"done": 5, "of": 21}
        lines.close()

    assert not Device.objects.filter(name="m1").exists()
