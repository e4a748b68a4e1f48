"""Create, change and delete objects by the rules of an API server: pruning, validation, conflicts, finalizers."""

import base64
import copy
import random
import re
import string
import uuid
from dataclasses import dataclass
from typing import Any

from fleet_lab.tinkerbell import patches, status
from fleet_lab.tinkerbell.kinds import Kind
from fleet_lab.tinkerbell.schema import Shape, fill_defaults, prune, violations
from fleet_lab.tinkerbell.status import Cause
from fleet_lab.tinkerbell.store import Json, Store, now_text

_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_LABEL = r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?"
_ALWAYS_KEPT = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds")
PATCH_TYPES = "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class Write:
    """How a write was asked for."""

    strict: bool = False
    """fieldValidation=Strict: an unknown field is refused instead of dropped."""
    warn: bool = True
    dry_run: bool = False
    subresource: bool = False
    """Whether the path ended in /status."""


@dataclass(frozen=True, slots=True)
class Written:
    """The stored object, and what was dropped on the way."""

    item: Json
    warnings: tuple[str, ...] = ()


def create(store: Store, kind: Kind, namespace: str, body: Json, how: Write) -> Written:
    """Store a new object. Raises ApiError 400, 409 AlreadyExists or 422."""
    item = copy.deepcopy(body)
    metadata = item.setdefault("metadata", {})
    name = metadata.get("name") or _generated(metadata)
    _check_kind(kind, item, name)
    if metadata.get("namespace", namespace) != namespace:
        raise status.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    metadata.update(name=name, namespace=namespace)
    if kind.has_status:
        item.pop("status", None)
    for key in (*_ALWAYS_KEPT, "resourceVersion"):
        metadata.pop(key, None)
    warnings = _clean(kind, item, how)
    _validate(kind, item)
    if store.get(kind, namespace, name) is not None:
        raise status.already_exists(kind.plural, kind.group, name)
    if how.dry_run:
        metadata.update(creationTimestamp=now_text(), generation=1, uid=str(uuid.uuid4()))
        return Written(item, warnings)
    return Written(store.add(kind, item), warnings)


def update(store: Store, kind: Kind, namespace: str, name: str, body: Json, how: Write) -> Written:
    """Replace an object, its resourceVersion guarding. Raises ApiError 404, 409 Conflict or 422."""
    before = _existing(store, kind, namespace, name)
    given = body.get("metadata", {})
    _check_kind(kind, body, name)
    if not given.get("resourceVersion"):
        cause = Cause(
            "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
        )
        raise status.invalid(kind.plural, kind.group, name, [cause])
    if given.get("uid", before["metadata"]["uid"]) != before["metadata"]["uid"]:
        raise status.conflict(kind.plural, kind.group, name, _uid_words(kind, before, given["uid"]))
    return _change(store, kind, before, copy.deepcopy(body), how)


def patch(store: Store, kind: Kind, namespace: str, name: str, content_type: str, body: Any, how: Write) -> Written:
    """Change an object by merge patch or JSON patch. Raises ApiError 404, 409, 415 or 422."""
    before = _existing(store, kind, namespace, name)
    base = copy.deepcopy(before)
    form = content_type.split(";", maxsplit=1)[0].strip()
    if form == "application/strategic-merge-patch+json" and not kind.group:
        form = "application/merge-patch+json"  # built-in kinds take both; for maps they are the same
    match form:
        case "application/merge-patch+json":
            asked_version = body.get("metadata", {}).get("resourceVersion") if isinstance(body, dict) else None
            changed = patches.merge(base, body)
            changed["metadata"]["resourceVersion"] = asked_version or before["metadata"]["resourceVersion"]
        case "application/json-patch+json":
            changed = patches.apply(base, body)
        case _:
            raise status.ApiError(
                415,
                "UnsupportedMediaType",
                f"the body of the request was in an unknown format - accepted media types include: {PATCH_TYPES}",
            )
    return _change(store, kind, before, changed, how)


def delete(store: Store, kind: Kind, namespace: str, name: str, options: Json) -> Json:
    """Delete an object, or mark it as terminating while it has finalizers; returns the answer's body."""
    item = _existing(store, kind, namespace, name)
    metadata = item["metadata"]
    wanted = options.get("preconditions") or {}
    if (uid := wanted.get("uid")) not in {None, metadata["uid"]}:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise status.conflict(kind.name, kind.group, name, why)
    if (version := wanted.get("resourceVersion")) not in {None, metadata["resourceVersion"]}:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({metadata['resourceVersion']}). The object might have been modified"
        )
        raise status.conflict(kind.name, kind.group, name, why)
    if metadata.get("finalizers"):
        if "deletionTimestamp" in metadata:
            return item
        going = copy.deepcopy(item)
        going["metadata"].update(deletionTimestamp=now_text(), deletionGracePeriodSeconds=0)
        going["metadata"]["generation"] = metadata.get("generation", 1) + 1
        return store.replace(kind, going)
    store.remove(kind, item)
    return status.deleted(kind.plural, kind.group, name, metadata["uid"])


def _change(store: Store, kind: Kind, before: Json, item: Json, how: Write) -> Written:
    name, namespace = before["metadata"]["name"], before["metadata"]["namespace"]
    metadata = item.setdefault("metadata", {})
    if metadata.get("resourceVersion") != before["metadata"]["resourceVersion"]:
        raise status.modified(kind.plural, kind.group, name)
    if how.subresource:
        given = {"status": item["status"]} if "status" in item else {}
        item = {**{key: value for key, value in copy.deepcopy(before).items() if key != "status"}, **given}
        metadata = item["metadata"]
    elif kind.has_status:
        item.pop("status", None)
        if "status" in before:
            item["status"] = copy.deepcopy(before["status"])
    for key in _ALWAYS_KEPT:
        metadata.pop(key, None)
        if key in before["metadata"]:
            metadata[key] = before["metadata"][key]
    metadata.update(name=name, namespace=namespace)
    item.setdefault("apiVersion", kind.api_version)
    item.setdefault("kind", kind.name)
    warnings = _clean(kind, item, how)
    _validate(kind, item)
    if how.dry_run:
        return Written(item, warnings)
    if "deletionTimestamp" in metadata and not metadata.get("finalizers"):
        store.remove(kind, before)
        return Written(item, warnings)
    return Written(store.replace(kind, item), warnings)


def _existing(store: Store, kind: Kind, namespace: str, name: str) -> Json:
    found = store.get(kind, namespace, name)
    if found is None:
        raise status.not_found(kind.plural, kind.group, name)
    return found


def _check_kind(kind: Kind, item: Json, name: str) -> None:
    given = item.get("kind", kind.name)
    if given != kind.name:
        shown = Cause("FieldValueInvalid", f'Invalid value: "{given}": must be {kind.name}', "kind")
        raise status.invalid(str(given), kind.group, name, [shown])


def _clean(kind: Kind, item: Json, how: Write) -> tuple[str, ...]:
    """Prune, fill defaults, and give a Secret its data; returns warnings."""
    metadata = item["metadata"]
    for key in ("labels", "annotations", "finalizers", "ownerReferences", "managedFields"):
        if key in metadata and not metadata[key]:
            del metadata[key]
    rest = {key: value for key, value in item.items() if key not in {"apiVersion", "kind", "metadata"}}
    dropped = [f'unknown field "{path}"' for path in prune(kind.shape, rest, "")]
    if dropped and how.strict:
        raise status.bad_request(
            f'{kind.name} in version "{kind.version}" cannot be handled as a {kind.name}: '
            f"strict decoding error: {', '.join(dropped)}"
        )
    fill_defaults(kind.shape, rest)
    if plain := rest.pop("stringData", None):
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in plain.items()}
        rest["data"] = {**rest.get("data", {}), **encoded}
    for key in set(item) - {"apiVersion", "kind", "metadata"}:
        del item[key]
    item.update(rest)
    item.setdefault("apiVersion", kind.api_version)
    item.setdefault("kind", kind.name)
    return tuple(dropped) if how.warn else ()


def _validate(kind: Kind, item: Json) -> None:
    name = item["metadata"]["name"]
    causes = [*_metadata_violations(item["metadata"])]
    rest = {key: value for key, value in item.items() if key not in {"apiVersion", "kind", "metadata"}}
    causes += violations(Shape("object", fields=kind.shape.fields), rest, "")
    if kind.has_rules and any(cause.reason == "FieldValueTypeInvalid" for cause in causes):
        words = (
            "Invalid value: null: some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation"
        )
        causes.append(Cause("FieldValueInvalid", words, "<nil>"))
    if causes:
        raise status.invalid(kind.name, kind.group, name, causes)


def _metadata_violations(metadata: Json) -> list[Cause]:
    causes = []
    name = metadata["name"]
    if not re.fullmatch(_SUBDOMAIN, name) or len(name) > 253:
        words = (
            f'Invalid value: "{name}": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric '
            "characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', "
            f"regex used for validation is '{_SUBDOMAIN}')"
        )
        causes.append(Cause("FieldValueInvalid", words, "metadata.name"))
    for value in (metadata.get("labels") or {}).values():
        if not re.fullmatch(_LABEL, str(value)):
            words = (
                f'Invalid value: "{value}": a valid label must be an empty string or consist of alphanumeric '
                "characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. "
                f"'MyValue',  or 'my_value',  or '12345', regex used for validation is '{_LABEL}')"
            )
            causes.append(Cause("FieldValueInvalid", words, "metadata.labels"))
        elif len(str(value)) > 63:
            causes.append(
                Cause(
                    "FieldValueInvalid", f'Invalid value: "{value}": must be no more than 63 bytes', "metadata.labels"
                )
            )
    return causes


def _generated(metadata: Json) -> str:
    prefix = metadata.get("generateName")
    if not prefix:
        raise status.ApiError(422, "Invalid", "resource name may not be empty")
    return str(prefix) + "".join(random.choices(string.ascii_lowercase + string.digits, k=5))  # noqa: S311


def _uid_words(kind: Kind, before: Json, uid: str) -> str:
    metadata = before["metadata"]
    key = f"/registry/{kind.group}/{kind.plural}/{metadata['namespace']}/{metadata['name']}"
    return (
        f"StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {uid}, UID in object meta: {metadata['uid']}"
    )
