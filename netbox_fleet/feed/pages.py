"""Serve the next page of the feed after a cursor."""

from typing import Any

from django.db.models import QuerySet

from netbox_fleet.feed import changes
from netbox_fleet.feed.cursor import ChangesPage, Cursor, FullPage, Since
from netbox_fleet.feed.records import records, tombstone
from netbox_fleet.models import Machine

DEFAULT_LIMIT = 500
MOST = 2_000


def page(visible: QuerySet[Machine], cursor: Cursor | None, limit: int) -> dict[str, Any]:
    """Return `{cursor, more, full_read_required, results}` of the machines that the reader may see."""
    match cursor:
        case None:
            return _full(visible, changes.position(), 0, limit)
        case FullPage(start, last):
            return _full(visible, start, last, limit)
        case Since():
            return _changes(visible, cursor, changes.position(), 0, limit)
        case ChangesPage(before, then, last):
            return _changes(visible, before, then, last, limit)


def _full(visible: QuerySet[Machine], start: Since, last: int, limit: int) -> dict[str, Any]:
    ids = list(visible.filter(pk__gt=last).order_by("pk").values_list("pk", flat=True)[: limit + 1])
    more = len(ids) > limit
    ids = ids[:limit]
    served = records(visible.filter(pk__in=ids).order_by("pk"))
    then: Cursor = FullPage(start, ids[-1]) if more else start
    return _answer(then, served, more=more)


def _changes(visible: QuerySet[Machine], before: Since, then: Since, last: int, limit: int) -> dict[str, Any]:
    if not changes.readable(before):
        return _answer(before, [], more=False, full=True)
    changed = changes.changed(before)
    ids = [pk for pk in sorted({*changed.machines, *changed.gone}) if pk > last]
    more = len(ids) > limit
    ids = ids[:limit]
    served = records(visible.filter(pk__in=ids).order_by("pk"))
    served += [tombstone(pk) for pk in ids if pk in changed.gone]
    return _answer(ChangesPage(before, then, ids[-1]) if more else then, served, more=more)


def _answer(cursor: Cursor, results: list[dict[str, Any]], *, more: bool, full: bool = False) -> dict[str, Any]:
    return {"cursor": str(cursor), "more": more, "full_read_required": full, "results": results}
