"""What applying a file would do: every change, conflict and problem of every node at once; nothing is written."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from netbox_fleet.nodes.merge import Difference, Merge, merge
from netbox_fleet.nodes.present import Standing, standings
from netbox_fleet.nodes.references import References
from netbox_fleet.nodes.wire import Problem, parse

_NEEDED = ("site", "role", "device_type")


@dataclass(slots=True)
class Planned:
    """One node with its merge."""

    standing: Standing
    merge: Merge

    @property
    def name(self) -> str:
        """The node's name."""
        return self.standing.node.name

    @property
    def new(self) -> bool:
        """Whether the node has no machine yet."""
        return self.standing.machine is None

    @property
    def touched(self) -> bool:
        """Whether anything would be written."""
        return self.new or bool(self.merge.changes) or self.merge.applied != self.standing.applied


@dataclass(slots=True)
class Plan:
    """What applying would do."""

    references: References
    nodes: list[Planned] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    @property
    def conflicts(self) -> list[Difference]:
        """Every conflict of every node."""
        return [row for node in self.nodes for row in node.merge.conflicts]

    @property
    def refused(self) -> bool:
        """Whether nothing of it may be applied."""
        return bool(self.problems or self.conflicts)

    @property
    def touched(self) -> list[Planned]:
        """The nodes of which something would be written."""
        return [node for node in self.nodes if node.touched]

    def as_dict(self, outcome: str) -> dict[str, Any]:
        """Return the answer."""
        return {
            "outcome": outcome,
            "nodes": len(self.nodes),
            "created": [node.name for node in self.nodes if node.new],
            "changes": [row.as_dict() for row in self._rows()],
            "conflicts": [row.as_dict() for row in self.conflicts],
            "kept": [row.as_dict() for node in self.nodes for row in node.merge.kept],
            "problems": [problem.as_dict() for problem in self.problems],
        }

    def _rows(self) -> Iterator[Difference]:
        for node in self.nodes:
            yield from node.merge.changes


def plan(raw: Any, user: Any) -> Plan:
    """Merge the nodes of a body with what NetBox has, as this user sees it."""
    found = Plan(References(user))
    nodes, problems = parse(raw)
    found.problems += problems + found.references.spell(nodes)
    standing, problems = standings(nodes, user)
    found.problems += problems
    for one in standing:
        merged = merge(one.node.name, one.node.fields, one.applied, one.fields())
        found.nodes.append(Planned(one, merged))
        found.problems += _missing(one, found.references)
    return found


def _missing(one: Standing, references: References) -> Iterator[Problem]:
    fields = one.node.fields
    if one.device is None:
        for name in _NEEDED:
            if not fields.get(name):
                yield Problem(one.node.name, name, "A node that NetBox does not know yet needs it.")
    rack = fields.get("rack")
    site = fields.get("site") or (one.device.site.slug if one.device else "")
    if rack and site and references.rack(site, rack) is None:
        yield Problem(one.node.name, "rack", f"No rack, or more than one, is called {rack} at site {site}.")
