"""Which address each MAC of a machine gets: one answer for Tinkerbell's Hardware and for Kea's reservations. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Interface, ip_interface

from fleetd.core.declaration import Address, Declaration
from fleetd.core.names import MacAddress


@dataclass(frozen=True, slots=True)
class Lease:
    """What DHCP gives to one MAC; `address` in CIDR form, empty where it only gets a name."""

    mac: MacAddress
    address: str
    gateway: str = ""


def leases(declaration: Declaration) -> tuple[Lease, ...]:
    """Return the leases of a machine, the one it netboots with first.

    The first MAC is that of the interface that holds the primary IPv4, or the first that may netboot; further MACs
    have a lease only with an address of their own, since an address stands once. Interfaces with one MAC (a bond and
    its members) count as one.
    """
    return tuple(_leases(declaration))


def _leases(declaration: Declaration) -> Iterator[Lease]:
    own = {mac: _addresses_of(declaration, mac) for mac in declaration.macs}
    if not own:
        return
    primary = next((one for one in declaration.addresses if one.address == declaration.primary_ip4), None)
    holder = next((mac for mac, held in own.items() if primary in held), None)
    first = holder or next(iter(own))
    if holder is None and primary is not None and _managed(declaration, primary):
        primary = None
    chosen = primary or next(iter(own[first]), None)
    yield Lease(first, chosen.address, chosen.gateway) if chosen else Lease(first, "")
    given = {chosen.address} if chosen else set()
    for mac, held in own.items():
        further = next((one for one in held if one.address not in given), None)
        if mac != first and further is not None:
            given.add(further.address)
            yield Lease(mac, further.address, further.gateway)


def _addresses_of(declaration: Declaration, mac: MacAddress) -> list[Address]:
    names = {one.name for one in declaration.interfaces if mac in one.macs and not one.mgmt_only}
    return [one for one in declaration.addresses if one.interface in names and _is_ipv4(one.address)]


def _managed(declaration: Declaration, address: Address) -> bool:
    return any(one.mgmt_only and one.name == address.interface for one in declaration.interfaces)


def _is_ipv4(text: str) -> bool:
    try:
        return isinstance(ip_interface(text), IPv4Interface)
    except ValueError:
        return False
