"""What the doctor says of one part."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is."""

    GOOD = "good"
    WARNS = "warns"
    """fleetd works; something will hurt later."""
    BROKEN = "broken"
    """Something does not work now."""


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that was seen."""

    part: str
    level: Level
    says: str
    do: str = ""
    """The next step; empty where all is good."""


Notes = Iterator[Note]


def good(part: str, says: str) -> Note:
    """Return a note that all is well."""
    return Note(part, Level.GOOD, says)


def warns(part: str, says: str, do: str) -> Note:
    """Return a note of what will hurt later."""
    return Note(part, Level.WARNS, says, do)


def broken(part: str, says: str, do: str) -> Note:
    """Return a note of what does not work."""
    return Note(part, Level.BROKEN, says, do)


def short(error: BaseException) -> str:
    """Return the first line of an error, without what a log would need."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
