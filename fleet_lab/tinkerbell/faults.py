"""Faults on order: the next requests that match are answered with an error, late, or never."""

import asyncio
from dataclasses import dataclass, field

from fleet_lab.tinkerbell.status import ApiError

_REASONS = {
    401: "Unauthorized",
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


@dataclass
class Fault:
    """What to do to the next `count` requests whose method and path match."""

    count: int = 1
    code: int = 0
    """HTTP code to answer with; 0 answers as usual (after the delay)."""
    delay: float = 0.0
    """Seconds to wait before anything else; a very long one is a hanging server."""
    methods: tuple[str, ...] = ()
    path: str = ""
    """Text that the path must contain."""
    after: bool = False
    """Whether the request is carried out first, so that only its answer is lost."""

    page: str = ""
    """Text to answer with in place of an object or a Status, as something in front of the API does."""

    def concerns(self, method: str, path: str) -> bool:
        """Tell whether this fault is meant for the request."""
        return self.count > 0 and (not self.methods or method in self.methods) and self.path in path


@dataclass
class Faults:
    """The faults in force."""

    pending: list[Fault] = field(default_factory=list)

    def take(self, method: str, path: str) -> Fault | None:
        """Return the fault for a request and count it, or None."""
        for fault in self.pending:
            if fault.concerns(method, path):
                fault.count -= 1
                if fault.count <= 0:
                    self.pending.remove(fault)
                return fault
        return None


async def strike(fault: Fault) -> None:
    """Wait, then raise the ordered error, if any."""
    await asyncio.sleep(fault.delay)
    if fault.code and not fault.page:
        reason = _REASONS.get(fault.code, "InternalError")
        details = {"retryAfterSeconds": 1} if fault.code in {429, 503} else None
        raise ApiError(fault.code, reason, f"ordered fault {fault.code}", details)
