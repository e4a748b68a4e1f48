"""Time: the machine's own clocks, and fleetd's time as its signed challenges tell it.

A machine's battery may be empty. So what fleetd signs ("may start until ..", certificate dates) is compared with
fleetd's own time: the `issued` of the last challenge, carried on by CLOCK_BOOTTIME, which all containers share.
"""

import time
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Protocol


class Clock(Protocol):
    """The clocks of the machine."""

    def wall(self) -> datetime:
        """Return the wall clock, aware, UTC; may be wrong by decades."""
        ...

    def boot(self) -> float:
        """Return seconds since the machine was switched on; never goes back within one boot."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class SystemClock:
    """The clocks of this host."""

    def wall(self) -> datetime:
        """Return the host's wall clock."""
        return datetime.now(timezone.utc)

    def boot(self) -> float:
        """Return CLOCK_BOOTTIME in seconds."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


@dataclass(frozen=True, slots=True)
class TimeMark:
    """fleetd's time at one moment of this boot."""

    issued: datetime
    boot: float


class FleetTime:
    """fleetd's time; the machine's wall clock until a challenge told better."""

    def __init__(self, clock: Clock, mark: TimeMark | None = None) -> None:
        """Begin with a mark taken earlier in this boot, or with none."""
        self._clock = clock
        self.mark = mark

    def learn(self, issued: datetime) -> None:
        """Take the time of a challenge that was just received and verified."""
        self.mark = TimeMark(issued, self._clock.boot())

    def now(self) -> datetime:
        """Return the best known time."""
        if self.mark is None:
            return self._clock.wall()
        return self.mark.issued + timedelta(seconds=self._clock.boot() - self.mark.boot)


def parse_time(text: str) -> datetime:
    """Return an RFC 3339 time. Raises ValueError for anything else, and for a time without offset."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError("a time without offset")
    return moment


def format_time(moment: datetime) -> str:
    """Return a time as RFC 3339 in UTC, to the millisecond."""
    return moment.astimezone(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
