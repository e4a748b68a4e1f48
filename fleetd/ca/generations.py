"""Which generation of each issuing CA and of the service key is in force: one small file, replaced in one step.

Every process reads it at each use, so a rotation takes effect everywhere at once and without a restart.
"""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from fleetd.ca.files import replace_file

FILE: Final = "generations.json"
SERVICE: Final = "service"
"""Under which the generations of the service key stand, beside those of the tiers."""


class TreeError(RuntimeError):
    """The authorities cannot be used; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Generations:
    """The generations of one tier or of the service key, numbered from 1; a number is never used twice."""

    active: int = 1
    leaving: int | None = None
    """Still trusted and still publishing its list; issues nothing."""
    retired: tuple[int, ...] = ()
    last: int = 1
    """The highest number that was ever begun, aborted ones included."""
    since: datetime | None = None
    """When the rotation under way began."""

    def begun(self, now: datetime) -> "Generations":
        """Return what holds once the next generation is there."""
        return replace(self, active=self.last + 1, leaving=self.active, last=self.last + 1, since=now)

    def completed(self) -> "Generations":
        """Return what holds once the leaving generation is no longer trusted."""
        assert self.leaving is not None
        return replace(self, leaving=None, retired=(*self.retired, self.leaving), since=None)

    def aborted(self) -> "Generations":
        """Return what holds once the leaving generation issues again."""
        assert self.leaving is not None
        return replace(self, active=self.leaving, leaving=None, since=None)

    @property
    def in_force(self) -> tuple[int, ...]:
        """The trusted ones, the one that issues first."""
        return (self.active,) if self.leaving is None else (self.active, self.leaving)


def file_name(line: str, generation: int) -> str:
    """Return the name of one generation of a tier or of the service key: of its files, and in addresses."""
    return str(line) if generation == 1 else f"{line}-{generation}"


def read_generations(directory: Path, line: str) -> Generations:
    """Return the generations of a tier or of the service key. Raises TreeError for a file that cannot be used."""
    told = _read(directory).get(str(line))
    if told is None:
        return Generations()
    odd = TreeError(f"{directory / FILE}: not as fleetd writes it; restore it from the backup")
    try:
        since = datetime.fromisoformat(told["since"]) if told.get("since") else None
        found = Generations(told["active"], told["leaving"], tuple(told["retired"]), told["last"], since)
        numbers = (*found.in_force, *found.retired)
        possible = (
            all(type(number) is int and 1 <= number <= found.last for number in (found.last, *numbers))
            and len(set(numbers)) == len(numbers)
            and (found.leaving is None or (since is not None and since.tzinfo is not None))
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise odd from error
    if not possible:
        raise odd
    return found


def write_generations(directory: Path, line: str, generations: Generations) -> None:
    """Put the generations of a tier or of the service key in force. Raises TreeError, OSError.

    What was read before must still hold: call it, and read before it, within `one_changes`.
    """
    told = _read(directory)
    told[str(line)] = {
        "active": generations.active,
        "leaving": generations.leaving,
        "retired": list(generations.retired),
        "last": generations.last,
        "since": generations.since.isoformat() if generations.since else None,
    }
    replace_file(directory / FILE, json.dumps(told, indent=1, sort_keys=True).encode())


def _read(directory: Path) -> dict[str, Any]:
    try:
        told = json.loads((directory / FILE).read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise TreeError(f"{directory / FILE}: {error}") from error
    if not isinstance(told, dict):
        raise TreeError(f"{directory / FILE}: not as fleetd writes it; restore it from the backup")
    return told
