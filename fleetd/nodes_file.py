"""The owner's file of nodes on disk, YAML or CSV, as the list that NetBox merges."""

import csv
import io
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from fleetd.core.node_schema import INTERFACE_FIELDS, NODE_FIELDS, NODES_SCHEMA
from fleetd.core.strict_schema import problems

MAX_FILE = 16 << 20
CLEAR = "-"
"""A cell of CSV that empties its field; an empty cell leaves the field alone."""
_LISTS = frozenset({"extra_disks", "addresses"})
_FLAGS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class NodesFileError(ValueError):
    """The file cannot be used; `errors` names everything that is wrong, by path or line in it, without the file's name."""

    def __init__(self, errors: tuple[str, ...]) -> None:
        super().__init__("; ".join(errors))
        self.errors = errors


def read_nodes(path: Path) -> list[dict[str, Any]]:
    """Read the file: CSV where its name ends in `.csv`, YAML (or JSON) otherwise.

    Raises NodesFileError with every error.
    """
    try:
        with path.open("rb") as stream:
            raw = stream.read(MAX_FILE + 1)
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise NodesFileError((error.strerror or "cannot be read",)) from error
    except UnicodeDecodeError as error:
        raise NodesFileError(("not UTF-8 text",)) from error
    if len(raw) > MAX_FILE:
        raise NodesFileError((f"larger than {MAX_FILE} bytes",))
    document: Any = {"nodes": _rows(text)} if path.suffix.lower() == ".csv" else _yaml(text)
    if document is None:
        raise NodesFileError(("the file is empty: it needs `nodes:` and a list",))
    errors = [f"{_said_of(where, document)}: {what}" for where, what in problems(NODES_SCHEMA, document)]
    if errors:
        raise NodesFileError(tuple(errors))
    nodes = [_with_defaults(document.get("defaults") or {}, node) for node in document["nodes"]]
    _refuse_repeats(nodes)
    return nodes


def _said_of(path: str, document: Any) -> str:
    """Return the path with the node's own name beside its number, where it has one."""
    found = re.match(r"\$\.nodes\[(\d+)\]", path)
    node = document["nodes"][int(found[1])] if found else None
    name = node.get("name") if isinstance(node, dict) else None
    return f"{path} ({name[:63]!r})" if isinstance(name, str) else path


def _with_defaults(defaults: Mapping[str, Any], node: Mapping[str, Any]) -> dict[str, Any]:
    merged = {**defaults, **node}
    if "bmc" in defaults and "bmc" in node:
        merged["bmc"] = {**defaults["bmc"], **node["bmc"]}
    return merged


def _refuse_repeats(nodes: list[dict[str, Any]]) -> None:
    seen: set[str] = set()
    twice = []
    for index, node in enumerate(nodes):
        if node["name"] in seen:
            twice.append(f"$.nodes[{index}].name: {node['name']} stands twice")
        seen.add(node["name"])
    if twice:
        raise NodesFileError(tuple(twice))


# --- YAML ---------------------------------------------------------------------------------------------------------------


class _Loader(yaml.SafeLoader):
    """YAML whose mappings hold each key once, and in which only what looks like JSON is a number or a flag."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Return the mapping. Raises ConstructorError where a key stands twice."""
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                continue
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str):
                raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} is no text", key_node.start_mark)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


# Serials as 0123 and 1e5, and MACs as 52:54:00:12:34:56, are texts; YAML 1.1 would make numbers of them.
_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, expression) for tag, expression in rules if tag in {"tag:yaml.org,2002:null", "tag:yaml.org,2002:merge"}
    ]
    for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|false)$"), list("tf"))


_PLAIN = frozenset(f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "str", "seq", "map", "merge"))
_FLAG = "tag:yaml.org,2002:bool"
_MOST_VALUES = 2_000_000
"""Values that a file may have when its aliases are written out; 5,000 nodes with all fields have 300,000."""


def _yaml(text: str) -> Any:
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
            if root is None:
                return None
            _count(root, {})
            return loader.construct_document(root)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise NodesFileError((f"{line}not YAML as it is read here: {error.problem or error.context}",)) from error
    except RecursionError as error:
        raise NodesFileError(("not YAML as it is read here: nested too deep",)) from error
    except (yaml.YAMLError, ValueError) as error:
        raise NodesFileError((f"not YAML as it is read here: {' '.join(str(error).split())}",)) from error


def _count(node: yaml.Node, known: dict[yaml.Node, int]) -> int:
    """Return how many values a node has with its aliases written out: a few lines of aliases can say millions.

    Raises ComposerError for too many, for a node inside itself, and for a tag that asks for more than text.
    """
    if node.tag not in _PLAIN or (node.tag == _FLAG and node.value not in _FLAGS):
        raise yaml.composer.ComposerError(
            None, None, f"the tag {node.tag[:60]!r} has no place here, or not this value", node.start_mark
        )
    if node in known:
        if not known[node]:
            raise yaml.composer.ComposerError(None, None, "an alias stands inside what it names", node.start_mark)
        return known[node]
    known[node] = 0
    match node:
        case yaml.MappingNode():
            inside = sum(_count(key, known) + _count(value, known) for key, value in node.value)
        case yaml.SequenceNode():
            inside = sum(_count(value, known) for value in node.value)
        case _:
            inside = 0
    if inside > _MOST_VALUES:
        raise yaml.composer.ComposerError(
            None, None, f"its aliases make more than {_MOST_VALUES} values of it", node.start_mark
        )
    known[node] = inside + 1
    return known[node]


# --- CSV ----------------------------------------------------------------------------------------------------------------


def _rows(text: str) -> list[dict[str, Any]]:
    """Read rows with the fields as columns: `bmc.address`, `interfaces.eth0.mac`; lists are separated by spaces."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    nodes: list[dict[str, Any]] = []
    errors: list[str] = []
    try:
        header = [column.strip() for column in next(reader, [])]
        errors += _bad_columns(header)
        for cells in reader:
            line = reader.line_num
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                errors.append(f"line {line}: {len(cells)} cells where the header has {len(header)}")
            elif not errors:
                nodes.append(_row(header, cells, line, errors))
    except csv.Error as error:
        errors.append(f"line {reader.line_num}: not CSV: {error}")
    if errors:
        raise NodesFileError(tuple(errors))
    return nodes


def _bad_columns(header: list[str]) -> Iterator[str]:
    if "name" not in header:
        yield "line 1: no column `name`"
    for column in header:
        if header.count(column) > 1:
            yield f"line 1: the column {column!r} stands twice"
        elif _place(column) is None:
            yield f"line 1: no such field: {column!r}"


def _place(column: str) -> tuple[str, ...] | None:
    """Return where a column's value goes; an interface's name may hold dots."""
    group, _, rest = column.partition(".")
    if group == "interfaces":
        name, _, part = rest.rpartition(".")
        return (group, name, part) if name and part in INTERFACE_FIELDS else None
    if group == "bmc":
        return (group, rest) if rest in NODE_FIELDS["bmc"]["properties"] else None
    return (column,) if column in NODE_FIELDS else None


def _row(header: list[str], cells: list[str], line: int, errors: list[str]) -> dict[str, Any]:
    node: dict[str, Any] = {}
    for column, cell in zip(header, cells, strict=True):
        text, place = cell.strip(), _place(column)
        if not text or place is None:
            continue
        *groups, last = place
        inside = node
        for group in groups:
            inside = inside.setdefault(group, {})
        if last == "mgmt_only" and text != CLEAR and text.lower() not in _FLAGS:
            errors.append(f"line {line}: {column}: neither true nor false: {text[:40]!r}")
            continue
        inside[last] = _value(last, text)
    return node


def _value(name: str, text: str) -> Any:
    if text == CLEAR:
        return None
    if name in _LISTS:
        return text.split()
    return _FLAGS[text.lower()] if name == "mgmt_only" else text
