"""Blocks of events that stand twice in a log, one copy right behind the other."""

from collections.abc import Iterator

from fleetd.core.attestation.eventlog.framing import EventLog

MAX_CANDIDATES = 8
"""So many blocks are tried at most: the work stays linear in the size of the log."""


def repeated_blocks(log: EventLog) -> Iterator[frozenset[int]]:
    """Yield the indexes of each second copy: a run of events that equals, byte for byte, the run just before it."""
    identities = [(event.pcr, event.kind, event.digests, event.end - event.start) for event in log.events]
    last_seen: dict[tuple[object, ...], int] = {}
    tried = 0
    covered = 0
    for here, identity in enumerate(identities):
        before = last_seen.get(identity)
        last_seen[identity] = here
        if before is None or here < covered:
            continue
        length = here - before
        tried += 1
        if identities[here : here + length] == identities[before:here] and _same_bytes(log, before, here, length):
            covered = here + length
            yield frozenset(range(here, covered))
        if tried == MAX_CANDIDATES:
            return


def _same_bytes(log: EventLog, first: int, second: int, length: int) -> bool:
    return all(log.data(log.events[first + step]) == log.data(log.events[second + step]) for step in range(length))
