"""From a record of the declarations feed to a Declaration; strict, so that a malformed one is named and never acted on."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from fleetd.core.declaration import (
    Address,
    BaselineDecision,
    Declaration,
    DeclaredKey,
    Disk,
    Intent,
    Interface,
    Statement,
    Vanished,
)
from fleetd.core.names import IntentKind, MachineId, Phase, RunId, StatementKind, disk_serial, mac_address


class MalformedRecordError(ValueError):
    """A record cannot be used; the message says which field and why."""


def parse_record(record: Any) -> Declaration | Vanished:
    """Parse one record (docs/reference/plugin-api.md). Raises MalformedRecordError."""
    fields = _Fields(record, "record")
    machine = MachineId(fields.number("machine_id"))
    if fields.flag("tombstone", default=False):
        return Vanished(machine)
    device, own = fields.table("device"), fields.table("machine")
    serial = own.text("disk_serial")
    return Declaration(
        machine=machine,
        node_name=own.text("node_name"),
        machine_class=own.text("machine_class"),
        disk=Disk(disk_serial(serial), own.text("disk_wwn")) if serial.strip() else None,
        extra_disks=tuple(Disk(disk_serial(disk.text("serial")), disk.text("wwn")) for disk in own.rows("extra_disks")),
        bmc_address=own.text("bmc_address"),
        bmc_secret=own.text("bmc_secret"),
        firmware=own.text("firmware"),
        phase=own.choice("phase", Phase),
        device_name=device.text("name"),
        device_status=device.text("status"),
        device_serial=device.text("serial"),
        site=device.text("site"),
        role=device.text("role"),
        primary_ip4=device.text("primary_ip4"),
        primary_ip6=device.text("primary_ip6"),
        interfaces=tuple(_interface(row) for row in fields.rows("interfaces")),
        addresses=tuple(_address(row) for row in fields.rows("addresses")),
        keys=tuple(_key(row) for row in fields.rows("eks")),
        tags=tuple(str(tag) for tag in fields.sequence("tags")),
        intent=_intent(fields.table("intent")) if fields.has("intent") else None,
        baseline_decision=_decision(fields.table("baseline_decision")) if fields.has("baseline_decision") else None,
        statements=tuple(_statement(row) for row in fields.rows("statements")),
    )


def machine_id_of(record: Any) -> int | None:
    """Return the machine's id where it can be read, to name a malformed record by."""
    number = record.get("machine_id") if isinstance(record, Mapping) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


class _Fields:
    """One JSON object, read field by field; every error names the field."""

    def __init__(self, value: Any, where: str) -> None:
        if not isinstance(value, Mapping):
            raise MalformedRecordError(f"{where}: not an object")
        self._value, self._where = value, where

    def has(self, name: str) -> bool:
        return self._value.get(name) is not None

    def text(self, name: str) -> str:
        value = self._value.get(name)
        if value is None:
            return ""
        if not isinstance(value, str) or len(value) > 20_000:
            raise self._wrong(name, "not a text of sensible length")
        return value

    def number(self, name: str) -> int:
        value = self._value.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 2**63:
            raise self._wrong(name, "not a positive number")
        return value

    def flag(self, name: str, *, default: bool | None) -> bool:
        """Return true or false; without a default it must be there."""
        value = self._value.get(name, default)
        if not isinstance(value, bool):
            raise self._wrong(name, "neither true nor false")
        return value

    def time(self, name: str) -> datetime | None:
        return self.read(name, _time) if self.has(name) else None

    def moment(self, name: str) -> datetime:
        """Return a time that must be there."""
        found = self.time(name)
        if found is None:
            raise self._wrong(name, "missing")
        return found

    def choice[T](self, name: str, kind: Callable[[str], T]) -> T:
        return self.read(name, kind)

    def read[T](self, name: str, parse: Callable[[str], T]) -> T:
        try:
            return parse(self.text(name))
        except ValueError as error:
            raise self._wrong(name, str(error)[:200]) from error

    def table(self, name: str) -> "_Fields":
        return _Fields(self._value.get(name), f"{self._where}.{name}")

    def sequence(self, name: str) -> Sequence[Any]:
        value = self._value.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(name, "not a list")
        return value

    def rows(self, name: str) -> list["_Fields"]:
        return [_Fields(item, f"{self._where}.{name}[{at}]") for at, item in enumerate(self.sequence(name))]

    def texts(self, name: str, parse: Callable[[str], Any]) -> tuple[Any, ...]:
        try:
            return tuple(parse(str(item)) for item in self.sequence(name))
        except ValueError as error:
            raise self._wrong(name, str(error)[:200]) from error

    def _wrong(self, name: str, problem: str) -> MalformedRecordError:
        return MalformedRecordError(f"{self._where}.{name}: {problem}")


def _intent(row: _Fields) -> Intent:
    return Intent(
        id=RunId(row.read("id", UUID)),
        kind=row.choice("kind", IntentKind),
        approved=row.read("state", _approved),
        requested_by=row.text("requested_by"),
        requested_at=row.moment("requested_at"),
        confirmed_serial=disk_serial(row.text("confirmed_serial")),
        reason=row.text("reason"),
        approved_by=row.text("approved_by"),
        cancel_requested_by=row.text("cancel_requested_by"),
        cancel_requested_at=row.time("cancel_requested_at"),
        force_budget=row.flag("force_budget", default=False),
        reboot=row.flag("reboot", default=False),
        two_person=row.flag("two_person", default=None),
    )


def _approved(state: str) -> bool:
    """Tell whether an intent in this state may begin; of a state that is not known nothing follows."""
    if state not in {"requested", "set", "running"}:
        raise ValueError(f"no known state of an intent: {state[:40]!r}")
    return state != "requested"


def _statement(row: _Fields) -> Statement:
    return Statement(
        id=row.read("id", UUID),
        kind=row.choice("kind", StatementKind),
        by=row.text("by"),
        reason=row.text("reason"),
        at=row.moment("at"),
        subject=disk_serial(row.text("subject")),
        intent=RunId(row.read("intent", UUID)) if row.has("intent") else None,
    )


def _interface(row: _Fields) -> Interface:
    return Interface(
        name=row.text("name"),
        macs=row.texts("mac_addresses", mac_address),
        mgmt_only=row.flag("mgmt_only", default=False),
        enabled=row.flag("enabled", default=True),
    )


def _address(row: _Fields) -> Address:
    return Address(row.text("address"), row.text("interface"), row.text("dns_name"), row.text("gateway"))


def _key(row: _Fields) -> DeclaredKey:
    return DeclaredKey(
        id=row.number("id"),
        public_hash=row.text("public_hash").lower(),
        certificate_sha256=row.text("certificate_sha256").lower(),
        status=row.text("status"),
        approved_by=row.text("approved_by"),
    )


def _decision(row: _Fields) -> BaselineDecision:
    return BaselineDecision(row.text("digest"), row.text("decision") == "accept", row.text("by"), row.moment("at"))


def _time(text: str) -> datetime:
    parsed = datetime.fromisoformat(text)
    if parsed.tzinfo is None:
        raise ValueError("a time without zone")
    return parsed
