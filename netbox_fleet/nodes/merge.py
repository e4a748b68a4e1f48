"""The three-way merge of one node: the file, what was last applied of it, and NetBox as it is. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Value = Any
"""A JSON value in its one spelling; None is empty."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of one node in which two sides differ."""

    node: str
    field: str
    file: Value
    netbox: Value
    applied: Value = None
    """What the file said when it was last applied; None where it never said anything."""

    def as_dict(self) -> dict[str, Value]:
        """Return the row of the answer."""
        names = ("node", "field", "file", "netbox", "applied")
        return {name: getattr(self, name) for name in names}


@dataclass(slots=True)
class Merge:
    """What the merge of a node says."""

    changes: list[Difference] = field(default_factory=list)
    """Written to NetBox: only the file changed since it was last applied."""
    conflicts: list[Difference] = field(default_factory=list)
    """Both changed, to different values: a person decides."""
    kept: list[Difference] = field(default_factory=list)
    """Only NetBox changed: its value stays."""
    applied: dict[str, Value] = field(default_factory=dict)
    """What to remember as last applied."""


def merge(node: str, file: Mapping[str, Value], applied: Mapping[str, Value], netbox: Mapping[str, Value]) -> Merge:
    """Merge one node. A field that the file does not name is not touched and stays remembered.

    Where the file was never applied, an empty field of NetBox is filled; any other difference is a conflict, since
    nothing tells which side is newer.
    """
    found = Merge(applied=dict(applied))
    for name, wanted in file.items():
        present, before = netbox.get(name), applied.get(name)
        difference = Difference(node, name, wanted, present, before)
        if wanted == present:
            found.applied[name] = wanted
        elif present == before:
            found.changes.append(difference)
            found.applied[name] = wanted
        elif name in applied and wanted == before:
            found.kept.append(difference)
        else:
            found.conflicts.append(difference)
    return found
