"""A JSON Schema as a table of its fields in Markdown."""

from collections.abc import Iterator, Mapping
from typing import Any


def table(schema: Mapping[str, Any], prefix: str = "") -> list[str]:
    """Return the fields of an object, with those of the objects in it, one a row; required ones are marked."""
    return ["| field | value | |", "| --- | --- | --- |", *_rows(schema, prefix)]


def _rows(schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema.get("properties", {}).items():
        path = f"{prefix}{name}"
        needed = " (required)" if name in required else ""
        described = " ".join(str(field.get("description", "")).split())
        yield f"| `{path}`{needed} | {_value(field)} | {described} |"
        inner = field.get("items", field) if field.get("type") == "array" else field
        if inner.get("properties"):
            yield from _rows(inner, f"{path}[]." if inner is not field else f"{path}.")
        further = field.get("additionalProperties")
        if isinstance(further, Mapping) and further.get("properties"):
            yield from _rows(further, f"{path}.NAME.")


def _value(field: Mapping[str, Any]) -> str:
    if "enum" in field:
        return " or ".join(f"`{choice}`" for choice in field["enum"])
    if "const" in field:
        return f"`{_json(field['const'])}`"
    if "oneOf" in field and "type" not in field:
        return " or ".join(_value(choice) for choice in field["oneOf"])
    kind = field.get("type", "")
    names = " or ".join(kind) if isinstance(kind, list) else str(kind)
    words = [names.replace(" or null", ", or null to empty it")]
    if kind == "array" and "properties" not in field["items"]:
        words = [f"list of {_value(field['items'])}"]
    if "minimum" in field or "maximum" in field:
        words.append(f"{field.get('minimum', '')}..{field.get('maximum', '')}")
    return ", ".join(words)


def _json(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
