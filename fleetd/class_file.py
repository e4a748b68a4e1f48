"""`classes.json` on disk: read again when it changes; a bad file keeps the last good one in force."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

import structlog

from fleetd.core.classes import ClassBook, ClassError, ClassesInvalidError, Deadlines, parse_classes

_log = structlog.get_logger(__name__)
MAX_FILE = 8 << 20


def read_classes(path: Path, deadlines: Deadlines | None = None) -> ClassBook:
    """Read the file. Raises ClassesInvalidError with every error and its path."""
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_FILE + 1)
    except OSError as error:
        raise ClassesInvalidError((ClassError(str(path), error.strerror or "cannot be read"),)) from error
    if len(raw) > MAX_FILE:
        raise ClassesInvalidError((ClassError(str(path), f"larger than {MAX_FILE} bytes"),))
    try:
        data = json.loads(raw, object_pairs_hook=_no_repeats)
    except (ValueError, RecursionError) as error:
        raise ClassesInvalidError((ClassError(str(path), f"not JSON: {error}"),)) from error
    return parse_classes(data, deadlines)


def _no_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key!r} stands twice in one object")
        found[key] = value
    return found


@dataclass
class ClassFile:
    """The classes in force, followed on disk."""

    path: Path
    deadlines: Deadlines = field(default_factory=Deadlines)
    problem: str = ""
    """Why the file as it is now is not in force; empty when it is."""
    _book: ClassBook = field(default_factory=lambda: ClassBook(classes={}))
    _seen: tuple[int, int, int] | None = None
    _lock: Lock = field(default_factory=Lock)

    def book(self) -> ClassBook:
        """Return the classes in force; a changed file is read first, at the cost of one stat otherwise."""
        stamp = self._stamp()
        with self._lock:
            if stamp != self._seen or stamp is None:
                self._read()
                self._seen = stamp
            return self._book

    def _stamp(self) -> tuple[int, int, int] | None:
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino

    def _read(self) -> None:
        try:
            self._book = read_classes(self.path, self.deadlines)
        except ClassesInvalidError as error:
            if self.problem != str(error):
                _log.error(
                    "classes file not usable; the last good one stays in force", problems=list(map(str, error.errors))
                )
            self.problem = str(error)
        else:
            self.problem = ""
