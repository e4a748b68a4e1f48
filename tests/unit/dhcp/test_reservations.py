"""Leases and reservations: one source for Tinkerbell and Kea; one bad record never stops the others."""

import json
from dataclasses import replace
from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetd.core.declaration import Address, Interface
from fleetd.core.leases import leases
from fleetd.core.names import MachineId, mac_address
from fleetd.core.reservations import Reservation, reserve
from fleetd.kea import rendered
from tests.worlds import a_declaration

NET, OTHER = ip_network("192.0.2.0/24"), ip_network("198.51.100.0/24")


def mac(number):
    return mac_address(f"52:54:00:00:{number // 256:02x}:{number % 256:02x}")


def a_node(number=1, *, interfaces=None, addresses=None, primary=None, name=None):
    interfaces = interfaces or (Interface("eth0", (mac(number),)),)
    addresses = (Address(f"192.0.2.{number}/24", "eth0"),) if addresses is None else addresses
    return replace(
        a_declaration(),
        machine=MachineId(number),
        node_name=f"n{number}" if name is None else name,
        interfaces=tuple(interfaces),
        addresses=tuple(addresses),
        primary_ip4=(addresses[0].address if addresses else "") if primary is None else primary,
    )


def rows(*nodes, subnets=(NET,)):
    return {str(subnet): found for subnet, found in reserve(nodes, subnets).subnets.items() if found}


def test_a_node_has_its_mac_name_and_address():
    assert rows(a_node(7)) == {"192.0.2.0/24": [Reservation(mac(7), "n7", "192.0.2.7")]}


def test_the_interface_of_the_primary_address_netboots():
    node = a_node(
        interfaces=(Interface("eth0", (mac(1),)), Interface("eth1", (mac(2),))),
        addresses=(Address("192.0.2.9/24", "eth1"),),
    )

    assert [(one.mac, one.address) for one in leases(node)] == [(mac(2), "192.0.2.9/24")]


def test_a_further_mac_has_a_lease_only_with_an_address_of_its_own():
    node = a_node(
        interfaces=(Interface("eth0", (mac(1),)), Interface("eth1", (mac(2),)), Interface("eth2", (mac(3),))),
        addresses=(Address("192.0.2.1/24", "eth0"), Address("198.51.100.1/24", "eth2")),
    )

    assert rows(node, subnets=(NET, OTHER)) == {
        "192.0.2.0/24": [Reservation(mac(1), "n1", "192.0.2.1")],
        "198.51.100.0/24": [Reservation(mac(3), "n1", "198.51.100.1")],
    }


def test_the_address_of_a_bond_without_a_mac_goes_to_the_first_that_may_netboot():
    node = a_node(
        interfaces=(Interface("bond0", ()), Interface("eth0", (mac(1),)), Interface("eth1", (mac(2),))),
        addresses=(Address("192.0.2.1/24", "bond0"),),
    )

    assert [(one.mac, one.address) for one in leases(node)] == [(mac(1), "192.0.2.1/24")]


def test_interfaces_of_a_bond_with_one_mac_are_one_reservation():
    node = a_node(interfaces=(Interface("bond0", (mac(1),)), Interface("eth0", (mac(1),)), Interface("eth1", (mac(1),))),
                  addresses=(Address("192.0.2.1/24", "bond0"),))  # fmt: skip

    assert rows(node) == {"192.0.2.0/24": [Reservation(mac(1), "n1", "192.0.2.1")]}


def test_a_management_interface_has_none_and_gives_no_address_away():
    node = a_node(
        interfaces=(Interface("bmc", (mac(9),), mgmt_only=True), Interface("eth0", (mac(1),))),
        addresses=(Address("192.0.2.200/24", "bmc"),),
    )

    assert rows(node) == {"192.0.2.0/24": [Reservation(mac(1), "n1")]}


def test_a_node_without_an_address_has_its_name_in_every_subnet():
    assert rows(a_node(addresses=()), subnets=(NET, OTHER)) == {
        str(subnet): [Reservation(mac(1), "n1")] for subnet in (NET, OTHER)
    }


def test_a_node_without_a_mac_has_none_and_is_no_problem():
    found = reserve([a_node(interfaces=(Interface("eth0", ()),))], (NET,))

    assert (found.subnets, found.left_out) == ({NET: []}, {})


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        (a_node(2, addresses=(Address("203.0.113.1/24", "eth0"),)), "203.0.113.1 is in no subnet of Kea"),
        (a_node(2, addresses=(Address("192.0.2.1/24", "eth0"),)), "192.0.2.1 is reserved for n1 already"),
        (a_node(2, interfaces=(Interface("eth0", (mac(1),)),)), f"{mac(1)} is reserved for n1 already"),
        (a_node(2, addresses=(Address("192.0.2.255/24", "eth0"),)), "broadcast"),
        (a_node(2, name='evil"}, {"'), "no host name"),
        (a_node(2, name=""), "no host name"),
    ],
)
def test_one_bad_record_is_left_out_and_named_and_the_others_are_written(bad, why):
    found = reserve([bad, a_node(1), a_node(3)], (NET,))

    assert [one.hostname for one in found.subnets[NET]] == ["n1", "n3"]
    assert why in found.left_out[MachineId(2)]


def test_the_older_record_keeps_what_two_claim():
    found = reserve([a_node(5, addresses=(Address("192.0.2.1/24", "eth0"),)), a_node(1)], (NET,))

    assert [one.hostname for one in found.subnets[NET]] == ["n1"]
    assert list(found.left_out) == [5]


def test_the_narrowest_subnet_counts():
    inner = ip_network("192.0.2.0/28")

    assert list(rows(a_node(3), subnets=(NET, inner))) == ["192.0.2.0/28"]


WORDS = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["{{ x }}", '"', "\n", '<?include "/etc/passwd"?>', "!!python/object", "n" * 10240, "ñ", "192.0.2.3/24"]
    ),
)


@settings(deadline=None, max_examples=50)
@given(
    names=st.lists(WORDS, min_size=1, max_size=4),
    interfaces=st.lists(WORDS, min_size=1, max_size=3),
    addresses=st.lists(WORDS, max_size=3),
    device=WORDS,
)
def test_hostile_words_reach_no_kea_file(names, interfaces, addresses, device):
    nodes = [
        replace(
            a_node(
                number,
                name=name,
                interfaces=tuple(Interface(word, (mac(number),)) for word in interfaces),
                addresses=tuple(Address(word, interfaces[0], word, word) for word in addresses),
            ),
            device_name=device,
            site=device,
            role=device,
        )
        for number, name in enumerate(names, 1)
    ]

    found = reserve([*nodes, a_node(100)], (NET,))
    parsed = json.loads(rendered(found.subnets[NET]))

    assert "n100" in {row["hostname"] for row in parsed}
    for row in parsed:
        assert row.keys() <= {"hw-address", "hostname", "ip-address"}
        assert row["hostname"].encode("ascii").replace(b"-", b"").isalnum()
        assert ip_address(row.get("ip-address", "192.0.2.1")) in NET
