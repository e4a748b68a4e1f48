"""WATCH: the stream of changes of one kind, with bookmarks, timeouts and 410."""

import asyncio
import random
from collections.abc import AsyncIterator, Mapping
from typing import Any

from fleet_lab.tinkerbell import status
from fleet_lab.tinkerbell.kinds import Kind
from fleet_lab.tinkerbell.lists import check_version, matcher, metadata_only
from fleet_lab.tinkerbell.selectors import Matcher
from fleet_lab.tinkerbell.store import Change, Event, Json, Mailbox, Store

BOOKMARK_EVERY = 60.0
"""Seconds between bookmarks; two more come near the end of the stream."""
NEAR_THE_END = (2.6, 1.4)
_INITIAL_END = "k8s.io/initial-events-end"


async def stream(
    store: Store, kind: Kind, namespace: str | None, query: Mapping[str, str], *, partial: bool
) -> AsyncIterator[Json]:
    """Yield watch lines until the timeout. Raises ApiError before the first when the request is malformed."""
    wanted = matcher(query)
    asked = query.get("resourceVersion", "")
    check_version(asked)
    loop = asyncio.get_running_loop()
    started = loop.time()
    seconds = float(query.get("timeoutSeconds") or random.uniform(1800, 3600))  # noqa: S311
    mailbox = Mailbox(store, lambda event: event.kind is kind and _in(event, namespace))
    try:
        version = int(asked or 0)
        if version and version < store.oldest:
            error = status.expired(f"too old resource version: {version} ({store.oldest})")
            yield {"type": "ERROR", "object": error.body}
            return
        for line in _beginning(store, kind, namespace, wanted, version, query):
            yield _shown(line, partial=partial)
        bookmarks = _bookmark_times(started, seconds) if query.get("allowWatchBookmarks") in {"true", "1"} else []
        while (left := started + seconds - loop.time()) > 0:
            due = bookmarks[0] - loop.time() if bookmarks else left
            event = await mailbox.next(max(0.0, min(left, due)))
            if event is not None:
                news = _line(event, wanted) if event.version > version else None
                if news is not None:
                    yield _shown(news, partial=partial)
            elif bookmarks and loop.time() >= bookmarks[0]:
                bookmarks.pop(0)
                yield _bookmark(kind, store.version)
    finally:
        mailbox.close()


def _beginning(
    store: Store, kind: Kind, namespace: str | None, wanted: Matcher, version: int, query: Mapping[str, str]
) -> list[Json]:
    """Return what a watch tells before it waits: the present objects, or the changes since its version."""
    initial = query.get("sendInitialEvents") == "true"
    if version and not initial:
        past = [event for event in store.history if event.version > version and event.kind is kind]
        lines = [_line(event, wanted) for event in past if _in(event, namespace)]
        return [line for line in lines if line is not None]
    present = [{"type": "ADDED", "object": item} for item in store.of(kind, namespace) if wanted(item)]
    if initial:
        end = _bookmark(kind, store.version)
        end["object"]["metadata"]["annotations"] = {_INITIAL_END: "true"}
        present.append(end)
    return present


def _line(event: Event, wanted: Matcher) -> Json | None:
    """Return the line for a change; an object that leaves or enters a selector is deleted or added."""
    if event.change is Change.DELETED:
        return {"type": "DELETED", "object": event.item} if wanted(event.item) else None
    is_in = wanted(event.item)
    was_in = event.before is not None and wanted(event.before)
    if is_in:
        return {"type": "MODIFIED" if was_in else "ADDED", "object": event.item}
    if was_in and event.before is not None:
        metadata = {**event.before["metadata"], "resourceVersion": str(event.version)}
        return {"type": "DELETED", "object": {**event.before, "metadata": metadata}}
    return None


def _bookmark_times(started: float, seconds: float) -> list[float]:
    regular = [started + BOOKMARK_EVERY * n for n in range(1, int(seconds // BOOKMARK_EVERY) + 1)]
    last = [started + seconds - before for before in NEAR_THE_END if seconds > before]
    return sorted(regular + last)


def _bookmark(kind: Kind, version: int) -> Json:
    content: Json = {"kind": kind.name, "apiVersion": kind.api_version, "metadata": {"resourceVersion": str(version)}}
    return {"type": "BOOKMARK", "object": content}


def _shown(line: Json, *, partial: bool) -> Json:
    if not partial or line["type"] in {"ERROR", "BOOKMARK"}:
        return line
    return {"type": line["type"], "object": metadata_only(line["object"])}


def _in(event: Event, namespace: str | None) -> bool:
    inside: Any = event.item["metadata"]["namespace"]
    return namespace is None or inside == namespace
