"""Apply a body of reports: one bad row does not refuse the rest."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db import DatabaseError, transaction

from netbox_fleet.models import Machine
from netbox_fleet.reports import catalogue, keys, rows
from netbox_fleet.reports.schema import ClassReport, MachineReport, ReportsBody, UnknownKeyReport

MOST_ROWS = 5_000
_PASSING = ("08", "40", "53", "55", "57")
"""Classes of SQLSTATE that say nothing of the row: connection, deadlock, resources, locks, an operator or a timeout."""


class BadBodyError(ValueError):
    """The body as a whole has not the shape of reports."""


@dataclass(slots=True)
class Outcome:
    """What became of the rows of one body."""

    accepted: int = 0
    stale: list[int] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    unknown_classes: list[str] = field(default_factory=list)


def apply(body: Any, user: Any) -> Outcome:
    """Apply a `reports/` body as this user. Raises BadBodyError, and PermissionDenied without `report_machine`."""
    if not user.has_perm("netbox_fleet.report_machine"):
        raise PermissionDenied
    if not isinstance(body, Mapping):
        raise BadBodyError("The body must be a JSON object.")
    parts = {name: [] if body.get(name) is None else body[name] for name in ("reports", "endorsement_keys", "classes")}
    for name, part in parts.items():
        if not isinstance(part, list):
            raise BadBodyError(f"{name} must be a list.")
        if len(part) > MOST_ROWS:
            raise BadBodyError(f"{name} has more than {MOST_ROWS} rows.")
    if body.get("service") is not None:
        _service(body["service"])
    outcome = Outcome()
    with transaction.atomic():
        if "classes" in body:
            outcome.unknown_classes = _classes(parts["classes"])
        _machines(parts["reports"], user, outcome)
        _unknown_keys(parts["endorsement_keys"], outcome)
    return outcome


def _service(data: Any) -> None:
    parsed = ReportsBody(data={"service": data})
    if not parsed.is_valid():
        raise BadBodyError("service must be an object with a version.")


def _classes(raw: list[Any]) -> list[str]:
    parsed = [ClassReport(data=row) for row in raw]
    bad = [index for index, row in enumerate(parsed) if not row.is_valid()]
    if bad:
        raise BadBodyError(f"classes: rows {bad[:10]} have not the shape of a class.")
    slugs = Counter(row.validated_data["slug"] for row in parsed)
    if twice := sorted(slug for slug, times in slugs.items() if times > 1):
        raise BadBodyError(f"classes: {', '.join(twice[:10])}: told twice.")
    return catalogue.replace([row.validated_data for row in parsed])


def _machines(raw: list[Any], user: Any, outcome: Outcome) -> None:
    parsed: list[tuple[int, dict[str, Any]]] = []
    for index, row in enumerate(raw):
        serializer = MachineReport(data=row)
        if serializer.is_valid():
            parsed.append((index, serializer.validated_data))
        else:
            outcome.rejected.append({"index": index, "errors": serializer.errors})
    ids = {row["machine_id"] for _, row in parsed}
    permitted = set(Machine.objects.restrict(user, "report").filter(pk__in=ids).values_list("pk", flat=True))
    locked = Machine.objects.select_for_update(of=("self",)).filter(pk__in=permitted).order_by("pk")
    machines = {machine.pk: machine for machine in locked.select_related("device", "machine_class")}
    for index, row in parsed:
        machine = machines.get(row["machine_id"])
        if machine is None:
            outcome.rejected.append({"index": index, "errors": {"machine_id": ["No such machine."]}})
        elif row["seq"] <= machine.report_seq:
            outcome.stale.append(machine.pk)
        elif (problem := _one(machine, row)) is not None:
            outcome.rejected.append({"index": index, "errors": {"detail": [problem]}})
            # The row in memory may hold half of the refused report: the database's word counts.
            machines[machine.pk] = reread(machine.pk)
        else:
            outcome.accepted += 1
    outcome.rejected.sort(key=lambda entry: entry["index"])


def reread(pk: int) -> Machine:
    """Read a machine again, under the lock that this transaction holds already."""
    return Machine.objects.select_related("device", "machine_class").get(pk=pk)


def _one(machine: Machine, row: dict[str, Any]) -> str | None:
    """Apply one row inside its own savepoint; return what the database had against it.

    Raises DatabaseError where it had nothing against the row and only cannot take it now.
    """
    try:
        with transaction.atomic():
            rows.apply(machine, row)
    except DatabaseError as problem:
        if str(getattr(problem.__cause__, "sqlstate", "")).startswith(_PASSING):
            raise
        return f"The database refused this row: {type(problem).__name__}."
    return None


def _unknown_keys(raw: list[Any], outcome: Outcome) -> None:
    for index, row in enumerate(raw):
        serializer = UnknownKeyReport(data=row)
        if not serializer.is_valid():
            outcome.rejected.append({"index": index, "errors": {"endorsement_keys": serializer.errors}})
            continue
        data = serializer.validated_data
        candidates = Machine.objects.filter(pk__in=data.get("candidates") or [])
        keys.note(data, machine=None, candidates=list(candidates))
