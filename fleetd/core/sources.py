"""Whom a limit counts: an IPv4 address, or the /64 of an IPv6 address, all of which one host can use (RFC 4291, 2.5.4)."""

from ipaddress import IPv6Address, IPv6Network, ip_address

_OWN_PREFIX = 64


def source_of(address: str) -> str:
    """Return the source that an address belongs to: itself, or its /64 in CIDR form. What is no address is a source too."""
    try:
        found = ip_address(address)
    except ValueError:
        return address
    return str(IPv6Network((int(found), _OWN_PREFIX), strict=False)) if isinstance(found, IPv6Address) else str(found)
