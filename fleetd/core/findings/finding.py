"""What a Finding is: a typed reason with the words an owner reads.

Every finding class lives in this package, one module a part of the system, and `catalogue()` lists them all; nothing
else in fleetd decides how a reason is worded.
"""

import sys
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import StrEnum
from typing import Any, ClassVar


class Severity(StrEnum):
    """How much a finding weighs."""

    REFUSES = "refuses"
    WARNS = "warns"
    NOTES = "notes"


class Finding:
    """One reason that an owner must read.

    Subclasses are frozen dataclasses; their fields are the evidence. `code` is unique and stable: it reaches NetBox,
    metrics and the documentation. Evidence never holds a secret or the value that would have been accepted.
    """

    __slots__ = ()

    code: ClassVar[str]
    severity: ClassVar[Severity] = Severity.REFUSES

    def sentence(self) -> str:
        """Say what was found, with the evidence, in one sentence."""
        raise NotImplementedError

    def next_step(self) -> str:
        """Say what the owner can do next, in one sentence."""
        raise NotImplementedError

    def as_dict(self) -> dict[str, Any]:
        """Return the JSON form that NetBox, the API and the command line show."""
        return {
            "code": self.code,
            "severity": self.severity.value,
            "message": self.sentence(),
            "next_step": self.next_step(),
            "evidence": self.evidence(),
        }

    def evidence(self) -> dict[str, str]:
        """Return the fields as text, each at most 500 characters."""
        value: Any = self
        return (
            {field.name: _shown(getattr(value, field.name)) for field in fields(value)} if is_dataclass(value) else {}
        )


def refuses(findings: "tuple[Finding, ...] | list[Finding]") -> bool:
    """Tell whether any of the findings refuses."""
    return any(finding.severity is Severity.REFUSES for finding in findings)


def codes_of(shown: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the codes of findings in their JSON form, each once, in their order."""
    return tuple(dict.fromkeys(str(finding.get("code", "")) for finding in shown))


def catalogue() -> dict[str, type[Finding]]:
    """Return every finding class by code, sorted by code.

    Raises ValueError when two classes share a code: a code must mean one thing.
    """
    found: dict[str, type[Finding]] = {}
    for kind in _subclasses(Finding):
        code = getattr(kind, "code", None)
        if code is None or getattr(sys.modules[kind.__module__], kind.__qualname__, kind) is not kind:
            # The second case: `slots=True` made a new class, and the first one waits for the garbage collector.
            continue
        if found.setdefault(code, kind) is not kind:
            message = f"two findings share the code {code!r}: {found[code].__qualname__} and {kind.__qualname__}"
            raise ValueError(message)
    return dict(sorted(found.items()))


def _subclasses(kind: type[Finding]) -> list[type[Finding]]:
    direct = kind.__subclasses__()
    return direct + [deeper for child in direct for deeper in _subclasses(child)]


def _shown(value: object) -> str:
    if isinstance(value, tuple) and all(isinstance(item, str) for item in value):
        value = ", ".join(value)
    text = value.hex() if isinstance(value, bytes) else str(value)
    return text if len(text) <= 500 else text[:499] + "…"
