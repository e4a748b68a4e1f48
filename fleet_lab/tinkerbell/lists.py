"""LIST: selectors, pages of one snapshot, and the forms in which items are shown."""

import base64
import json
from collections.abc import Mapping

from fleet_lab.tinkerbell import status
from fleet_lab.tinkerbell.kinds import Kind
from fleet_lab.tinkerbell.selectors import Matcher, by_fields, by_labels
from fleet_lab.tinkerbell.store import Json, Store

_TOO_OLD = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without "
    "the continue parameter, or use the continue token in this response to retrieve the remainder of the results. "
    "Continuing with the provided token results in an inconsistent list - objects that were created, modified, or "
    "deleted between the time the first chunk was returned and now may show up in the list."
)


def matcher(query: Mapping[str, str]) -> Matcher:
    """Return what a request's selectors let through."""
    labels, fields = by_labels(query.get("labelSelector", "")), by_fields(query.get("fieldSelector", ""))
    return lambda item: labels(item) and fields(item)


def listing(store: Store, kind: Kind, namespace: str | None, query: Mapping[str, str]) -> Json:
    """Return a list, or one page of it. Raises ApiError 400, 410 or 504."""
    wanted = matcher(query)
    version, start = _where(store, query)
    items = store.of(kind, namespace) if version == store.version else store.at(kind, namespace, version)
    items = [item for item in items if wanted(item) and _position(item, namespace) >= start]
    limit = int(query.get("limit") or 0)
    metadata: Json = {"continue": "", "resourceVersion": str(version)}
    if limit and len(items) > limit:
        metadata["continue"] = _token(version, f"{_position(items[limit - 1], namespace)}\0")
        if not query.get("labelSelector") and not query.get("fieldSelector"):
            metadata["remainingItemCount"] = len(items) - limit
        items = items[:limit]
    return {"apiVersion": kind.api_version, "kind": f"{kind.name}List", "metadata": metadata, "items": items}


def metadata_only(item: Json) -> Json:
    """Return the object as PartialObjectMetadata."""
    return {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"]}


def metadata_list(answer: Json) -> Json:
    """Return a list as PartialObjectMetadataList."""
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": answer["metadata"],
        "items": [metadata_only(item) for item in answer["items"]],
    }


def _where(store: Store, query: Mapping[str, str]) -> tuple[int, str]:
    """Return the version to show, and the position to start at."""
    if token := query.get("continue"):
        version, start = _read_token(token)
        if version < 0:
            return store.version, start
        if version < store.oldest:
            raise status.expired(_TOO_OLD, {"continue": _token(-1, start.lstrip("/"))})
        return version, start
    asked = query.get("resourceVersion", "")
    if not asked:
        return store.version, ""
    if not asked.isdigit():
        raise _not_a_number(asked)
    if int(asked) > store.version:
        raise status.too_large_version(int(asked), store.version)
    if query.get("resourceVersionMatch") == "Exact":
        if int(asked) < store.oldest:
            raise status.expired("The resourceVersion for the provided list is too old.")
        return int(asked), ""
    return store.version, ""


def _not_a_number(asked: str) -> status.ApiError:
    return status.ApiError(
        500, None, f'resourceVersion: Invalid value: "{asked}": strconv.ParseUint: parsing "{asked}": invalid syntax'
    )


def check_version(asked: str) -> None:
    """Refuse a resourceVersion that is not a number, as the API server does: with 500."""
    if asked and not asked.isdigit():
        raise _not_a_number(asked)


def _position(item: Json, namespace: str | None) -> str:
    name: str = item["metadata"]["name"]
    return f"/{name}" if namespace is not None else f"/{item['metadata']['namespace']}/{name}"


def _token(version: int, start: str) -> str:
    text = json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": start}, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def _read_token(token: str) -> tuple[int, str]:
    try:
        read = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        start = str(read["start"])
        return int(read["rv"]), start if start.startswith("/") else f"/{start}"
    except (ValueError, KeyError, TypeError) as error:
        raise status.bad_request(f"invalid continue token: continue key is not valid: {error}") from error
