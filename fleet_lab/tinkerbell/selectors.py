"""Label and field selectors, as query parameters spell them."""

import re
from collections.abc import Callable
from typing import Any

from fleet_lab.tinkerbell.status import bad_request

Matcher = Callable[[dict[str, Any]], bool]

_SET = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s+(?P<op>in|notin)\s*\((?P<values>[^)]*)\)\s*$")
_EQUAL = re.compile(r"^\s*(?P<key>[^\s!=,()]+)\s*(?P<op>==|=|!=)\s*(?P<value>[^\s!=,()]*)\s*$")
_EXISTS = re.compile(r"^\s*(?P<absent>!?)\s*(?P<key>[^\s!=,()]+)\s*$")


def everything(_item: dict[str, Any]) -> bool:
    """Match any object."""
    return True


def by_labels(selector: str) -> Matcher:
    """Return the matcher of a labelSelector; raises ApiError 400 when it cannot be parsed."""
    requirements = [_requirement(part) for part in re.split(r",(?![^(]*\))", selector) if part.strip()]

    def matches(item: dict[str, Any]) -> bool:
        labels = item["metadata"].get("labels") or {}
        return all(requirement(labels) for requirement in requirements)

    return matches


def by_fields(selector: str) -> Matcher:
    """Return the matcher of a fieldSelector; only metadata.name and metadata.namespace are supported."""
    wanted: list[tuple[str, str, bool]] = []
    for part in filter(None, selector.split(",")):
        key, negated, value = _field(part)
        if key not in {"metadata.name", "metadata.namespace"}:
            raise bad_request(f"field label not supported: {key}")
        wanted.append((key.removeprefix("metadata."), value, negated))

    def matches(item: dict[str, Any]) -> bool:
        return all((item["metadata"].get(key) == value) is not negated for key, value, negated in wanted)

    return matches


def _field(part: str) -> tuple[str, bool, str]:
    for operator, negated in (("!=", True), ("==", False), ("=", False)):
        if operator in part:
            key, value = part.split(operator, 1)
            return key.strip(), negated, value.strip()
    raise bad_request(f"invalid selector: '{part}'; can't understand '{part}'")


def _requirement(part: str) -> Callable[[dict[str, str]], bool]:
    if found := _SET.match(part):
        key, values = found["key"], {value.strip() for value in found["values"].split(",")}
        if found["op"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(part):
        key, value = found["key"], found["value"]
        if found["op"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _EXISTS.match(part):
        key = found["key"]
        if found["absent"]:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    if re.search(r"\s(in|notin)\s*$", part):
        raise bad_request("unable to parse requirement: found '' expected: '('")
    raise bad_request(f"unable to parse requirement: {part!r}")
