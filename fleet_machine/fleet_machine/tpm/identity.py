"""Who made the TPM, and the certificates that the maker left in it."""

from dataclasses import dataclass

from tpm2_pytss import ESAPI

from fleet_machine.tpm.calls import nv_indexes, properties, read_nv
from fleet_machine.tpm.templates import CHAIN_INDEXES

CHAIN_LIMIT = 8
"""Certificates that fleetd takes with one EK."""

# Property tags, TPM_PT (part 2, section 6.13); tpm2-pytss names them differently from version to version.
MANUFACTURER, VENDOR_STRINGS, FIRMWARE_VERSION = 0x105, range(0x106, 0x10A), 0x10B


@dataclass(frozen=True, slots=True)
class TpmIdentity:
    """What the TPM says about itself; unproven."""

    manufacturer: str
    model: str
    version: str


def read_identity(esys: ESAPI) -> TpmIdentity:
    """Read manufacturer, model and firmware version from the TPM's fixed properties."""
    fixed = properties(esys, MANUFACTURER, 8)
    model = b"".join(fixed.get(tag, 0).to_bytes(4, "big") for tag in VENDOR_STRINGS)
    return TpmIdentity(
        _text(fixed.get(MANUFACTURER, 0).to_bytes(4, "big")),
        _text(model),
        f"{fixed.get(FIRMWARE_VERSION, 0):08x}",
    )


def read_chain(esys: ESAPI) -> tuple[bytes, ...]:
    """Return the CA certificates that the maker left in NV, DER each; one may span several indexes."""
    stored = b""
    for index in nv_indexes(esys, CHAIN_INDEXES.start, CHAIN_INDEXES.stop - 1):
        stored += read_nv(esys, index) or b""
    return split_der(stored)


def split_der(stored: bytes) -> tuple[bytes, ...]:
    """Cut concatenated DER SEQUENCEs apart; what does not parse ends the list (padding, at most 8 items)."""
    items: list[bytes] = []
    at = 0
    while at + 4 <= len(stored) and len(items) < CHAIN_LIMIT and stored[at] == 0x30:
        width = stored[at + 1] & 0x7F if stored[at + 1] & 0x80 else 0
        if width > 3:
            break
        head = 2 + width
        length = int.from_bytes(stored[at + 2 : at + head], "big") if width else stored[at + 1]
        if at + head + length > len(stored):
            break
        items.append(stored[at : at + head + length])
        at += head + length
    return tuple(items)


def _text(raw: bytes) -> str:
    return "".join(chr(byte) for byte in raw if 0x20 <= byte < 0x7F).strip()
