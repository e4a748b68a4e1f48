"""Erasing the declared disk: choosing the method, doing it, and proving it by reading back."""

import os
import random
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from fleet_machine.clock import Clock, format_time
from fleet_machine.disk import ata, nvme
from fleet_machine.disk.commands import DiskCommands
from fleet_machine.disk.gpt import write_all
from fleet_machine.disk.methods import Depth, EraseFailedError, Method, NotSupportedError
from fleet_machine.disk.pace import Pace
from fleet_machine.disk.partitions import read_partitions
from fleet_machine.disk.samples import Place, digests, is_blank, is_zero, places_of, read_places
from fleet_machine.disk.source import DiskSource, OpenedDisk, folded
from fleet_machine.failure import FleetError

CHUNK = 4 << 20
DISCARD_CHUNK = 1 << 30
SYNC_EVERY = 64
SIGNATURES = 16 << 20
"""Bytes cleared at both ends of the disk by a quick erase: RAID and LVM metadata lie within."""
PARTITION_SIGNATURES = 1 << 20


@dataclass(frozen=True, slots=True)
class ErasePlan:
    """What the class wants: how deep, and which methods may follow when the first does not work."""

    depth: Depth
    fallback: tuple[Method, ...] = ()

    @classmethod
    def named(cls, text: str) -> "ErasePlan":
        """Read `FLEET_ERASE`: `quick`, `deep`, or with fallback methods `deep:format,overwrite`. Raises FleetError."""
        depth, _, methods = text.strip().partition(":")
        try:
            return cls(Depth(depth), tuple(Method(name.strip()) for name in methods.split(",") if name.strip()))
        except ValueError as error:
            raise FleetError(f"FLEET_ERASE is not understood: {text[:100]!r}.") from error


@dataclass(slots=True)
class Erasure:
    """Erases one open disk."""

    opened: OpenedDisk
    plan: ErasePlan
    commands: DiskCommands
    source: DiskSource
    declared: frozenset[str]
    """Folded serials of every disk that may be erased in this run."""
    clock: Clock
    now: Callable[[], str]
    """The time for the record, RFC 3339."""
    pace: Pace
    rng: random.Random
    _note: str = field(default="", init=False)
    """What the record must say of how the last method was done."""

    def run(self) -> dict[str, Any]:
        """Erase and return the evidence. Raises EraseFailedError with all that was tried."""
        tried: list[str] = []
        places = places_of(self.opened.disk.size, self.rng)
        for method in self._methods():
            start = self.now()
            try:
                random_looking = self._apply(method, places)
            except (EraseFailedError, OSError) as error:
                tried.append(f"{method.value if method else 'quick'}: {error}")
                continue
            return {
                **self._evidence(method, start),
                "samples": len(places),
                "random_looking": random_looking,
                "tried": tried,
            }
        raise EraseFailedError(f"The disk {self.opened.disk.serial} was not erased. Tried: {'; '.join(tried)}.")

    def _evidence(self, method: Method | None, start: str) -> dict[str, Any]:
        disk = self.opened.disk
        deep = method is not None
        return {
            "serial": disk.serial,
            "wwn": disk.wwn,
            "model": disk.model,
            "size": disk.size,
            "depth": self.plan.depth.value,
            "method": method.value if method else "quick",
            "start": start,
            "end": self.now(),
            "result": "erased" if deep else "cleared",
            "note": self._note
            if deep
            else "Partition tables and signatures are gone; data outside of them may remain.",
        }

    def _methods(self) -> tuple[Method | None, ...]:
        if self.plan.depth is Depth.QUICK:
            return (None,)
        best = self._best()
        return (best, *(method for method in self.plan.fallback if method is not best))

    def _best(self) -> Method:
        """Return the strongest method that the disk's kind has."""
        name = self.opened.disk.name
        if name.startswith("nvme"):
            try:
                able = nvme.identify(self.commands, self.opened.fd).best_sanitize() is not None
            except OSError:
                return Method.OVERWRITE
            return Method.SANITIZE if able and self._alone() else Method.FORMAT
        if name.startswith("sd"):
            return Method.SECURE_ERASE if Method.SECURE_ERASE in self.plan.fallback else Method.OVERWRITE
        return Method.OVERWRITE

    def _apply(self, method: Method | None, places: tuple[Place, ...]) -> bool:
        if method is None:
            self._quick()
            return False
        self._note = ""
        before = digests(self.opened.fd, places)
        if method is Method.SANITIZE:
            self._only_declared("a sanitize")
            random_looking = nvme.sanitize(self.opened, self.commands, self.clock, self.pace)
        elif method is Method.FORMAT:
            if nvme.identify(self.commands, self.opened.fd).format_hits_all:
                self._only_declared("a format")
            random_looking = nvme.format_namespace(self.opened, self.commands, self.pace, self._waited)
        elif method is Method.SECURE_ERASE:
            random_looking = ata.secure_erase(self.opened, self.commands, self.pace, self._waited)
        else:
            random_looking = False
            (self._discard if method is Method.DISCARD else self._overwrite)()
        self._prove(places, before, may_look_random=random_looking)
        return random_looking

    def _prove(self, places: tuple[Place, ...], before: dict[Place, bytes], *, may_look_random: bool) -> None:
        """Read the places back from the disk itself. Raises EraseFailedError when one still holds data."""
        self.commands.forget_cache(self.opened.fd)
        after = digests(self.opened.fd, places) if may_look_random else {}
        for place, content in read_places(self.opened.fd, places):
            if not is_blank(content) and (not may_look_random or after[place] == before[place]):
                raise EraseFailedError(f"data can still be read at byte {place.offset}")

    def _quick(self) -> None:
        fd, size = self.opened.fd, self.opened.disk.size
        starts = [0, max(0, size - SIGNATURES)]
        with_partitions = []
        with suppress(FleetError):
            with_partitions = [part for part in read_partitions(fd, self.opened.disk) if part.number]
        try:
            self._discard_range()
        except OSError:
            self.pace.tell(None, "The disk has no discard: partition tables and signatures are overwritten.")
        for part in with_partitions:
            for at in (part.start, max(part.start, part.start + part.size - PARTITION_SIGNATURES)):
                self._zeros(at, min(PARTITION_SIGNATURES, part.size))
        for at in starts:
            self._zeros(at, min(SIGNATURES, size))
        self.commands.forget_cache(fd)
        ends = (Place(0, min(1 << 20, size)), Place(max(0, size - (1 << 20)), min(1 << 20, size)))
        for place, content in read_places(fd, ends):
            if not is_zero(content):
                raise EraseFailedError(f"data can still be read at byte {place.offset}")

    def _discard(self) -> None:
        try:
            self._discard_range(secure=True)
        except OSError:
            self._discard_range()
            self._note = "The disk has no secure discard: its blocks were discarded and read as blank afterwards."

    def _discard_range(self, *, secure: bool = False) -> None:
        size = self.opened.disk.size
        command = self.commands.secure_discard if secure else self.commands.discard
        for at in range(0, size, DISCARD_CHUNK):
            command(self.opened.fd, at, min(DISCARD_CHUNK, size - at))
            self.pace.report(at, size, "The disk discards its blocks.")

    def _overwrite(self) -> None:
        size = self.opened.disk.size
        for count, at in enumerate(range(0, size, CHUNK)):
            self._zeros(at, min(CHUNK, size - at))
            if count % SYNC_EVERY == SYNC_EVERY - 1:
                os.fdatasync(self.opened.fd)
                os.posix_fadvise(self.opened.fd, 0, 0, os.POSIX_FADV_DONTNEED)
            self.pace.report(at, size, "The disk is overwritten with zeros.")
        os.fsync(self.opened.fd)

    def _zeros(self, offset: int, length: int) -> None:
        block = memoryview(bytes(min(CHUNK, length)))
        for at in range(offset, offset + length, CHUNK):
            write_all(self.opened.fd, block[: min(CHUNK, offset + length - at)], at)

    def _alone(self) -> bool:
        """Return whether every namespace of the disk's controller is declared for erasing."""
        names = self.commands.namespaces(self.opened.disk)
        serials = {disk.name: folded(disk.serial) for disk in self.source.disks()}
        # One serial for all namespaces is the controller's: only a single namespace is then known to be declared.
        return len(names) <= 1 and all(serials.get(name, "") in self.declared for name in names)

    def _only_declared(self, what: str) -> None:
        if not self._alone():
            names = ", ".join(self.commands.namespaces(self.opened.disk))
            raise NotSupportedError(
                f"{what} would erase all namespaces of the controller ({names}); not all are declared"
            )

    def _waited(self, blocking: Callable[[], None], pace: Pace, sentence: str) -> None:
        """Run a command that blocks for long in a thread, and tell meanwhile that the work goes on."""
        failures: list[BaseException] = []

        def work() -> None:
            try:
                blocking()
            except (OSError, FleetError) as error:
                failures.append(error)

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        while thread.is_alive():
            pace.report(0, 0, sentence)
            thread.join(2.0)
        if failures:
            raise failures[0]


def evidence_of(erased: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the evidence of an erase action."""
    return {"disks": list(erased)}


def record_time(clock_now: Callable[[], Any]) -> str:
    """Return a time for the record."""
    return format_time(clock_now())
