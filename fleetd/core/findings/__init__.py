"""Every finding of fleetd: what an owner reads when something is refused or worth a look."""

from fleetd.core.findings import (
    boot,
    checks,
    endorsement,
    eventlog,
    identity,
    lifecycle,
    quote,
    softened,
    tickets,
)
from fleetd.core.findings.finding import Finding, Severity, catalogue, codes_of, refuses

__all__ = [
    "Finding",
    "Severity",
    "boot",
    "catalogue",
    "checks",
    "codes_of",
    "endorsement",
    "eventlog",
    "identity",
    "lifecycle",
    "quote",
    "refuses",
    "softened",
    "tickets",
]
