"""Which bytes of an event its digest vouches for.

A digest does not cover the event's type, nor always its data. Only what this module returns may carry meaning.
Sources: TCG PC Client Platform Firmware Profile 1.06, table 27; GRUB `grub_tpm_measure`; shim `tpm_measure_variable`.
"""

from collections.abc import Iterator
from enum import StrEnum
from typing import NamedTuple

from fleetd.core.attestation.banks import HASH, Bank
from fleetd.core.attestation.eventlog import kinds

_GRUB_PREFIXES = (b"grub_cmd: ", b"kernel_cmdline: ", b"module_cmdline: ", b"grub_kernel_cmdline ", b"grub_cmd ")


class Extent(StrEnum):
    """How much of an event's data the digest covers."""

    WHOLE = "whole"
    WITHOUT_LAST_BYTE = "without its last byte"
    VALUE = "the variable's value only"
    AFTER_PREFIX = "the text after its prefix"


class Covered(NamedTuple):
    """The bytes that the digest vouches for."""

    extent: Extent
    payload: bytes


def covered(kind: int, data: bytes, digest: bytes, bank: Bank) -> Covered | None:
    """Return the part of the data whose hash is the digest; None when the digest is of something else (opaque)."""
    hashed = HASH[bank]
    for extent, payload in _candidates(kind, data):
        if hashed(payload).digest() == digest:
            return Covered(extent, payload)
    return None


def _candidates(kind: int, data: bytes) -> Iterator[tuple[Extent, bytes]]:
    yield Extent.WHOLE, data
    if kind == kinds.EFI_VARIABLE_AUTHORITY and data:
        # shim before 15.6 logs one byte more than it hashes.
        yield Extent.WITHOUT_LAST_BYTE, data[:-1]
    elif kind == kinds.EFI_VARIABLE_BOOT and len(data) >= 32:
        start = 32 + 2 * int.from_bytes(data[16:24], "little")
        if start <= len(data):
            yield Extent.VALUE, data[start:]
    elif kind == kinds.IPL:
        for prefix in _GRUB_PREFIXES:
            if data.startswith(prefix):
                text = data[len(prefix) :]
                yield Extent.AFTER_PREFIX, text.rstrip(b"\x00")
                yield Extent.AFTER_PREFIX, text
