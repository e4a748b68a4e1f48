"""Text and JSON from machines, made safe to keep: no characters that mislead or break a store, and bounded in size.

What is stored is never trusted again either: pages escape it.
"""

import json
from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from netbox_fleet.plain_text import clean_text

MOST_FINDINGS = 100
MOST_STEPS = 50
MOST_JSON_BYTES = 128 * 1024
MOST_DEPTH = 12
_DRIFT = ("field", "declared", "reported")
_TEXT = {"type": "string"}
_OBJECT = {"type": "object", "additionalProperties": {}}


def _rows(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": {**_OBJECT, "properties": properties} if properties else {}}


def clean_json(value: Any, depth: int = 0) -> Any:
    """Return the value with all its texts cleaned. Raises ValueError where it is too deep or no JSON."""
    if depth > MOST_DEPTH:
        raise ValueError("nested too deep")
    match value:
        case str():
            return clean_text(value)
        case dict():
            return {clean_text(str(key))[:200]: clean_json(part, depth + 1) for key, part in value.items()}
        case list():
            return [clean_json(part, depth + 1) for part in value]
        case bool() | int() | None:
            return value
        case float() if value == value and abs(value) != float("inf"):  # noqa: PLR0124 - tells a NaN
            return value
    raise ValueError("not a JSON value")


class CleanCharField(serializers.CharField):
    """Text of at most `max_length` characters; a longer one is cut, since the service must not fail over words."""

    def __init__(self, max_length: int, **kwargs: Any) -> None:
        self._most = max_length
        super().__init__(allow_blank=True, required=False, **kwargs)

    def run_validation(self, data: Any = serializers.empty) -> Any:
        if data is None:
            data = ""
        if isinstance(data, str):
            data = clean_text(data)[: self._most]
        return super().run_validation(data)


class CleanJSONField(serializers.Field):
    """JSON of a certain kind, at most 128 KiB; `said` is what the OpenAPI document says of it, where that is more."""

    def __init__(self, kind: type, most: int | None = None, said: dict[str, Any] | None = None, **kwargs: Any) -> None:
        self._kind = kind
        self._most = most
        super().__init__(required=False, **kwargs)
        extend_schema_field(said or (_OBJECT if kind is dict else _rows({})))(self)

    def to_internal_value(self, data: Any) -> Any:
        if not isinstance(data, self._kind):
            raise serializers.ValidationError(f"Must be a JSON {'object' if self._kind is dict else 'list'}.")
        if self._most is not None and isinstance(data, list):
            data = data[: self._most]
        try:
            cleaned = clean_json(data)
        except (ValueError, RecursionError) as problem:
            raise serializers.ValidationError(str(problem)) from problem
        if len(json.dumps(cleaned)) > MOST_JSON_BYTES:
            raise serializers.ValidationError(f"Larger than {MOST_JSON_BYTES} bytes.")
        return cleaned

    def to_representation(self, value: Any) -> Any:
        return value


class FindingsField(CleanJSONField):
    """A list of findings: objects of code, severity, message, next_step and evidence."""

    def __init__(self, **kwargs: Any) -> None:
        said = _rows({**dict.fromkeys(("code", "severity", "message", "next_step"), _TEXT), "evidence": _OBJECT})
        super().__init__(list, MOST_FINDINGS, said, **kwargs)

    def to_internal_value(self, data: Any) -> Any:
        found = super().to_internal_value(data)
        if not all(isinstance(finding, dict) for finding in found):
            raise serializers.ValidationError("Each finding is a JSON object.")
        return [
            {
                "code": str(finding.get("code", ""))[:100],
                "severity": str(finding.get("severity", ""))[:20],
                "message": str(finding.get("message", ""))[:1000],
                "next_step": str(finding.get("next_step", ""))[:1000],
                **({"evidence": finding["evidence"]} if isinstance(finding.get("evidence"), dict) else {}),
            }
            for finding in found
        ]


class DriftField(CleanJSONField):
    """Rows of field, declared and reported: where a machine's hardware is not what is declared."""

    def __init__(self, **kwargs: Any) -> None:
        said = _rows(dict.fromkeys(_DRIFT, _TEXT))
        super().__init__(list, MOST_FINDINGS, said, **kwargs)

    def to_internal_value(self, data: Any) -> Any:
        found = super().to_internal_value(data)
        if not all(isinstance(row, dict) for row in found):
            raise serializers.ValidationError("Each difference is a JSON object.")
        return [{name: str(row.get(name, ""))[:500] for name in _DRIFT} for row in found]
