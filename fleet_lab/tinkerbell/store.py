"""Objects, resource versions and the history of changes, as an API server keeps them; one event loop, no locks."""

import asyncio
import copy
import datetime as dt
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fleet_lab.tinkerbell.kinds import KINDS, Kind

Json = dict[str, Any]
Key = tuple[str, str, str]
"""Plural with group, namespace, name."""

FIRST_VERSION = 100
HISTORY = 20_000
"""Changes kept for watches and consistent pages; older versions answer 410 Expired."""


class Change(StrEnum):
    """What happened to an object."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"


@dataclass(frozen=True, slots=True)
class Event:
    """One change; `before` is the object as it was, `item` as it is (or, when deleted, was last)."""

    version: int
    change: Change
    kind: Kind
    item: Json
    before: Json | None


def now_text() -> str:
    """Return the present second as Kubernetes writes times."""
    return dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Store:
    """All objects. Stored objects are never changed in place: readers may keep what they got."""

    def __init__(self) -> None:
        self.version = FIRST_VERSION
        self.items: dict[Key, Json] = {}
        self.history: deque[Event] = deque(maxlen=HISTORY)
        self._listeners: list[Callable[[Event], None]] = []

    @property
    def oldest(self) -> int:
        """The oldest version from which changes can still be told."""
        return self.history[0].version - 1 if self.history else self.version

    def get(self, kind: Kind, namespace: str, name: str) -> Json | None:
        """Return an object, or None."""
        return self.items.get(_key(kind, namespace, name))

    def of(self, kind: Kind, namespace: str | None = None) -> list[Json]:
        """Return the objects of a kind, ordered by namespace and name."""
        found = [
            item
            for (plural, space, _), item in self.items.items()
            if plural == _plural(kind) and namespace in {None, space}
        ]
        return sorted(found, key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"]))

    def at(self, kind: Kind, namespace: str | None, version: int) -> list[Json]:
        """Return the objects of a kind as they were at a version that is not older than `oldest`."""
        past = {_key_of(kind, item): item for item in self.of(kind, namespace)}
        for event in reversed(self.history):
            if event.version <= version:
                break
            if event.kind is not kind or namespace not in {None, event.item["metadata"]["namespace"]}:
                continue
            key = _key_of(kind, event.item)
            if event.before is None:
                past.pop(key, None)
            else:
                past[key] = event.before
        return sorted(past.values(), key=lambda item: (item["metadata"]["namespace"], item["metadata"]["name"]))

    def add(self, kind: Kind, item: Json) -> Json:
        """Store a new object with a uid, a creation time and a version; return what is stored."""
        stored = copy.deepcopy(item)
        stored["metadata"].update(creationTimestamp=now_text(), generation=1, uid=str(uuid.uuid4()))
        return self._write(Change.ADDED, kind, stored, None)

    def replace(self, kind: Kind, item: Json) -> Json:
        """Store a new state of an object; one that changes nothing keeps its version."""
        before = self.items[_key_of(kind, item)]
        stored = copy.deepcopy(item)
        stored["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
        if stored == before:
            return before
        if _content(stored) != _content(before):
            stored["metadata"]["generation"] = before["metadata"].get("generation", 1) + 1
        return self._write(Change.MODIFIED, kind, stored, before)

    def remove(self, kind: Kind, item: Json) -> Json:
        """Remove an object; what it owned is collected a moment later."""
        key = _key_of(kind, item)
        before = self.items.pop(key)
        self.version += 1
        last = copy.deepcopy(before)
        last["metadata"]["resourceVersion"] = str(self.version)
        self._tell(Event(self.version, Change.DELETED, kind, last, before))
        return last

    def listen(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Call the listener at each change; returns what ends it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def owned_by(self, uid: str) -> Iterator[tuple[Kind, Json]]:
        """Yield the objects that name this uid as their owner."""
        for kind in KINDS:
            for item in self.of(kind):
                if any(owner["uid"] == uid for owner in item["metadata"].get("ownerReferences", ())):
                    yield kind, item

    def _write(self, change: Change, kind: Kind, item: Json, before: Json | None) -> Json:
        self.version += 1
        item["metadata"]["resourceVersion"] = str(self.version)
        self.items[_key_of(kind, item)] = item
        self._tell(Event(self.version, change, kind, item, before))
        return item

    def _tell(self, event: Event) -> None:
        self.history.append(event)
        for listener in tuple(self._listeners):
            listener(event)


class Mailbox:
    """Changes of a store for one reader, in order."""

    def __init__(self, store: Store, wanted: Callable[[Event], bool]) -> None:
        self._queue: asyncio.Queue[Event] = asyncio.Queue()
        self.close = store.listen(lambda event: self._queue.put_nowait(event) if wanted(event) else None)

    async def next(self, seconds: float | None) -> Event | None:
        """Return the next change, or None when none comes in time."""
        try:
            return await asyncio.wait_for(self._queue.get(), seconds)
        except TimeoutError:
            return None


async def collect_garbage(store: Store, pause: float = 0.008) -> None:
    """Remove what deleted owners leave behind, a moment after they are gone, until cancelled."""
    mailbox = Mailbox(store, lambda event: event.change is Change.DELETED)
    while True:
        event = await mailbox.next(None)
        if event is None:
            continue
        await asyncio.sleep(pause)
        for kind, item in list(store.owned_by(event.item["metadata"]["uid"])):
            store.remove(kind, item)


def _plural(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}"


def _key(kind: Kind, namespace: str, name: str) -> Key:
    return (_plural(kind), namespace, name)


def _key_of(kind: Kind, item: Json) -> Key:
    return _key(kind, item["metadata"]["namespace"], item["metadata"]["name"])


def _content(item: Json) -> Json:
    return {key: value for key, value in item.items() if key not in {"metadata", "status"}}
