"""How a step of the client says that it cannot go on."""

from dataclasses import dataclass


class FleetError(Exception):
    """A step cannot go on; the text is for the owner: what is wrong, and what to do."""


class OutsideError(FleetError):
    """The network or fleetd does not answer; trying again later may help."""


@dataclass(frozen=True, slots=True)
class FindingTold:
    """A reason that fleetd gave."""

    code: str
    severity: str
    message: str
    next_step: str

    def line(self) -> str:
        """Return the finding as one line of the console."""
        return f"{self.code}: {self.message} {self.next_step}".strip()


class RefusedError(FleetError):
    """fleetd answered with a refusal (problem details, RFC 9457)."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: str = "",
        stop: bool = False,
        retry_after: float | None = None,
        findings: tuple[FindingTold, ...] = (),
    ) -> None:
        """Keep what the problem said; `retry_after` in seconds, None when it did not say."""
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.stop = stop
        self.retry_after = retry_after
        self.findings = findings


class NotAuthenticError(FleetError):
    """An answer is not what the pinned service keys signed: somebody else is speaking, or the pins are old."""
