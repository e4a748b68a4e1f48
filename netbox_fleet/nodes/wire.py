"""The body of `nodes/` as nodes: each a name and flat fields in their one spelling; every error is named.

Fields: `site`, `bmc.address`, `interfaces.eth0.mac`. A value that is null, empty or false empties the field.
"""

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from netbox_fleet.models.machine import DNS_LABEL, folded

MOST_NODES = 5_000
_MOST_TEXT = 200
_MOST_PARTS = 64
_CONTROLS = re.compile(r"[\x00-\x1f\x7f\ud800-\udfff]")
_MAC = re.compile(r"[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a node cannot be applied."""

    node: str
    field: str
    message: str

    def as_dict(self) -> dict[str, str]:
        """Return the row of the answer."""
        return {"node": self.node, "field": self.field, "message": self.message}


@dataclass(slots=True)
class Node:
    """One node of the file."""

    name: str
    fields: dict[str, Any] = field(default_factory=dict)


class BadValueError(ValueError):
    """A value has not the shape of its field."""


def parse(raw: Any) -> tuple[list[Node], list[Problem]]:
    """Return the nodes that could be read, and everything that is wrong with the others."""
    problems: list[Problem] = []
    if not isinstance(raw, list) or len(raw) > MOST_NODES:
        return [], [Problem("", "nodes", f"Must be a list of at most {MOST_NODES} nodes.")]
    nodes = [node for index, row in enumerate(raw) if (node := _node(index, row, problems)) is not None]
    return nodes, [*problems, *_repeats(nodes)]


def _node(index: int, row: Any, problems: list[Problem]) -> Node | None:
    name = row.get("name") if isinstance(row, Mapping) else None
    if not isinstance(name, str) or not DNS_LABEL.fullmatch(name):
        shown = f"nodes[{index}]"
        problems.append(
            Problem(shown, "name", "Must be a DNS label: lower-case letters, digits and hyphens, at most 63.")
        )
        return None
    node = Node(name)
    for key, value in row.items():
        if key != "name":
            _read(node, str(key), value, problems)
    return node


def _read(node: Node, key: str, value: Any, problems: list[Problem]) -> None:
    if key == "bmc":
        _read_group(node, "bmc", value, BMC, problems)
    elif key == "interfaces":
        if not isinstance(value, Mapping) or len(value) > _MOST_PARTS:
            problems.append(Problem(node.name, key, "Must be an object: interface name to its fields."))
            return
        for name, parts in value.items():
            if not isinstance(name, str) or not 0 < len(name) <= _MOST_PARTS or _CONTROLS.search(name):
                problems.append(Problem(node.name, key, f"Not a name of an interface: {str(name)[:40]!r}"))
                continue
            _read_group(node, f"interfaces.{name}", parts, INTERFACE, problems)
    elif key in SCALARS:
        _take(node, key, value, SCALARS[key], problems)
    else:
        problems.append(Problem(node.name, key[:_MOST_TEXT], "No such field."))


def _read_group(
    node: Node, prefix: str, parts: Any, known: Mapping[str, Callable[[Any], Any]], problems: list[Problem]
) -> None:
    if not isinstance(parts, Mapping):
        problems.append(Problem(node.name, prefix, "Must be an object."))
        return
    for key, value in parts.items():
        if key in known:
            _take(node, f"{prefix}.{key}", value, known[key], problems)
        else:
            problems.append(Problem(node.name, f"{prefix}.{str(key)[:40]}", "No such field."))


def _take(node: Node, name: str, value: Any, read: Callable[[Any], Any], problems: list[Problem]) -> None:
    try:
        node.fields[name] = None if value is None else read(value)
    except BadValueError as problem:
        problems.append(Problem(node.name, name, str(problem)))


def _text(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadValueError("Must be a text.")
    text = str(value).strip()
    if len(text) > _MOST_TEXT or _CONTROLS.search(text):
        raise BadValueError(f"Must be a text of at most {_MOST_TEXT} characters without control characters.")
    return text or None


def _serial(value: Any) -> str | None:
    text = _text(value)
    return folded(text) if text else None


def _serials(value: Any) -> list[str] | None:
    return sorted({found for item in _list(value) if (found := _serial(item))}) or None


def _position(value: Any) -> float | None:
    try:
        found = float(_text(value) or "nan") if not isinstance(value, float) else value
    except ValueError:
        found = 0.0
    if not 1 <= found <= 1000 or found * 2 != int(found * 2):
        raise BadValueError("Must be a rack unit, whole or half.")
    return found


def _face(value: Any) -> str | None:
    text = _text(value)
    if text not in {None, "front", "rear"}:
        raise BadValueError("Must be front or rear.")
    return text


def _mac(value: Any) -> str | None:
    text = _text(value)
    digits = re.sub(r"[:.\-]", "", (text or "").lower())
    if text and not _MAC.fullmatch(digits):
        raise BadValueError(f"Not a MAC address: {text[:40]!r}")
    return ":".join(digits[at : at + 2] for at in range(0, 12, 2)) if text else None


def _address(value: Any) -> str:
    text = _text(value)
    if not text or "/" not in text:
        raise BadValueError("Must be addresses with their prefix length, as 192.0.2.4/24.")
    try:
        return str(ipaddress.ip_interface(text))
    except ValueError as problem:
        raise BadValueError(f"Not an address: {text[:60]!r}") from problem


def _addresses(value: Any) -> list[str] | None:
    return sorted({_address(item) for item in _list(value)}) or None


def _primary(version: int) -> Callable[[Any], str | None]:
    def read(value: Any) -> str | None:
        if value == "":
            return None
        found = _address(value)
        if ipaddress.ip_interface(found).version != version:
            raise BadValueError(f"Not an IPv{version} address: {found}")
        return found

    return read


def _flag(value: Any) -> bool | None:
    if not isinstance(value, bool):
        raise BadValueError("Must be true or false.")
    return value or None


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list) or len(value) > _MOST_PARTS:
        raise BadValueError(f"Must be a list of at most {_MOST_PARTS}.")
    return value


SCALARS: dict[str, Callable[[Any], Any]] = {
    "site": _text,
    "rack": _text,
    "position": _position,
    "face": _face,
    "role": _text,
    "device_type": _text,
    "class": _text,
    "serial": _text,
    "disk_serial": _serial,
    "disk_wwn": _serial,
    "extra_disks": _serials,
    "firmware": _text,
    "primary_ip4": _primary(4),
    "primary_ip6": _primary(6),
}
BMC: dict[str, Callable[[Any], Any]] = {"address": _text, "secret": _text}
INTERFACE: dict[str, Callable[[Any], Any]] = {
    "mac": _mac,
    "addresses": _addresses,
    "type": _text,
    "mgmt_only": _flag,
}


def interface_part(name: str) -> tuple[str, str]:
    """Split `interfaces.NAME.PART`; an interface's name may hold dots. Empty for another field."""
    if not name.startswith("interfaces."):
        return "", ""
    interface, _, part = name.removeprefix("interfaces.").rpartition(".")
    return interface, part


def _repeats(nodes: list[Node]) -> list[Problem]:
    """Name what two nodes cannot both have."""
    found: list[Problem] = []
    names: set[str] = set()
    owners: dict[tuple[str, str], str] = {}
    for node in nodes:
        if node.name in names:
            found.append(Problem(node.name, "name", "The node stands twice in the file."))
        names.add(node.name)
        for key, value in node.fields.items():
            for kind, word in _unique_words(key, value):
                # Interfaces of one bond share a MAC; an address stands once.
                place = node.name if kind == "mac" else f"{node.name} {key}"
                owner = owners.setdefault((kind, word), place)
                if owner != place:
                    found.append(Problem(node.name, key, f"{word} stands at {owner} already."))
    return found


def _unique_words(key: str, value: Any) -> list[tuple[str, str]]:
    _, part = interface_part(key)
    if part == "mac" and value:
        return [("mac", value)]
    if part == "addresses" and value:
        return [("address", str(ipaddress.ip_interface(word).ip)) for word in value]
    return []
