"""Limits count who has an address, not the address: one host has 2^64 of them in IPv6."""

import pytest

from fleetd.core.sources import source_of
from fleetd.http.limits import Buckets


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:DB8:1:2::9", "2001:db8:1:2::/64"),
        ("unknown", "unknown"),
        ("", ""),
    ],
)
def test_the_source_of_an_address(address, source):
    assert source_of(address) == source


def test_one_host_with_many_addresses_has_one_bucket():
    buckets = Buckets(per_address=3, in_total=1000)

    waits = [buckets.take(f"2001:db8::{number:x}") for number in range(1, 6)]

    assert waits[:3] == [None] * 3
    assert all(waits[3:])
    assert buckets.take("2001:db8:0:1::1") is None
