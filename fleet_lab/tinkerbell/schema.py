"""A small structural schema: types, required fields, patterns, defaults, and pruning of what it does not name."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleet_lab.tinkerbell.status import Cause

_PYTHON = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}


@dataclass(frozen=True, slots=True)
class Shape:
    """What a value must look like. An object has named `fields` or free keys whose values are `values`."""

    type: str
    fields: Mapping[str, "Shape"] = field(default_factory=dict)
    values: "Shape | None" = None
    items: "Shape | None" = None
    required: tuple[str, ...] = ()
    pattern: str | None = None
    enum: tuple[str, ...] = ()
    default: Any = None
    min_length: int = 0
    min_items: int = 0
    max_properties: int | None = None
    open: bool = False
    """Whether unknown keys of this object are kept."""


def text(
    pattern: str | None = None, enum: tuple[str, ...] = (), min_length: int = 0, default: str | None = None
) -> Shape:
    """Return the shape of a string."""
    return Shape("string", pattern=pattern, enum=enum, min_length=min_length, default=default)


def number(default: int | None = None) -> Shape:
    """Return the shape of an integer."""
    return Shape("integer", default=default)


def flag(default: bool | None = None) -> Shape:
    """Return the shape of a boolean."""
    return Shape("boolean", default=default)


def many(items: Shape, at_least: int = 0) -> Shape:
    """Return the shape of a list."""
    return Shape("array", items=items, min_items=at_least)


def mapping(values: Shape) -> Shape:
    """Return the shape of an object with free keys."""
    return Shape("object", values=values)


def record(fields: Mapping[str, Shape], required: tuple[str, ...] = (), at_most: int | None = None) -> Shape:
    """Return the shape of an object with named keys."""
    return Shape("object", fields=fields, required=required, max_properties=at_most)


def anything() -> Shape:
    """Return the shape of an object whose inside is not looked at."""
    return Shape("object", open=True)


def prune(shape: Shape, value: Any, path: str) -> Iterator[str]:
    """Remove keys that the shape does not name, in place; yield their paths."""
    if shape.type == "array" and isinstance(value, list) and shape.items is not None:
        for index, item in enumerate(value):
            yield from prune(shape.items, item, f"{path}[{index}]")
    if shape.type != "object" or not isinstance(value, dict) or shape.open:
        return
    for key in sorted(value):
        inner = shape.fields.get(key, shape.values)
        if inner is None:
            del value[key]
            yield _under(path, key)
        else:
            yield from prune(inner, value[key], _under(path, key))


def fill_defaults(shape: Shape, value: Any) -> None:
    """Add defaults to objects that are present, in place."""
    if isinstance(value, list) and shape.items is not None:
        for item in value:
            fill_defaults(shape.items, item)
    if not isinstance(value, dict):
        return
    for key, inner in shape.fields.items():
        if key not in value and inner.default is not None:
            value[key] = inner.default
        if key in value:
            fill_defaults(inner, value[key])


def violations(shape: Shape, value: Any, path: str) -> Iterator[Cause]:
    """Yield what is wrong with the value, fields in alphabetical order."""
    expected = _PYTHON[shape.type]
    if not isinstance(value, expected) or (shape.type == "integer" and isinstance(value, bool)):
        found = _type_name(value)
        yield Cause(
            "FieldValueTypeInvalid",
            f'Invalid value: "{found}": {path} in body must be of type {shape.type}: "{found}"',
            path,
        )
        return
    match value:
        case str():
            yield from _text_violations(shape, value, path)
        case list():
            yield from _list_violations(shape, value, path)
        case dict():
            yield from _object_violations(shape, value, path)


def _text_violations(shape: Shape, value: str, path: str) -> Iterator[Cause]:
    shown = json.dumps(value, ensure_ascii=False)
    if shape.enum and value not in shape.enum:
        supported = ", ".join(f'"{choice}"' for choice in shape.enum)
        yield Cause("FieldValueNotSupported", f"Unsupported value: {shown}: supported values: {supported}", path)
    if shape.pattern is not None and not re.search(shape.pattern, value):
        yield Cause("FieldValueInvalid", f"Invalid value: {shown}: {path} in body should match '{shape.pattern}'", path)
    if len(value) < shape.min_length:
        yield Cause(
            "FieldValueInvalid",
            f"Invalid value: {shown}: {path} in body should be at least {shape.min_length} chars long",
            path,
        )


def _list_violations(shape: Shape, value: list[Any], path: str) -> Iterator[Cause]:
    if len(value) < shape.min_items:
        yield Cause(
            "FieldValueInvalid",
            f"Invalid value: {len(value)}: {path} in body should have at least {shape.min_items} items",
            path,
        )
    if shape.items is not None:
        for index, item in enumerate(value):
            yield from violations(shape.items, item, f"{path}[{index}]")


def _object_violations(shape: Shape, value: dict[str, Any], path: str) -> Iterator[Cause]:
    if shape.max_properties is not None and len(value) > shape.max_properties:
        limit = shape.max_properties
        noun = "item" if limit == 1 else "items"
        yield Cause("FieldValueTooMany", f"Too many: {len(value)}: must have at most {limit} {noun}", path)
    for key in shape.required:
        if key not in value:
            yield Cause("FieldValueRequired", "Required value", _under(path, key))
    for key in sorted(value):
        inner = shape.fields.get(key, shape.values)
        if inner is not None:
            yield from violations(inner, value[key], _under(path, key))


def _under(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _type_name(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for name, python in _PYTHON.items():
        if isinstance(value, python):
            return name
    return "number"
