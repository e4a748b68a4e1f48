"""Kea's host reservations, made of what NetBox declares; what one bad record says never stops the others. Pure."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, ip_interface

from fleetd.core.declaration import Declaration
from fleetd.core.leases import Lease, leases
from fleetd.core.names import MachineId

_HOST = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_MAC = re.compile(r"([0-9a-f]{2}:){5}[0-9a-f]{2}")


@dataclass(frozen=True, slots=True, order=True)
class Reservation:
    """One host: its address is empty where it only gets a name."""

    mac: str
    hostname: str
    address: str = ""


@dataclass(slots=True)
class Reserved:
    """What Kea is given by subnet, and which machines are left out of it and why."""

    subnets: dict[IPv4Network, list[Reservation]]
    left_out: dict[MachineId, str] = field(default_factory=dict)


def reserve(declarations: Iterable[Declaration], subnets: Sequence[IPv4Network]) -> Reserved:
    """Return the reservations of the subnets, sorted.

    Where two machines claim one MAC or address, the older record keeps it: a new one must not take a running machine's
    address away. A machine without an address has its name in every subnet.
    """
    found = Reserved({subnet: [] for subnet in subnets})
    owners: dict[str, str] = {}
    for declaration in sorted(declarations, key=lambda one: one.machine):
        try:
            placed = _placed(declaration, subnets, owners)
        except _LeftOutError as problem:
            found.left_out[declaration.machine] = str(problem)
            continue
        for subnet, reservation in placed:
            found.subnets[subnet].append(reservation)
            owners[reservation.mac] = declaration.node_name
            if reservation.address:
                owners[reservation.address] = declaration.node_name
    for rows in found.subnets.values():
        rows.sort()
    return found


class _LeftOutError(Exception):
    """A machine gets no reservation; the message says why."""


def _placed(
    declaration: Declaration, subnets: Sequence[IPv4Network], owners: dict[str, str]
) -> list[tuple[IPv4Network, Reservation]]:
    if not _HOST.fullmatch(declaration.node_name):
        raise _LeftOutError("its node name is no host name")
    placed = []
    for lease in leases(declaration):
        reservation = _reservation(declaration, lease)
        for word in (reservation.mac, reservation.address):
            if word and word in owners:
                raise _LeftOutError(f"{word} is reserved for {owners[word]} already")
        around = _around(reservation.address, subnets)
        placed += [(subnet, reservation) for subnet in around]
    return placed


def _reservation(declaration: Declaration, lease: Lease) -> Reservation:
    if not _MAC.fullmatch(lease.mac):
        raise _LeftOutError("one of its MAC addresses cannot be read")
    if not lease.address:
        return Reservation(lease.mac, declaration.node_name)
    try:
        return Reservation(lease.mac, declaration.node_name, str(ip_interface(lease.address).ip))
    except ValueError:
        raise _LeftOutError("its address cannot be read") from None


def _around(address: str, subnets: Sequence[IPv4Network]) -> Sequence[IPv4Network]:
    if not address:
        return subnets
    host = ip_interface(address).ip
    found = [subnet for subnet in subnets if host in subnet]
    if not found:
        raise _LeftOutError(f"{address} is in no subnet of Kea")
    (narrowest, *_) = sorted(found, key=lambda subnet: subnet.prefixlen, reverse=True)
    if narrowest.prefixlen < 31 and host in {narrowest.network_address, narrowest.broadcast_address}:
        raise _LeftOutError(f"{address} is the network or broadcast address of {narrowest}")
    return [narrowest]
