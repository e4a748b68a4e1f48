"""A finding that would refuse, where the answer must be given all the same."""

from dataclasses import dataclass
from typing import ClassVar, override

from fleetd.core.findings.finding import Finding, Severity


@dataclass(frozen=True)
class OnlyWarns(Finding):
    """What is wrong with a boot, told and not held against a machine that is about to be erased.

    It has the code of the finding it carries, and none of its own: `catalogue` does not list it.
    """

    finding: Finding

    severity: ClassVar[Severity] = Severity.WARNS

    def __post_init__(self) -> None:
        object.__setattr__(self, "code", self.finding.code)

    @override
    def sentence(self) -> str:
        return self.finding.sentence()

    @override
    def next_step(self) -> str:
        return self.finding.next_step()

    @override
    def evidence(self) -> dict[str, str]:
        return self.finding.evidence()
