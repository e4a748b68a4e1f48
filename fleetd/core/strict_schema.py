"""JSON Schema without what Python lets pass: the owner's files mean here what every other reader of the schema makes of them.

Python's `$` also matches before a last newline, its numbers may be no number, its whole numbers may be written as 1.0
or have a thousand digits, and its texts may hold what neither PostgreSQL nor UTF-8 can.
"""

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.validators import extend

MOST_PROBLEMS = 50
DEEPEST = 32
LARGEST = 2**63 - 1
_UNKEEPABLE = re.compile("[\0\ud800-\udfff]")


def problems(schema: Mapping[str, Any], document: Any) -> list[tuple[str, str]]:
    """Return path and message of everything that is wrong, at most MOST_PROBLEMS and a last one that counts the rest."""
    found = list(_values("$", document, 0))
    if not found:
        errors = _Validator(schema).iter_errors(document)
        found = [(_path(error.absolute_path), _words(error)[:300]) for error in errors]
    kept, left = [(_printable(path), words) for path, words in found[:MOST_PROBLEMS]], len(found) - MOST_PROBLEMS
    return [*kept, ("$", f"{left} more of such problems")] if left > 0 else kept


def _path(parts: Iterable[str | int]) -> str:
    return "$" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)


def _printable(path: str) -> str:
    """Return a path whose keys, which the file chose, cannot draw on a terminal."""
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in path)


def _words(error: ValidationError) -> str:
    """Say what is wrong in words for who wrote the file."""
    value: Any = error.instance
    wanted: Any = error.validator_value
    rules: Any = error.schema
    match error.validator:
        case "additionalProperties" if wanted is False:
            known = sorted(rules.get("properties", {}))
            return "; ".join(_unknown(key, known) for key in value if key not in known)
        case "type":
            kinds = [wanted] if isinstance(wanted, str) else wanted
            is_not = _KINDS.get(type(value).__name__, type(value).__name__)
            return f"must be {' or '.join(_KINDS.get(kind, kind) for kind in kinds)}, and is {is_not}"
        case "maxLength":
            return f"has {len(value)} characters, more than {wanted}"
        case "pattern" if "description" in rules:
            return f"{error.message}: {rules['description']}"
    return str(error.message)


def _unknown(key: str, known: list[str]) -> str:
    near = get_close_matches(key, known, 1)
    return f"no such field: {key[:60]!r}" + (f" (is {near[0]!r} meant?)" if near else "")


_KINDS = {
    **dict.fromkeys(("string", "str"), "a text"),
    **dict.fromkeys(("array", "list"), "a list"),
    **dict.fromkeys(("object", "dict"), "an object"),
    **dict.fromkeys(("boolean", "bool"), "true or false"),
    **dict.fromkeys(("integer", "int"), "a whole number"),
    **dict.fromkeys(("number", "float"), "a number"),
    **dict.fromkeys(("null", "NoneType"), "nothing"),
}
"""What JSON Schema and Python call the kinds of value."""


def _values(path: str, value: Any, depth: int) -> Iterator[tuple[str, str]]:
    """Name the values that could not be kept, stored or counted with, whatever the schema says of them."""
    if depth > DEEPEST:
        yield path, f"is nested more than {DEEPEST} levels deep"
    elif isinstance(value, str):
        if _UNKEEPABLE.search(value):
            yield path, "holds a NUL or half a character, which no database keeps"
    elif isinstance(value, dict):
        for key, inside in value.items():
            yield from _values(path, str(key), depth)
            yield from _values(f"{path}.{str(key)[:100]}", inside, depth + 1)
    elif isinstance(value, list):
        for index, inside in enumerate(value):
            yield from _values(f"{path}[{index}]", inside, depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        yield path, "is no number"
    elif isinstance(value, int) and abs(value) > LARGEST:
        yield path, "is too large a number"


def _is_integer(_checker: Any, value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _pattern(_validator: Any, pattern: str, value: Any, _schema: Any) -> Iterator[ValidationError]:
    # `$` is the end of the text in JSON Schema (ECMA 262), which Python writes `\Z`.
    if isinstance(value, str) and not re.search(re.sub(r"\$$", r"\\Z", pattern), value):
        yield ValidationError(f"{value[:200]!r} does not match {pattern!r}")


_Validator = extend(  # type: ignore[no-untyped-call]
    Draft202012Validator,
    {"pattern": _pattern},
    type_checker=Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer),
)
