"""From vouched events to facts: Secure Boot, authorities, boot loaders, command lines, UKI sections, separators.

Meaning is taken from the bytes that digests cover, never from an event's type alone. Where a type is needed to read an
event, a wrong one can only make a fact disappear, and a missing fact is never in favour of a machine.
"""

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache

from fleetd.core.attestation.banks import HASH, Bank
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.eventlog.coverage import Covered, Extent, covered
from fleetd.core.attestation.eventlog.device_path import image_source
from fleetd.core.attestation.eventlog.facts import (
    Authority,
    CommandLine,
    ImageRole,
    LineSource,
    LogFacts,
    MeasuredImage,
    MeasuredVariable,
    SeparatorState,
    UkiSection,
)
from fleetd.core.attestation.eventlog.framing import Event, LogFormat
from fleetd.core.attestation.eventlog.replay import JudgedLog
from fleetd.core.attestation.eventlog.text import firmware_text, load_options, one_line
from fleetd.core.attestation.eventlog.variables import EFI_GLOBAL, UefiVariable, authority_of, parse_variable
from fleetd.core.attestation.structures import MalformedStructure

CALLING = b"Calling EFI Application from Boot Option"
_DMA_DISABLED = b"DMA Protection Disabled"
_DEBUGGER = b"UEFI Debug Mode"
_DOWNGRADED = b"Security Level is Downgraded"
_LINUX_STUB_OPTIONS = b"\xed\x22\x3b\x8f"
LONGEST_ACTION = 64
"""Firmware's strings are shorter than this, in bytes, and no image is."""
_NORMAL_SEPARATORS = frozenset({b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"WBCL"})
_ERROR_SEPARATOR = b"\x01\x00\x00\x00"
UKI_SECTIONS = (
    ".linux",
    ".osrel",
    ".cmdline",
    ".initrd",
    ".ucode",
    ".splash",
    ".dtb",
    ".dtbauto",
    ".hwids",
    ".efifw",
    ".uname",
    ".sbat",
    ".pcrsig",
    ".pcrpkey",
    ".profile",
)


@dataclass(slots=True)
class _Reading:
    """The facts as they build up while events are read in order."""

    judged: JudgedLog
    secure_boot_pcr: int
    secure_boot: set[bool] = field(default_factory=set)
    variables: list[MeasuredVariable] = field(default_factory=list)
    authorities: list[Authority] = field(default_factory=list)
    images: list[MeasuredImage] = field(default_factory=list)
    command_lines: list[CommandLine] = field(default_factory=list)
    uki_sections: list[UkiSection] = field(default_factory=list)
    separators: dict[int, SeparatorState] = field(default_factory=dict)
    opaque: list[int] = field(default_factory=list)
    actions: list[bytes] = field(default_factory=list)
    firmware_version: str | None = None
    sbat_level: str | None = None
    attempts: int = 0
    pending_section: str | None = None


def read_facts(judged: JudgedLog) -> LogFacts:
    """Read what the vouched events say; steps and memory grow linearly with the log."""
    reading = _Reading(judged, secure_boot_pcr=1 if judged.log.format is LogFormat.CCEL else 7)
    column = judged.log.column(judged.bank)
    for index, event in zip(judged.indexes, judged.events, strict=True):
        digest = None if column is None else event.digests[column]
        if digest is None or event.kind == kinds.NO_ACTION:
            continue
        data = judged.log.data(event)
        cover = covered(event.kind, data, digest, judged.bank)
        if cover is None:
            reading.opaque.append(index)
        _read_event(reading, index, event, digest, data, cover)
    return LogFacts(
        secure_boot=next(iter(reading.secure_boot)) if len(reading.secure_boot) == 1 else None,
        variables=tuple(reading.variables),
        authorities=tuple(reading.authorities),
        images=tuple(reading.images),
        command_lines=tuple(reading.command_lines),
        uki_sections=tuple(reading.uki_sections),
        separators=dict(sorted(reading.separators.items())),
        firmware_version=reading.firmware_version,
        sbat_level=reading.sbat_level,
        boot_attempts=reading.attempts,
        dma_protection_disabled=any(action.startswith(_DMA_DISABLED) for action in reading.actions),
        security_downgraded=any(action.startswith(_DOWNGRADED) for action in reading.actions),
        debugger_used=any(action.startswith(_DEBUGGER) for action in reading.actions),
        opaque=tuple(reading.opaque),
    )


def _read_event(reading: _Reading, index: int, event: Event, digest: bytes, data: bytes, cover: Covered | None) -> None:
    """Take an event for what it is. What a rewritten type could hide is told apart first, and by other means."""
    kind, pcr = event.kind, event.pcr
    if kind == kinds.SEPARATOR and digest == _error_digest(reading.judged.bank):
        reading.separators[pcr] = SeparatorState.ERROR
    elif cover is not None and cover.extent is Extent.WHOLE and cover.payload in _NORMAL_SEPARATORS:
        reading.separators.setdefault(pcr, SeparatorState.NORMAL)
    elif _is_boot_image(reading, event, cover):
        source = image_source(data) if kind == kinds.EFI_BOOT_SERVICES_APPLICATION else None
        reading.images.append(MeasuredImage(index, pcr, ImageRole.BOOT_LOADER, digest, source))
    elif _is_authority(reading, event):
        _read_authority(reading, index, event, digest, cover, data)
    elif kind == kinds.SEPARATOR:
        state = SeparatorState.ERROR if cover is None else SeparatorState.ODD
        reading.separators.setdefault(pcr, state)
    elif kind in kinds.VARIABLES:
        _read_variable(reading, index, event, cover, data)
    elif kind in {kinds.EFI_ACTION, kinds.ACTION}:
        if cover is not None:
            reading.actions.append(cover.payload)
            reading.attempts += pcr == 4 and cover.payload == CALLING
    elif kind == kinds.S_CRTM_VERSION and pcr == 0 and cover is not None:
        reading.firmware_version = firmware_text(cover.payload) or None
    else:
        _read_os_event(reading, index, event, digest, data, cover)


@lru_cache(maxsize=len(Bank))
def _error_digest(bank: Bank) -> bytes:
    """An error separator's digest is of the error value, while its data may explain the error.

    Other events may have this digest too, such as a BootOrder of one entry that is measured by its value.
    """
    return bytes(HASH[bank](_ERROR_SEPARATOR).digest())


def _is_boot_image(reading: _Reading, event: Event, cover: Covered | None) -> bool:
    """Tell whether the event stands for software that ran from PCR 4 (in a CC log, from register 2).

    In PCR 4 every event but a short string is taken for an image, so that no rewritten type hides a boot loader: not
    even with the hashed bytes of the image itself as the event's data.
    """
    if reading.judged.log.format is LogFormat.CCEL:
        return event.kind == kinds.EFI_BOOT_SERVICES_APPLICATION
    return event.pcr == 4 and (not _is_short(cover) or event.kind == kinds.EFI_BOOT_SERVICES_APPLICATION)


def _is_short(cover: Covered | None) -> bool:
    return cover is not None and cover.extent is Extent.WHOLE and len(cover.payload) <= LONGEST_ACTION


def _is_authority(reading: _Reading, event: Event) -> bool:
    """Tell whether the event stands for what allowed an image to run: all that follows PCR 7's separator.

    As with images, the type does not decide: a rewritten one must not hide an authority.
    """
    if event.kind == kinds.EFI_VARIABLE_AUTHORITY:
        return True
    return event.pcr == 7 and event.pcr in reading.separators and reading.judged.log.format is not LogFormat.CCEL


def _read_authority(
    reading: _Reading, index: int, event: Event, digest: bytes, cover: Covered | None, data: bytes
) -> None:
    before = event.pcr not in reading.separators
    try:
        variable = parse_variable(data) if cover is not None and cover.extent is not Extent.VALUE else None
    except MalformedStructure:
        variable = None
    if variable is None:
        if _is_short(cover) and cover is not None:
            reading.actions.append(cover.payload)
        elif event.pcr == reading.secure_boot_pcr:
            reading.authorities.append(Authority(index, "unknown", None, digest.hex(), before))
        return
    reading.variables.append(MeasuredVariable(index, event.pcr, variable))
    if variable.name == "SbatLevel":
        reading.sbat_level = firmware_text(variable.value)
    elif event.pcr == reading.secure_boot_pcr and variable.name != "MokListTrusted":
        reading.authorities.append(_authority(index, variable, before_separator=before))


def _read_variable(reading: _Reading, index: int, event: Event, cover: Covered | None, data: bytes) -> None:
    if cover is None or cover.extent is Extent.VALUE:
        return
    try:
        variable = parse_variable(data)
    except MalformedStructure:
        reading.opaque.append(index)
        return
    reading.variables.append(MeasuredVariable(index, event.pcr, variable))
    after_separator = event.pcr in reading.separators
    wanted = (variable.vendor, variable.name) == (EFI_GLOBAL, "SecureBoot")
    if wanted and event.pcr == reading.secure_boot_pcr and not after_separator:
        # No value means that the variable does not exist: Secure Boot is off.
        reading.secure_boot.add(variable.value == b"\x01")


def _authority(index: int, variable: UefiVariable, *, before_separator: bool) -> Authority:
    certificate = authority_of(variable)
    hashed = hashlib.sha256(certificate if certificate is not None else variable.value).hexdigest()
    return Authority(index, one_line(variable.name), certificate, hashed, before_separator)


def _read_os_event(
    reading: _Reading, index: int, event: Event, digest: bytes, data: bytes, cover: Covered | None
) -> None:
    """Events of boot loaders and stubs, beyond what firmware measures."""
    pcr = event.pcr
    if pcr == 11:
        _read_uki_section(reading, index, digest)
    elif pcr == 12 and event.kind == kinds.IPL:
        text = load_options(data) if cover is not None else None
        reading.command_lines.append(CommandLine(index, pcr, LineSource.SYSTEMD_STUB, digest, text))
    elif pcr == 9 and event.kind == kinds.EVENT_TAG and data.startswith(_LINUX_STUB_OPTIONS):
        reading.command_lines.append(CommandLine(index, pcr, LineSource.LINUX_STUB, digest, None))
    elif pcr == 9 and event.kind == kinds.IPL and cover is None:
        reading.images.append(MeasuredImage(index, pcr, ImageRole.FILE, digest, firmware_text(data)))
    elif pcr == 8 and event.kind == kinds.IPL:
        if data.startswith((b"kernel_cmdline: ", b"grub_kernel_cmdline ")):
            text = firmware_text(cover.payload) if cover is not None else None
            reading.command_lines.append(CommandLine(index, pcr, LineSource.GRUB, digest, text))
        elif data[1:2] == b"\x00":
            # systemd-stub before version 251 measured the command line here.
            text = load_options(data) if cover is not None else None
            reading.command_lines.append(CommandLine(index, pcr, LineSource.SYSTEMD_STUB, digest, text))


def _read_uki_section(reading: _Reading, index: int, digest: bytes) -> None:
    """systemd-stub extends a section's name, then its content; the name is told by its digest alone."""
    if reading.pending_section is not None:
        reading.uki_sections.append(UkiSection(index, reading.pending_section, digest))
        reading.pending_section = None
        return
    hashed = HASH[reading.judged.bank]
    reading.pending_section = next(
        (name for name in UKI_SECTIONS if hashed(name.encode() + b"\x00").digest() == digest), None
    )
