"""Frozen dataclasses to JSON values and back, so that a stored value reads as what it was."""

import types
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, NewType, Union, get_args, get_origin, get_type_hints
from uuid import UUID


def to_record(value: Any) -> Any:
    """Return the JSON form of a value made of dataclasses, tuples, enums, UUIDs, times and JSON's own types."""
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_record(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, tuple | list):
        return [to_record(item) for item in value]
    if isinstance(value, dict):
        return {str(key): to_record(item) for key, item in value.items()}
    return value


def from_record(kind: Any, record: Any) -> Any:
    """Return the value of type `kind` that `to_record` was given; fields that are absent take their defaults.

    Raises TypeError, ValueError or KeyError when the record is not of that shape.
    """
    while isinstance(kind, NewType):
        kind = kind.__supertype__
    origin = get_origin(kind)
    if origin in {Union, types.UnionType}:
        return None if record is None else from_record(_not_none(kind), record)
    if origin is tuple:
        (item, *_) = get_args(kind)
        return tuple(from_record(item, element) for element in record)
    if is_dataclass(kind) and isinstance(kind, type):
        hints = _hints(kind)
        return kind(**{name: from_record(hints[name], value) for name, value in record.items() if name in hints})
    if kind is datetime:
        return datetime.fromisoformat(record)
    if kind is UUID or (isinstance(kind, type) and issubclass(kind, Enum)):
        return kind(record)
    return record


@cache
def _hints(kind: type) -> dict[str, Any]:
    """Return the type of each field that the dataclass is made with; to work them out takes longer than to read a record."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind) if field.init}


def _not_none(kind: Any) -> Any:
    (single,) = [option for option in get_args(kind) if option is not types.NoneType]
    return single
