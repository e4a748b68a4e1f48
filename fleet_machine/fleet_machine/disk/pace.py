"""How a long action tells how far it is: at most every two seconds, and without stopping its work."""

from collections.abc import Callable
from dataclasses import dataclass, field

from fleet_machine.clock import Clock

INTERVAL = 2.0
Tell = Callable[[float | None, str], None]
"""Takes percent (None when it is not known) and a sentence."""


@dataclass(slots=True)
class Pace:
    """Lets one report pass each `INTERVAL` seconds."""

    clock: Clock
    tell: Tell
    _next: float = field(default=0.0, init=False)

    def report(self, done: float, whole: float, sentence: str) -> None:
        """Report `done` of `whole`, in whatever unit; a whole of 0 means that the share is not known."""
        now = self.clock.boot()
        if now < self._next:
            return
        self._next = now + INTERVAL
        self.tell(100.0 * done / whole if whole else None, sentence)
