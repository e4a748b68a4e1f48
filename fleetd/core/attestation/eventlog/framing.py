"""Framing of a TCG event log: from bytes to events, with no opinion on what they mean.

Sources: TCG PC Client Platform Firmware Profile 1.06, sections 10.2 (structures) and 10.4.5 (Spec ID event); UEFI 2.10,
38.4 (CC event log). Windows' WBCL is the same framing with events of its own.
"""

import struct
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from fleetd.core.attestation.banks import BANK_OF, SIZE, Bank
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.structures import MalformedStructure

MAX_LOG = 512 * 1024
"""The largest log that is looked at, in bytes."""

MAX_BANKS = 16

_LEGACY = struct.Struct("<II20sI")
_AGILE_HEAD = struct.Struct("<III")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_SPEC_ID = b"Spec ID Event03\x00"
_SPEC_FIELDS = struct.Struct("<16sIBBBBI")


class LogFormat(StrEnum):
    """How a log is framed."""

    CRYPTO_AGILE = "crypto-agile"
    SHA1_LEGACY = "sha1-legacy"
    CCEL = "ccel"


class LogTooLarge(MalformedStructure):
    """The log exceeds MAX_LOG and was not looked at."""


class Event(NamedTuple):
    """One event; `digests` stand in the order of the log's declared banks, None where the event lacks one.

    Its data is `log.raw[start:end]`: most events are only replayed, so nothing is copied here.
    """

    pcr: int
    kind: int
    digests: tuple[bytes | None, ...]
    start: int
    end: int


class DeclaredBank(NamedTuple):
    """A bank that the log's header declares; `bank` is None for an algorithm that is not known here."""

    algorithm: int
    size: int
    bank: Bank | None


@dataclass(frozen=True, slots=True)
class EventLog:
    """A parsed log. Nothing in it is verified."""

    raw: bytes
    format: LogFormat
    spec_version: str | None
    declared: tuple[DeclaredBank, ...]
    events: tuple[Event, ...]
    padding: int
    """Bytes of padding after the last event."""

    @property
    def banks(self) -> tuple[Bank, ...]:
        """The banks that the log has digests for and that are known here, in the log's order."""
        return tuple(declared.bank for declared in self.declared if declared.bank is not None)

    def column(self, bank: Bank) -> int | None:
        """Return where the bank's digest stands in each event's `digests`, or None when the log lacks the bank."""
        for position, declared in enumerate(self.declared):
            if declared.bank is bank:
                return position
        return None

    def data(self, event: Event) -> bytes:
        """Return the event's data."""
        return self.raw[event.start : event.end]


def parse_log(raw: bytes) -> EventLog:
    """Frame a log; whatever length fields claim is held against the bytes that are there.

    Raises LogTooLarge, and MalformedStructure for anything that is not one whole log: a truncated event, a header that
    contradicts itself, a digest of an undeclared algorithm, or a tail that is neither events nor padding.
    """
    if len(raw) > MAX_LOG:
        raise LogTooLarge(f"the log has {len(raw)} bytes, more than {MAX_LOG}")
    if len(raw) < _LEGACY.size:
        raise MalformedStructure(f"{len(raw)} bytes are too few for an event log")
    pcr, kind, _, size = _LEGACY.unpack_from(raw)
    end = _LEGACY.size + size
    if kind == kinds.NO_ACTION and raw.startswith(_SPEC_ID, _LEGACY.size):
        if end > len(raw):
            raise MalformedStructure("the Spec ID event runs past the end of the log")
        version, declared = _spec_id(raw[_LEGACY.size : end])
        events, stop = _agile_events(raw, end, declared)
        log_format = LogFormat.CCEL if pcr == 1 else LogFormat.CRYPTO_AGILE
        return EventLog(raw, log_format, version, declared, events, len(raw) - stop)
    declared = (DeclaredBank(0x0004, 20, Bank.SHA1),)
    events, stop = _legacy_events(raw)
    return EventLog(raw, LogFormat.SHA1_LEGACY, None, declared, events, len(raw) - stop)


def _spec_id(data: bytes) -> tuple[str, tuple[DeclaredBank, ...]]:
    if len(data) < _SPEC_FIELDS.size:
        raise MalformedStructure("the Spec ID event is truncated")
    _, _, minor, major, errata, _, count = _SPEC_FIELDS.unpack_from(data)
    if not 1 <= count <= MAX_BANKS:
        raise MalformedStructure(f"the Spec ID event declares {count} algorithms")
    offset = _SPEC_FIELDS.size + 4 * count
    if len(data) <= offset:
        raise MalformedStructure("the Spec ID event is shorter than the algorithms it declares")
    if len(data) != offset + 1 + data[offset]:
        raise MalformedStructure("the Spec ID event's vendor information does not end where the event ends")
    declared: list[DeclaredBank] = []
    for position in range(_SPEC_FIELDS.size, offset, 4):
        algorithm, size = struct.unpack_from("<HH", data, position)
        bank = BANK_OF.get(algorithm)
        if (SIZE[bank] != size) if bank else not 1 <= size <= 128:
            raise MalformedStructure(f"the Spec ID event gives algorithm 0x{algorithm:04x} a digest of {size} bytes")
        if any(earlier.algorithm == algorithm for earlier in declared):
            raise MalformedStructure(f"the Spec ID event declares algorithm 0x{algorithm:04x} twice")
        declared.append(DeclaredBank(algorithm, size, bank))
    return f"{major}.{minor}.{errata}", tuple(declared)


def _agile_events(raw: bytes, offset: int, declared: tuple[DeclaredBank, ...]) -> tuple[tuple[Event, ...], int]:
    """Read TCG_PCR_EVENT2 after TCG_PCR_EVENT2; return them and where the padding begins.

    Nearly every event carries one digest for each declared bank in the declared order: one unpack reads such an
    event, and `_odd_digests` the others.
    """
    count = len(declared)
    usual = struct.Struct("<III" + "".join(f"H{bank.size}s" for bank in declared) + "I")
    algorithms = tuple(bank.algorithm for bank in declared)
    unpack, usual_size, length = usual.unpack_from, usual.size, len(raw)
    events: list[Event] = []
    add, make = events.append, tuple.__new__
    while offset < length:
        if offset + usual_size <= length:
            fields = unpack(raw, offset)
            pcr, kind, found = fields[:3]
            if found == count and fields[3:-1:2] == algorithms:
                start = offset + usual_size
                end = start + fields[-1]
                if end > length:
                    raise MalformedStructure(f"the event at byte {offset} runs past the end of the log")
                add(make(Event, (pcr, kind, fields[4:-1:2], start, end)))
                offset = end
                continue
        if _is_padding(raw, offset):
            break
        event = _odd_event(raw, offset, declared)
        add(event)
        offset = event.end
    return tuple(events), offset


def _odd_event(raw: bytes, offset: int, declared: tuple[DeclaredBank, ...]) -> Event:
    begin, length = offset, len(raw)
    if offset + _AGILE_HEAD.size > length:
        raise MalformedStructure(f"{length - offset} bytes at the end of the log are neither an event nor padding")
    pcr, kind, count = _AGILE_HEAD.unpack_from(raw, offset)
    if count > len(declared):
        raise MalformedStructure(f"the event at byte {begin} has more digests than the log has banks")
    offset += _AGILE_HEAD.size
    digests: list[bytes | None] = [None] * len(declared)
    for _ in range(count):
        if offset + 2 > length:
            raise MalformedStructure(f"the event at byte {begin} runs past the end of the log")
        (algorithm,) = _U16.unpack_from(raw, offset)
        column = next((i for i, bank in enumerate(declared) if bank.algorithm == algorithm), None)
        if column is None or digests[column] is not None:
            raise MalformedStructure(f"the event at byte {begin} has a digest of an undeclared or repeated algorithm")
        offset += 2
        digest = raw[offset : offset + declared[column].size]
        digests[column] = digest
        offset += declared[column].size
    if offset + 4 > length:
        raise MalformedStructure(f"the event at byte {begin} runs past the end of the log")
    (size,) = _U32.unpack_from(raw, offset)
    start, end = offset + 4, offset + 4 + size
    if end > length:
        raise MalformedStructure(f"the event at byte {begin} runs past the end of the log")
    return Event(pcr, kind, tuple(digests), start, end)


def _legacy_events(raw: bytes) -> tuple[tuple[Event, ...], int]:
    unpack, head, length = _LEGACY.unpack_from, _LEGACY.size, len(raw)
    events: list[Event] = []
    offset = 0
    while offset < length:
        if _is_padding(raw, offset):
            break
        if offset + head > length:
            raise MalformedStructure(f"{length - offset} bytes at the end of the log are neither an event nor padding")
        pcr, kind, digest, size = unpack(raw, offset)
        start, end = offset + head, offset + head + size
        if end > length:
            raise MalformedStructure(f"the event at byte {offset} runs past the end of the log")
        events.append(Event(pcr, kind, (digest,), start, end))
        offset = end
    return tuple(events), offset


def _is_padding(raw: bytes, offset: int) -> bool:
    """Tell whether only 0x00 or only 0xff follow; looks at the whole rest once at most, as parsing ends there."""
    head = raw[offset : offset + 12]
    if head not in {b"\x00" * len(head), b"\xff" * len(head)}:
        return False
    if raw.count(head[:1], offset) != len(raw) - offset:
        raise MalformedStructure(f"the bytes at {offset} are neither an event nor padding")
    return True
