"""A baseline of a machine's boot: taken once, held against each later boot, and its differences told in words."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice, zip_longest
from typing import Any, NamedTuple

from fleetd.core.attestation.banks import Bank
from fleetd.core.attestation.eventlog import kinds
from fleetd.core.attestation.eventlog.replay import JudgedLog
from fleetd.core.attestation.eventlog.views import entries_told, view_event

MAX_REMEMBERED = 4096
"""Events that a baseline remembers at most; real boots have some hundred."""

MAX_TOLD = 200
"""Changes that the JSON form of a difference carries at most."""

_LIST_WORDS = {
    "variable PK": "Secure Boot platform key (PK)",
    "variable KEK": "Secure Boot key-exchange keys (KEK)",
    "variable db": "Secure Boot allowed-signatures list (db)",
    "variable dbx": "Secure Boot forbidden-signatures list (dbx)",
    "variable dbt": "Secure Boot timestamp list (dbt)",
    "variable MokList": "shim's machine-owner keys (MokList)",
    "variable MokListX": "shim's machine-owner forbidden list (MokListX)",
}


class BaselineEvent(NamedTuple):
    """One event as the baseline remembers it; `digest` in hexadecimal."""

    pcr: int
    label: str
    digest: str
    detail: str
    entries: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Baseline:
    """The values of a good boot, and the events behind them where a log explained them.

    `uki_sections` are the digests of the UKI part of PCR 11, which stays comparable while systemd extends the PCR.
    """

    bank: Bank
    pcrs: Mapping[int, bytes]
    events: tuple[BaselineEvent, ...] = ()
    uki_part: bytes | None = None
    secure_boot: bool | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form, which `baseline_from` reads back."""
        return {
            "bank": self.bank.value,
            "pcrs": {str(pcr): value.hex() for pcr, value in sorted(self.pcrs.items())},
            "events": [[*event[:4], list(event.entries)] for event in self.events],
            "uki_part": None if self.uki_part is None else self.uki_part.hex(),
            "secure_boot": self.secure_boot,
        }


@dataclass(frozen=True, slots=True)
class Change:
    """One event that differs from the baseline; `old` or `new` is empty where there was none."""

    pcr: int
    label: str
    old: str
    new: str
    sentence: str


@dataclass(frozen=True, slots=True)
class Difference:
    """How a boot differs from a baseline."""

    pcrs: tuple[int, ...] = ()
    """PCRs of the baseline that changed."""
    reported: tuple[int, ...] = ()
    """Changed PCRs that the class only reports."""
    changes: tuple[Change, ...] = ()

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the changed events: equal for machines that changed in the same way, so one consent can do."""
        told = sorted(f"{change.pcr}\n{change.label}\n{change.old}\n{change.new}" for change in self.changes)
        return hashlib.sha256("\n\n".join(told).encode()).hexdigest()

    def sentences(self, pcrs: Iterable[int]) -> tuple[str, ...]:
        """Return the changes of these PCRs in an owner's words."""
        wanted = frozenset(pcrs)
        return tuple(change.sentence for change in self.changes if change.pcr in wanted)

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form that NetBox shows."""
        return {
            "pcrs": list(self.pcrs),
            "reported": list(self.reported),
            "fingerprint": self.fingerprint,
            "changes": [
                {"pcr": each.pcr, "event": each.label, "old": each.old, "new": each.new, "sentence": each.sentence}
                for each in self.changes[:MAX_TOLD]
            ],
            "omitted": max(len(self.changes) - MAX_TOLD, 0),
        }


def baseline_from(data: Mapping[str, Any]) -> Baseline:
    """Read what `Baseline.as_dict` wrote. Raises ValueError, KeyError or TypeError when it is something else."""
    return Baseline(
        bank=Bank(data["bank"]),
        pcrs={int(pcr): bytes.fromhex(value) for pcr, value in data["pcrs"].items()},
        events=tuple(
            BaselineEvent(int(pcr), str(label), str(digest), str(detail), tuple(map(str, entries)))
            for pcr, label, digest, detail, entries in data["events"]
        ),
        uki_part=None if data["uki_part"] is None else bytes.fromhex(data["uki_part"]),
        secure_boot=data["secure_boot"],
    )


def take_baseline(
    bank: Bank,
    quoted: Mapping[int, bytes],
    remembered: Iterable[int],
    judged: JudgedLog | None,
    secure_boot: bool | None = None,
) -> Baseline:
    """Remember these PCRs of a verified quote, and the events of those that the log explains."""
    wanted = frozenset(remembered)
    return Baseline(
        bank=bank,
        pcrs={pcr: value for pcr, value in sorted(quoted.items()) if pcr in wanted},
        events=() if judged is None else tuple(islice(_events(judged, wanted), MAX_REMEMBERED)),
        uki_part=_uki_part(judged),
        secure_boot=secure_boot,
    )


def refreshed(baseline: Baseline, now: Baseline, held: Iterable[int]) -> Baseline:
    """Return the baseline with the PCRs that are not held against machines brought up to date."""
    kept = frozenset(held)
    return replace(
        now,
        uki_part=baseline.uki_part if 11 in kept else now.uki_part,
        pcrs={pcr: baseline.pcrs.get(pcr, value) if pcr in kept else value for pcr, value in now.pcrs.items()},
        events=(
            *(event for event in baseline.events if event.pcr in kept),
            *(event for event in now.events if event.pcr not in kept),
        ),
    )


def changed_pcrs(baseline: Baseline, quoted: Mapping[int, bytes], pcrs: Iterable[int]) -> tuple[int, ...]:
    """Return which of these PCRs no longer hold the remembered value; one that was not remembered does not count."""
    remembered = baseline.pcrs
    return tuple(pcr for pcr in pcrs if pcr in remembered and quoted.get(pcr) != remembered[pcr])


def compare(
    baseline: Baseline,
    quoted: Mapping[int, bytes],
    judged: JudgedLog | None,
    held: Iterable[int],
    reported: Iterable[int],
) -> Difference:
    """Compare a verified quote, and its log where there is one, with the baseline.

    PCR 11 counts as unchanged while the part that the UKI extended is the same: systemd goes on extending it.
    """
    same_uki = baseline.uki_part is not None and baseline.uki_part == _uki_part(judged)
    ignored = {11} if same_uki else set()
    changed = tuple(pcr for pcr in changed_pcrs(baseline, quoted, held) if pcr not in ignored)
    told = tuple(pcr for pcr in changed_pcrs(baseline, quoted, reported) if pcr not in ignored and pcr not in changed)
    changes: tuple[Change, ...] = ()
    if judged is not None:
        wanted = frozenset(changed) | frozenset(told)
        explained = {event.pcr for event in baseline.events}
        old = [event for event in baseline.events if event.pcr in wanted and judged.trusts(event.pcr)]
        new = list(islice(_events(judged, wanted & explained), MAX_REMEMBERED))
        changes = tuple(_changes(old, new))
    return Difference(changed, told, changes)


def _uki_part(judged: JudgedLog | None) -> bytes | None:
    """The replay of PCR 11 up to the end of the log: what the UKI extended, without what came after boot."""
    return judged.replayed.get(11) if judged is not None and judged.trusts(11) else None


def _events(judged: JudgedLog, pcrs: frozenset[int]) -> Iterator[BaselineEvent]:
    for event in judged.events:
        digest = judged.digest(event)
        if event.pcr not in pcrs or digest is None or event.kind == kinds.NO_ACTION:
            continue
        view = view_event(event, judged.log.data(event), digest, judged.bank)
        yield BaselineEvent(event.pcr, view.label, digest.hex(), view.detail, view.entries)


def _changes(old: list[BaselineEvent], new: list[BaselineEvent]) -> Iterator[Change]:
    """Pair events by PCR and label, in order; linear in the number of events."""
    before, after = _grouped(old), _grouped(new)
    for key in dict.fromkeys((*before, *after)):
        earlier, later = before.get(key, []), after.get(key, [])
        kept = {event.digest for event in earlier} & {event.digest for event in later}
        gone = [event for event in earlier if event.digest not in kept]
        come = [event for event in later if event.digest not in kept]
        for was, now in zip_longest(gone, come):
            if now is None:
                yield Change(was.pcr, was.label, was.digest, "", f"{_named(was)} is no longer measured.")
            elif was is None:
                yield Change(now.pcr, now.label, "", now.digest, f"{_named(now)} is new{_of(now.detail)}.")
            else:
                yield Change(was.pcr, was.label, was.digest, now.digest, _changed(was, now))
        if not gone and not come and len(earlier) != len(later):
            event = earlier[0]
            counts = f"{len(earlier)} times before, {len(later)} times now"
            yield Change(event.pcr, event.label, str(len(earlier)), str(len(later)), f"{_named(event)}: {counts}.")


def _grouped(events: list[BaselineEvent]) -> dict[tuple[int, str], list[BaselineEvent]]:
    groups: dict[tuple[int, str], list[BaselineEvent]] = {}
    for event in events:
        groups.setdefault((event.pcr, event.label), []).append(event)
    return groups


def _changed(was: BaselineEvent, now: BaselineEvent) -> str:
    words = _LIST_WORDS.get(was.label)
    if words is not None and (was.entries or now.entries):
        added = len(set(now.entries) - set(was.entries))
        removed = len(set(was.entries) - set(now.entries))
        told = [f"{entries_told(count)} {verb}" for count, verb in ((added, "added"), (removed, "removed")) if count]
        return f"{words} updated: {', '.join(told) or 'the same entries in another form'}."
    if was.label == "variable SecureBoot":
        return f"Secure Boot was switched {'on' if now.detail == '01' else 'off'}."
    if was.detail != now.detail and was.detail and now.detail:
        return f"{_named(was)} changed from {was.detail} to {now.detail}."
    return f"{_named(was)} changed: digest {was.digest[:16]}… is now {now.digest[:16]}…{_of(now.detail)}."


def _named(event: BaselineEvent) -> str:
    if event.label in _LIST_WORDS:
        return _LIST_WORDS[event.label]
    name = event.label.removeprefix("variable ")
    shown = f"firmware setting {name}" if event.label.startswith("variable ") else name
    return shown[:1].upper() + shown[1:]


def _of(detail: str) -> str:
    return f" ({detail})" if detail else ""
