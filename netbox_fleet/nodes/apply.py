"""Apply a file in one transaction: all of it, or nothing."""

from collections.abc import Iterator
from typing import Any

from core.signals import clear_events
from django.db import DatabaseError, connection, transaction

from netbox_fleet.models import Machine
from netbox_fleet.nodes.plan import Plan, Planned, plan
from netbox_fleet.nodes.wire import Problem
from netbox_fleet.nodes.write import RefusedError, write

_LOCK = 0x464C_4E44
"""Advisory lock: one file at a time."""
_TELL_EVERY = 5


def apply(raw: Any, user: Any) -> Iterator[dict[str, Any]]:
    """Apply the nodes of a body; yields `{"done", "of"}` on the way and the whole answer at the end.

    What the merge refuses, or NetBox's own rules, undoes everything and is named for every node at once. A reader that
    stops reading undoes everything too. The machines are locked, so that no intent is set on half a change.
    """
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        names = [row["name"] for row in raw if isinstance(row, dict) and isinstance(row.get("name"), str)]
        list(Machine.objects.select_for_update().filter(node_name__in=names).order_by("pk").values_list("pk"))
        found = plan(raw, user)
        if not found.refused:
            yield from _write_all(found, user)
        if found.refused:
            transaction.set_rollback(True)
    if found.refused:
        clear_events.send(sender=apply)
        yield found.as_dict("refused")
    else:
        yield found.as_dict("applied" if found.touched else "unchanged")


def _write_all(found: Plan, user: Any) -> Iterator[dict[str, Any]]:
    touched = found.touched
    found.references.read_templates(
        node.standing.node.fields["device_type"] for node in touched if node.standing.device is None
    )
    for done, node in enumerate(touched, 1):
        problem = _one(node, found, user)
        if problem is not None:
            found.problems.append(problem)
        if done % _TELL_EVERY == 0 or done == len(touched):
            yield {"done": done, "of": len(touched)}


def _one(node: Planned, found: Plan, user: Any) -> Problem | None:
    """Write one node inside its own savepoint; return what is against it, so that all of them are told."""
    try:
        with transaction.atomic():
            write(node, found.references, user)
    except RefusedError as problem:
        return Problem(node.name, problem.field, str(problem))
    except DatabaseError as problem:
        return Problem(node.name, "", f"The database refused it: {type(problem).__name__}.")
    return None
