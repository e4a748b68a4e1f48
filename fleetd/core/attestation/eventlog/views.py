"""One event in words: what it is, what it says, and whether its digest vouches for that."""

import hashlib
from dataclasses import dataclass

from fleetd.core.attestation.banks import Bank
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.eventlog.coverage import Covered, Extent, covered
from fleetd.core.attestation.eventlog.device_path import image_source
from fleetd.core.attestation.eventlog.framing import Event
from fleetd.core.attestation.eventlog.text import firmware_text, one_line
from fleetd.core.attestation.eventlog.variables import authority_of, parse_signatures, parse_variable
from fleetd.core.attestation.structures import MalformedStructure

SIGNATURE_LISTS = frozenset({"PK", "KEK", "db", "dbx", "dbt", "dbr", "MokList", "MokListX"})


@dataclass(frozen=True, slots=True)
class EventView:
    """An event for people and for comparison.

    `label` names what is measured and stays the same across boots; `detail` is what was measured, in short; `entries` are
    the fingerprints (first 16 hexadecimal digits) of a signature list.
    """

    pcr: int
    kind: str
    digest: bytes
    vouched: bool
    label: str
    detail: str
    entries: tuple[str, ...] = ()


def view_event(event: Event, data: bytes, digest: bytes | None, bank: Bank) -> EventView:
    """Describe an event; without a digest of the bank nothing vouches for it."""
    cover = covered(event.kind, data, digest, bank) if digest else None
    label, detail, entries = _described(event, data, cover)
    return EventView(
        event.pcr,
        kinds.name_of(event.kind),
        digest or b"",
        cover is not None,
        one_line(label),
        one_line(detail),
        entries,
    )


def _described(event: Event, data: bytes, cover: Covered | None) -> tuple[str, str, tuple[str, ...]]:
    kind = event.kind
    if kind in kinds.VARIABLES:
        return _variable(kind, data, cover)
    if kind in kinds.IMAGES:
        names = {kinds.EFI_BOOT_SERVICES_APPLICATION: "boot loader"}
        return names.get(kind, "driver"), image_source(data) or "", ()
    if kind == kinds.SEPARATOR:
        return "separator", firmware_text(data) if data == b"WBCL" else data[:8].hex(), ()
    if kind in {kinds.EFI_ACTION, kinds.ACTION}:
        return f"action {firmware_text(data)[:80]}", "", ()
    if kind == kinds.S_CRTM_VERSION:
        return "firmware version", firmware_text(data), ()
    if kind == kinds.IPL:
        return _ipl(event.pcr, data, cover)
    if kind in {kinds.EFI_PLATFORM_FIRMWARE_BLOB, kinds.EFI_PLATFORM_FIRMWARE_BLOB2, kinds.POST_CODE, kinds.POST_CODE2}:
        return "firmware code", _blob(data), ()
    if kind == kinds.EFI_GPT_EVENT:
        return "partition table", "", ()
    if kind == kinds.NO_ACTION:
        return "information", firmware_text(data[:16]), ()
    return kinds.name_of(kind).removeprefix("EV_").lower().replace("_", " "), _short(data), ()


def _variable(kind: int, data: bytes, cover: Covered | None) -> tuple[str, str, tuple[str, ...]]:
    try:
        variable = parse_variable(data)
    except MalformedStructure:
        return "variable", "unreadable", ()
    if kind == kinds.EFI_VARIABLE_AUTHORITY and variable.name not in {"SbatLevel", "MokListTrusted"}:
        certificate = authority_of(variable)
        digest = hashlib.sha256(certificate if certificate is not None else variable.value).hexdigest()
        return f"authority {variable.name}", f"{'certificate' if certificate else 'entry'} {digest}", ()
    label = f"variable {variable.name}"
    if cover is not None and cover.extent is Extent.VALUE:
        return label, _short(variable.value), ()
    if variable.name in SIGNATURE_LISTS:
        try:
            entries = tuple(entry.fingerprint[:16] for entry in parse_signatures(variable.value))
        except MalformedStructure:
            return label, _short(variable.value), ()
        return label, entries_told(len(entries)), entries
    if variable.name == "SbatLevel":
        return label, firmware_text(variable.value), ()
    return label, _short(variable.value), ()


def _ipl(pcr: int, data: bytes, cover: Covered | None) -> tuple[str, str, tuple[str, ...]]:
    text = firmware_text(data)
    if pcr == 8:
        if text.startswith(("kernel_cmdline", "grub_kernel_cmdline")):
            return "kernel command line", text.partition(" ")[2], ()
        return "GRUB command", text.partition(" ")[2] if cover and cover.extent is Extent.AFTER_PREFIX else text, ()
    if pcr == 12:
        return "kernel command line", text, ()
    if pcr == 9:
        return f"file {text[:120]}", "", ()
    if pcr == 14:
        return f"shim {text[:40]}", "", ()
    return f"{'UKI section' if pcr == 11 else 'boot loader event'} {text[:80]}", "", ()


def entries_told(count: int) -> str:
    """Return `1 entry` or `2 entries`."""
    return f"{count} {'entry' if count == 1 else 'entries'}"


def _blob(data: bytes) -> str:
    if len(data) == 16:
        return f"at 0x{int.from_bytes(data[:8], 'little'):x}, {int.from_bytes(data[8:], 'little')} bytes"
    return firmware_text(data[1 : 1 + data[0]]) if data and len(data) > data[0] else ""


def _short(data: bytes) -> str:
    return data.hex() if len(data) <= 32 else f"{len(data)} bytes, SHA-256 {hashlib.sha256(data).hexdigest()}"
