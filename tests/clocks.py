"""A clock that a test moves."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


@dataclass
class SetClock:
    """A host's clocks: time passes when the test says so, and the wall clock can be set while none passes."""

    at: datetime = START
    set_forth: timedelta = timedelta()

    def now(self) -> datetime:
        return self.at

    def monotonic(self) -> float:
        return (self.at - START - self.set_forth).total_seconds()

    def boot(self) -> str:
        return "one-boot"

    def pass_by(self, **by: float) -> None:
        self.at += timedelta(**by)

    def step(self, **by: float) -> None:
        """Set the wall clock forth, or back; no time passes."""
        self.at += timedelta(**by)
        self.set_forth += timedelta(**by)
