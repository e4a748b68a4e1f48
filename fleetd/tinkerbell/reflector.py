"""Wakes fleetd when its objects change: LIST and WATCH of one kind. Only a hint; the sweep finds what it misses."""

import json
import random
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fleetd.core.names import MachineId
from fleetd.ports import OutsideError
from fleetd.tinkerbell.api import JOBS, MACHINES, TROUBLE, WORKFLOWS, Api, Json, Resource
from fleetd.tinkerbell.names import MACHINE_LABEL

Wake = Callable[[MachineId], None]

RELIST_EVERY = 60.0
"""Seconds. A watch from a version of the future (a restored etcd) is silent for ever: only the list finds out."""
READ_TIMEOUT = 75.0
"""Seconds without a byte: bookmarks come once a minute."""
LONGEST_PAUSE = 10.0


class _EndedError(Exception):
    """The watch cannot go on from its version."""


@dataclass
class Reflector:
    """Follows one kind. Use `run` in a thread of its own; `close` ends it from another."""

    api: Api
    resource: Resource
    wake: Wake
    relist_every: float = RELIST_EVERY
    stop: threading.Event = field(default_factory=threading.Event)
    _known: dict[str, tuple[str, MachineId | None]] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _listed: threading.Event = field(default_factory=threading.Event, init=False)
    _version: str = field(default="", init=False)
    _response: Any = field(default=None, init=False)

    def run(self) -> None:
        """List again and again, and watch in between, until closed."""
        watcher = threading.Thread(target=self._watch_for_ever, name=f"watch-{self.resource.plural}", daemon=True)
        watcher.start()
        pause = 0.5
        while not self.stop.is_set():
            try:
                self.relist()
                pause = 0.5
                self.stop.wait(self.relist_every)
            except OutsideError:
                self.stop.wait(pause * random.uniform(0.75, 1.25))  # noqa: S311 - jitter
                pause = min(LONGEST_PAUSE, pause * 2)
        watcher.join(5)

    def close(self) -> None:
        """End `run` and the watch; closing alone would leave a blocked read waiting."""
        self.stop.set()
        self._listed.set()
        response = self._response
        if response is not None:
            try:
                response.shutdown()
            except (OSError, ValueError, RuntimeError):
                return

    def relist(self) -> None:
        """Read everything, wake what changed, appeared or vanished since the last look."""
        version, items = self.api.snapshot(self.resource)
        present = {_name(item): (item["metadata"]["resourceVersion"], _machine(item)) for item in items}
        with self._lock:
            before, self._known, self._version = self._known, present, version
        for name, (seen, machine) in present.items():
            if before.get(name, ("", None))[0] != seen:
                self._wake(machine)
        for name in before.keys() - present.keys():
            self._wake(before[name][1])
        self._listed.set()

    def _watch_for_ever(self) -> None:
        while not self.stop.is_set():
            self._listed.wait()
            try:
                self._watch()
            except _EndedError:
                self._listed.clear()
                self._again()
            except (*TROUBLE, AttributeError, LookupError, TypeError):
                self.stop.wait(random.uniform(0.5, 1.5))  # noqa: S311 - jitter
                self._again()

    def _again(self) -> None:
        """List at once, since the watch lost its place."""
        if self.stop.is_set():
            return
        try:
            self.relist()
        except OutsideError:
            self.stop.wait(1)

    def _watch(self) -> None:
        seconds = random.randint(240, 300)  # noqa: S311 - spreads the load
        self._response = self.api.stream(self.resource, self._version, seconds, READ_TIMEOUT)
        response = self._response
        try:
            if self.stop.is_set():  # closed while the stream was being opened
                return
            for line in _lines(response):
                self._take(line)
                if self.stop.is_set():
                    return
        finally:
            self._response = None
            response.close()

    def _take(self, line: Json) -> None:
        item = line.get("object", {})
        if line.get("type") == "ERROR":
            raise _EndedError(item.get("message", ""))
        version = item["metadata"]["resourceVersion"]
        if line["type"] == "BOOKMARK":
            self._version = version
            return
        name, machine = _name(item), _machine(item)
        with self._lock:
            self._version = version
            if line["type"] == "DELETED":
                self._known.pop(name, None)
            else:
                self._known[name] = (version, machine)
        self._wake(machine)

    def _wake(self, machine: MachineId | None) -> None:
        if machine is not None:
            self.wake(machine)


def watch(api: Api, wake: Wake, stop: threading.Event) -> None:
    """Follow Workflows, Jobs and BMC Machines until `stop`; returns when all have ended."""
    reflectors = [Reflector(api, resource, wake) for resource in (WORKFLOWS, JOBS, MACHINES)]
    threads = [
        threading.Thread(target=reflector.run, name=f"reflect-{reflector.resource.plural}", daemon=True)
        for reflector in reflectors
    ]
    for thread in threads:
        thread.start()
    stop.wait()
    for reflector in reflectors:
        reflector.close()
    for thread in threads:
        thread.join(10)


def _lines(response: Any) -> Iterator[Json]:
    """Yield the JSON lines of a stream as they come."""
    rest = b""
    for chunk in response.stream(amt=None, decode_content=False):
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            if line.strip():
                yield json.loads(line)


def _name(item: Json) -> str:
    name: str = item["metadata"]["name"]
    return name


def _machine(item: Json) -> MachineId | None:
    text = item["metadata"].get("labels", {}).get(MACHINE_LABEL, "")
    return MachineId(int(text)) if text.isdecimal() else None
