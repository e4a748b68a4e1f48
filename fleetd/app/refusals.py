"""What a use case refuses to do for a caller, in the words of problem details (RFC 9457)."""

from collections.abc import Sequence
from typing import Any

from fleetd.core.findings import Finding


class CallRefusedError(Exception):
    """A call that is not answered with what it asked for; `code` becomes the problem's type."""

    def __init__(
        self,
        status: int,
        code: str,
        detail: str,
        *,
        findings: Sequence[Finding] = (),
        stop: bool | None = None,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.findings = tuple(findings)
        self.stop = stop
        self.retry_after = retry_after

    def as_problem(self) -> dict[str, Any]:
        """Return the problem document."""
        problem: dict[str, Any] = {
            "type": f"urn:fleetd:problem:{self.code}",
            "title": self.code.replace("-", " "),
            "status": self.status,
            "detail": self.detail[:1000],
        }
        if self.findings:
            problem["findings"] = [finding.as_dict() for finding in self.findings]
        if self.stop is not None:
            problem["stop"] = self.stop
        return problem


def malformed(detail: str) -> CallRefusedError:
    """Return the refusal of a request that cannot be read."""
    return CallRefusedError(400, "malformed", detail)
