"""Drift: what a machine reports of itself against what NetBox declares."""

from dataclasses import replace

import pytest

from fleetd.core.declaration import Disk, Interface
from fleetd.core.drift import drift
from fleetd.core.names import disk_serial, mac_address
from tests.worlds import a_declaration

MAC, OTHER, BMC = (mac_address(f"52:54:00:00:00:0{number}") for number in (1, 2, 9))


def declared(**changes):
    interfaces = (Interface("eth0", (MAC,)), Interface("bmc", (BMC,), mgmt_only=True))
    values = {
        "device_serial": "SN-1",
        "disk": Disk(disk_serial("disk1"), "wwn1"),
        "interfaces": interfaces,
        "firmware": "2.1",
    }
    return replace(a_declaration(), **{**values, **changes})


def told(**changes):
    facts = {
        "dmi": {"serial": "sn-1", "firmware": "2.1"},
        "macs": [MAC],
        "disks": [{"serial": "disk1", "wwn": "WWN1"}],
    }
    return {**facts, **changes}


def rows(declaration, facts):
    return [(one.field, one.declared, one.reported) for one in drift(declaration, facts)]


def test_a_machine_that_is_as_declared_has_no_drift():
    assert rows(declared(), told()) == []


@pytest.mark.parametrize(
    ("facts", "row"),
    [
        ({"dmi": {"serial": "SN-2", "firmware": "2.1"}}, ("serial", "SN-1", "SN-2")),
        ({"dmi": {"serial": "SN-1", "firmware": "2.2"}}, ("firmware", "2.1", "2.2")),
        ({"macs": [MAC, OTHER]}, ("mac", "", OTHER)),
        ({"macs": [MAC, MAC]}, None),
        ({"disks": [{"serial": "disk1", "wwn": "wwn2"}]}, ("disk_wwn", "wwn1", "wwn2")),
        ({"disks": [{"serial": "disk1", "wwn": "wwn1"}, {"serial": "disk2"}]}, ("disk", "", "disk2")),
    ],
)
def test_each_difference_names_both_sides(facts, row):
    assert rows(declared(), told(**facts)) == ([row] if row else [])


def test_a_declared_mac_and_disk_that_are_gone_are_named_with_what_is_there():
    found = rows(declared(), told(macs=[OTHER], disks=[{"serial": "disk2", "wwn": ""}]))

    assert found == [
        ("interfaces.eth0.mac", MAC, ""),
        ("mac", "", OTHER),
        ("disk_serial", "disk1", ""),
        ("disk", "", "disk2"),
    ]


def test_what_netbox_does_not_declare_is_not_compared():
    bare = declared(device_serial="", disk=None, interfaces=(), firmware="")

    assert rows(bare, told(macs=[OTHER], dmi={"serial": "X", "firmware": "Y"})) == []


def test_a_placeholder_of_firmware_is_no_serial():
    assert rows(declared(), told(dmi={"serial": "To be filled by O.E.M.", "firmware": "2.1"})) == []


def test_the_bmcs_own_mac_is_not_missed():
    assert rows(declared(), told(macs=[MAC])) == []


def test_facts_of_no_shape_are_no_drift_of_what_was_not_told():
    assert rows(declared(firmware=""), {}) == []
