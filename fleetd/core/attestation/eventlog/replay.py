"""Replay of a log, and which of its PCRs and events a quote vouches for.

Sources: TCG PC Client Platform Firmware Profile 1.06, sections 3.3 and 10.4.5.3 (StartupLocality), 3.3.4.1 (PCR[0] after
an H-CRTM); TPM 2.0 Part 1, "Extend of a PCR".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from fleetd.core.attestation.banks import HASH, PCR_COUNT, SIZE, Bank, reset_value
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.eventlog.framing import Event, EventLog
from fleetd.core.attestation.eventlog.repeats import repeated_blocks

_STARTUP = b"StartupLocality\x00"
_STARTUP_LOCALITIES = (0, 3, 4)
SYSTEMD_PHASES = ("enter-initrd", "leave-initrd", "sysinit", "ready", "shutdown", "final")
"""The words that systemd-pcrphase extends PCR 11 with, in this order (systemd-pcrphase.service(8))."""


class Trust(StrEnum):
    """What a quote says about one PCR of a log."""

    EXPLAINED = "explained"
    """The log's events give exactly the quoted value."""
    UNTOUCHED = "untouched"
    """No event, and the quoted value is the reset value."""
    EXPLAINED_BEFORE_PHASES = "explained before systemd's phases"
    """The events and then the words that systemd extends during boot give the quoted value."""
    UNEXPLAINED = "unexplained"
    """The events do not give the quoted value: nothing that the log says about this PCR counts."""
    NOT_QUOTED = "not quoted"
    """The quote does not cover the PCR: nothing that the log says about it counts."""


@dataclass(frozen=True, slots=True)
class JudgedLog:
    """A log held against quoted values of one bank; `events` holds only those of trusted PCRs, in order.

    `indexes` gives each event's place in the log. `assumed` means that there was no quote: every PCR was taken as the
    log tells it, which is good for showing and for nothing else.
    """

    log: EventLog
    bank: Bank
    replayed: Mapping[int, bytes]
    trust: Mapping[int, Trust]
    events: tuple[Event, ...]
    indexes: tuple[int, ...]
    repeated: int = 0
    """Events left out because a kernel copied the final events table a second time."""
    assumed: bool = False

    def trusts(self, pcr: int) -> bool:
        """Tell whether what the log says about the PCR may be believed."""
        return self.trust.get(pcr, Trust.NOT_QUOTED) in TRUSTED

    def digest(self, event: Event) -> bytes | None:
        """Return the event's digest in the judged bank."""
        column = self.log.column(self.bank)
        return None if column is None else event.digests[column]


TRUSTED = frozenset({Trust.EXPLAINED, Trust.UNTOUCHED, Trust.EXPLAINED_BEFORE_PHASES})


def startup_value(log: EventLog, bank: Bank) -> bytes:
    """Return what PCR 0 held before the first event, as the log tells: zeros, or the locality of TPM2_Startup.

    An H-CRTM event means locality 4. A StartupLocality event counts only before anything is extended into PCR 0.
    """
    locality = 0
    for event in log.events:
        if event.pcr != 0:
            continue
        if event.kind != kinds.NO_ACTION:
            if event.kind == kinds.EFI_HCRTM_EVENT:
                locality = 4
            break
        if event.end - event.start == 17 and log.raw.startswith(_STARTUP, event.start):
            locality = log.raw[event.end - 1]
    return _started_at(locality, bank)


def _started_at(locality: int, bank: Bank) -> bytes:
    return bytes(SIZE[bank] - 1) + bytes((locality,))


def replay(log: EventLog, bank: Bank) -> dict[int, bytes]:
    """Return the value of every PCR that the log extends in this bank; EV_NO_ACTION extends nothing.

    An event without a digest of this bank was not extended into it. Raises KeyError when the log lacks the bank.
    """
    column = log.column(bank)
    if column is None:
        raise KeyError(bank)
    return _extended(log.events, column, bank, startup_value(log, bank))


def replay_all(log: EventLog) -> dict[Bank, dict[int, bytes]]:
    """Return the replay of every bank that the log has and that is known here."""
    return {bank: replay(log, bank) for bank in log.banks}


def _extended(events: Iterable[Event], column: int, bank: Bank, pcr0: bytes) -> dict[int, bytes]:
    hashed = HASH[bank]
    no_action = kinds.NO_ACTION
    values = {0: pcr0}
    touched: dict[int, bytes] = {}
    for event in events:
        pcr, kind, digests = event[0], event[1], event[2]
        if kind == no_action or pcr >= PCR_COUNT:
            continue
        digest = digests[column]
        if digest is None:
            continue
        before = touched.get(pcr)
        if before is None:
            before = values.get(pcr) or reset_value(bank, pcr)
        touched[pcr] = hashed(before + digest).digest()
    return touched


def judge_log(log: EventLog, bank: Bank, quoted: Mapping[int, bytes]) -> JudgedLog:
    """Hold the log against quoted values of a bank and keep what they vouch for.

    A PCR whose replay differs is untrusted with all its events. So is a PCR that the log does not mention, unless it
    still holds its reset value. Raises KeyError when the log lacks the bank.
    """
    replayed = replay(log, bank)
    trust = {pcr: _trust(log, bank, pcr, value, replayed) for pcr, value in quoted.items()}
    dropped: frozenset[int] = frozenset()
    unexplained = {pcr for pcr, verdict in trust.items() if verdict is Trust.UNEXPLAINED and pcr in replayed}
    if unexplained:
        dropped = _repeats_that_explain(log, bank, quoted, unexplained)
        if dropped:
            kept = _extended(_without(log, dropped), _column(log, bank), bank, startup_value(log, bank))
            replayed = {pcr: kept.get(pcr, value) if pcr in unexplained else value for pcr, value in replayed.items()}
            trust = {pcr: _trust(log, bank, pcr, value, replayed) for pcr, value in quoted.items()}
            dropped = frozenset(i for i in dropped if log.events[i].pcr in unexplained)
    for pcr in replayed.keys() - quoted.keys():
        trust[pcr] = Trust.NOT_QUOTED
    believed = [
        (index, event)
        for index, event in enumerate(log.events)
        if trust.get(event.pcr) in TRUSTED and index not in dropped
    ]
    return JudgedLog(
        log=log,
        bank=bank,
        replayed=replayed,
        trust=dict(sorted(trust.items())),
        events=tuple(event for _, event in believed),
        indexes=tuple(index for index, _ in believed),
        repeated=len(dropped),
    )


def assume_log(log: EventLog, bank: Bank) -> JudgedLog:
    """Take the log at its word, for showing it where no quote is at hand. Never a ground for a verdict."""
    replayed = replay(log, bank)
    trust = {event.pcr: Trust.EXPLAINED for event in log.events}
    indexes = tuple(range(len(log.events)))
    return JudgedLog(log, bank, replayed, dict(sorted(trust.items())), log.events, indexes, assumed=True)


def _column(log: EventLog, bank: Bank) -> int:
    column = log.column(bank)
    if column is None:
        raise KeyError(bank)
    return column


def _trust(log: EventLog, bank: Bank, pcr: int, quoted: bytes, replayed: Mapping[int, bytes]) -> Trust:
    value = replayed.get(pcr)
    if value is None:
        reset = startup_value(log, bank) if pcr == 0 else reset_value(bank, pcr)
        return Trust.UNTOUCHED if quoted == reset else Trust.UNEXPLAINED
    if quoted == value or (pcr == 0 and quoted in _other_startups(log, bank)):
        return Trust.EXPLAINED
    if pcr == 11 and quoted in _after_phases(value, bank):
        return Trust.EXPLAINED_BEFORE_PHASES
    return Trust.UNEXPLAINED


def _other_startups(log: EventLog, bank: Bank) -> set[bytes]:
    """PCR 0 for each locality a TPM can be started from: some firmware does not log which one it was.

    Only the quoted value decides; a log cannot gain anything by leaving the event out.
    """
    events = [event for event in log.events if event.pcr == 0]
    column = _column(log, bank)
    return {_extended(events, column, bank, _started_at(locality, bank))[0] for locality in _STARTUP_LOCALITIES}


def _after_phases(value: bytes, bank: Bank) -> set[bytes]:
    """Return what PCR 11 may hold while systemd walks through its phases, with an initrd or without."""
    hashed = HASH[bank]
    reachable: set[bytes] = set()
    for skipped in (0, 2):
        current = value
        for phase in SYSTEMD_PHASES[skipped:]:
            current = hashed(current + hashed(phase.encode()).digest()).digest()
            reachable.add(current)
    return reachable


def _without(log: EventLog, dropped: frozenset[int]) -> list[Event]:
    return [event for index, event in enumerate(log.events) if index not in dropped]


def _repeats_that_explain(
    log: EventLog, bank: Bank, quoted: Mapping[int, bytes], unexplained: set[int]
) -> frozenset[int]:
    """Return the repeated block whose absence explains the most PCRs, or nothing.

    Linux before 5.3 appended the whole final events table, including what GetEventLog had already returned. Dropping
    a copy is safe: the quoted value, not the log, says whether the TPM saw the events once or twice.
    """
    best: frozenset[int] = frozenset()
    explained = 0
    column, start = _column(log, bank), startup_value(log, bank)
    for block in repeated_blocks(log):
        values = _extended(_without(log, block), column, bank, start)
        matching = sum(values.get(pcr) == quoted[pcr] for pcr in unexplained)
        if matching > explained:
            best, explained = block, matching
    return best
