"""The check strip: which hours had a good boot check."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from django.utils import timezone

from netbox_fleet.models import Machine

DAYS = 30
_CELL = 12


@dataclass(frozen=True, slots=True)
class Cell:
    """One hour of the strip; x and y in pixels."""

    x: int
    y: int
    state: str
    title: str


@dataclass(frozen=True, slots=True)
class Strip:
    """A grid of a day per row and an hour per column."""

    cells: tuple[Cell, ...]
    days: tuple[tuple[int, str], ...]
    width: int
    height: int
    summary: str


def check_strip(machine: Machine, now: datetime | None = None) -> Strip:
    """Draw the last 30 days of a machine, newest day last."""
    now = (now or timezone.now()).astimezone(UTC)
    first = now.date() - timedelta(days=DAYS - 1)
    cells: list[Cell] = []
    good = known = 0
    for row in range(DAYS):
        day = first + timedelta(days=row)
        hours = machine.check_days.get(day.isoformat())
        for hour in range(24):
            future = (day, hour) > (now.date(), now.hour)
            state = "none" if hours is None or future else "ok" if hours >> hour & 1 else "missed"
            good += state == "ok"
            known += state != "none"
            cells.append(Cell(56 + hour * _CELL, row * _CELL, state, f"{day} {hour:02}:00 UTC: {_WORDS[state]}"))
    labels = tuple((row * _CELL + 9, (first + timedelta(days=row)).isoformat()[5:]) for row in range(0, DAYS, 5))
    summary = f"{good} of {known} hours with a good check"
    return Strip(tuple(cells), labels, 56 + 24 * _CELL, DAYS * _CELL, summary)


_WORDS = {"ok": "good check", "missed": "no good check", "none": "no record"}


def hours_of_the_fleet(days: list[dict[str, int]], now: datetime | None = None) -> list[tuple[str, int]]:
    """Return, for each of the last 24 hours, how many machines had a good check."""
    now = (now or timezone.now()).astimezone(UTC)
    hours = []
    for back in range(23, -1, -1):
        moment = now - timedelta(hours=back)
        hours.append((moment.date(), moment.hour))
    return [(f"{hour:02}:00", sum(_good(found, day, hour) for found in days)) for day, hour in hours]


def _good(found: dict[str, int], day: date, hour: int) -> int:
    return found.get(day.isoformat(), 0) >> hour & 1
