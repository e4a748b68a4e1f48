"""Comparing what firmware says of a machine: serial numbers and UUIDs, with the placeholders that mean nothing."""

import re
from uuid import UUID

_PLACEHOLDERS = frozenset(
    {
        "",
        "none",
        "n/a",
        "na",
        "unknown",
        "default string",
        "default",
        "not specified",
        "not available",
        "not applicable",
        "to be filled by o.e.m.",
        "to be filled by o.e.m",
        "system serial number",
        "system product name",
        "chassis serial number",
        "serial number",
        "oem",
        "o.e.m.",
        "invalid",
        "empty",
        "0123456789",
        "123456789",
        "1234567890",
    }
)
_PLACEHOLDER_UUIDS = frozenset(
    {
        UUID(int=0),
        UUID(int=(1 << 128) - 1),
        UUID("03000200-0400-0500-0006-000700080009"),
    }
)


def serial_number(text: str) -> str:
    """Return the serial as it is compared, or nothing where it is a placeholder."""
    folded = " ".join(text.split()).casefold()
    bare = re.sub(r"[\s.\-_:/*#?]", "", folded)
    if folded in _PLACEHOLDERS or not bare.strip("0x") or re.fullmatch(r"(.)\1{3,}", bare):
        return ""
    return folded


def system_uuid(text: str) -> UUID | None:
    """Return the UUID, or None where it is a placeholder or none at all."""
    try:
        found = UUID(text.strip())
    except ValueError:
        return None
    return None if found in _PLACEHOLDER_UUIDS or UUID(bytes_le=found.bytes) in _PLACEHOLDER_UUIDS else found


def same_uuid(one: UUID, other: UUID) -> bool:
    """Tell whether two UUIDs are one in either byte order: firmware before SMBIOS 2.6 swaps the first three fields."""
    return one == other or one.bytes_le == other.bytes


def contradicts_serial(expected: str, seen: str) -> bool:
    """Tell whether two serials are both known and differ."""
    one, other = serial_number(expected), serial_number(seen)
    return bool(one and other and one != other)


def contradicts_uuid(expected: str, seen: str) -> bool:
    """Tell whether two UUIDs are both known and differ in both byte orders."""
    one, other = system_uuid(expected), system_uuid(seen)
    return one is not None and other is not None and not same_uuid(one, other)
