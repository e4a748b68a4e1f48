"""Where a reader stands in the feed, as a short opaque text.

A full read goes through the machines in order of their ids; afterwards the change log tells what changed. Ids of the
change log commit out of order, so each poll reads again what was logged in the last two minutes before the one before.
"""

import re
from dataclasses import dataclass

RECHECK_SECONDS = 120


class BadCursorError(ValueError):
    """The text is no cursor of this feed."""


@dataclass(frozen=True, slots=True)
class Since:
    """All changes up to `change` were served; read at `time` (Unix seconds)."""

    change: int
    time: int

    def __str__(self) -> str:
        return f"since-{self.change}-{self.time}"


@dataclass(frozen=True, slots=True)
class FullPage:
    """Within a full read: machines up to `last` were served; `start` is where to go on afterwards."""

    start: Since
    last: int

    def __str__(self) -> str:
        return f"full-{self.start.change}-{self.start.time}-{self.last}"


@dataclass(frozen=True, slots=True)
class ChangesPage:
    """Within the changes after `before`: machines up to `last` were served; then go on from `then`."""

    before: Since
    then: Since
    last: int

    def __str__(self) -> str:
        return f"page-{self.before.change}-{self.before.time}-{self.then.change}-{self.then.time}-{self.last}"


type Cursor = Since | FullPage | ChangesPage

_SHAPE = re.compile(r"(since|full|page)((?:-[0-9]{1,18}){2,5})")


def parse(text: str) -> Cursor:
    """Read a cursor. Raises BadCursorError."""
    match = _SHAPE.fullmatch(text)
    if match is None:
        raise BadCursorError("not a cursor of this feed")
    numbers = [int(part) for part in match[2].split("-")[1:]]
    match match[1], numbers:
        case "since", [change, time]:
            return Since(change, time)
        case "full", [change, time, last]:
            return FullPage(Since(change, time), last)
        case "page", [change, time, then, then_time, last]:
            return ChangesPage(Since(change, time), Since(then, then_time), last)
    raise BadCursorError("not a cursor of this feed")
