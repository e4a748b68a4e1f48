"""What an action is told by its environment (`FLEET_*`; in Tinkerbell filled from the Workflow's hardwareMap)."""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit
from uuid import UUID

from fleet_machine.failure import FleetError
from fleet_machine.jws import ServiceKeys

PATIENCE = 7 * 24 * 3600.0
"""Seconds for which a silent fleetd is asked again: the Templates' own timeout, since fleetd owns the deadlines."""


@dataclass(frozen=True, slots=True)
class Service:
    """Where fleetd is, and what proves that it is fleetd."""

    url: str
    """`https://host[:port][/prefix]`, without a slash at the end."""
    ca: str
    """PEM of the CA of its server certificate."""
    keys: ServiceKeys
    patience: float = PATIENCE
    source_address: str = ""
    """Local address to connect from; "" lets the kernel choose."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "Service":
        """Read FLEET_URL, FLEET_CA, FLEET_KEYS, FLEET_PATIENCE and FLEET_SOURCE_ADDRESS. Raises FleetError."""
        return cls(
            checked_url(required(environment, "FLEET_URL")),
            decoded(environment, "FLEET_CA").decode("ascii", "replace"),
            ServiceKeys.from_jwks(decoded(environment, "FLEET_KEYS")),
            seconds(environment, "FLEET_PATIENCE", PATIENCE),
            environment.get("FLEET_SOURCE_ADDRESS", ""),
        )


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Which run this is, and of which machine."""

    run: str
    """The run id as a UUID of 36 characters; "" where an owner simply booted the machine."""
    machine: int | None

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> "RunSettings":
        """Read FLEET_RUN and FLEET_MACHINE. Raises FleetError."""
        run, machine = environment.get("FLEET_RUN", ""), environment.get("FLEET_MACHINE", "")
        try:
            return cls(str(UUID(run)) if run else "", int(machine) if machine else None)
        except ValueError as error:
            raise FleetError(f"FLEET_RUN or FLEET_MACHINE is malformed: {error}") from error


def required(environment: Mapping[str, str], name: str) -> str:
    """Return a variable. Raises FleetError when it is missing or empty."""
    value = environment.get(name, "")
    if not value:
        raise FleetError(f"The environment lacks {name}: the Template or the HookOS image must give it.")
    return value


def decoded(environment: Mapping[str, str], name: str) -> bytes:
    """Return a base64 variable's bytes. Raises FleetError."""
    try:
        return base64.b64decode(required(environment, name), validate=True)
    except ValueError as error:
        raise FleetError(f"{name} is not base64: {error}") from error


def whole(environment: Mapping[str, str], name: str) -> int | None:
    """Return a variable as a number; None when it is missing or empty. Raises FleetError."""
    text = environment.get(name, "").strip()
    try:
        return int(text) if text else None
    except ValueError as error:
        raise FleetError(f"{name} is not a whole number: {text[:40]!r}") from error


def seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    """Return a variable as seconds. Raises FleetError."""
    text = environment.get(name, "").strip()
    try:
        return float(text) if text else default
    except ValueError as error:
        raise FleetError(f"{name} is not a number of seconds: {text[:40]!r}") from error


def checked_url(url: str) -> str:
    """Return an https URL without the slash at its end. Raises FleetError."""
    parts = urlsplit(url)
    if parts.scheme != "https" or not parts.hostname or parts.query or parts.fragment:
        raise FleetError(f"FLEET_URL must be an https address: {url[:200]!r}")
    return url.rstrip("/")
