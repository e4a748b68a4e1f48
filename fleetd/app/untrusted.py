"""Making what a machine claims fit to be kept and shown: bounded, and free of what a database cannot hold."""

import json
from typing import Any

_MAX_TEXT = 1000
_MAX_ITEMS = 200
_MAX_DEPTH = 6


def json_object(raw: bytes) -> dict[str, Any]:
    """Return the JSON object in the bytes, cleaned. Raises ValueError when it is none."""
    try:
        value = json.loads(raw)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 -- the content is wrong, not the caller
    kept: dict[str, Any] = cleaned(value)
    return kept


def cleaned(value: Any, depth: int = 0) -> Any:
    """Return the JSON value with long texts cut, long lists cut, deep nesting and odd numbers dropped."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else None
    if isinstance(value, float):
        return value if value == value and abs(value) < 1e300 else None  # noqa: PLR0124 -- NaN differs from itself
    if depth >= _MAX_DEPTH:
        return None
    if isinstance(value, list):
        return [cleaned(item, depth + 1) for item in value[:_MAX_ITEMS]]
    if isinstance(value, dict):
        items = list(value.items())[:_MAX_ITEMS]
        return {clean_text(str(key))[:100]: cleaned(item, depth + 1) for key, item in items}
    return None


def clean_text(text: str) -> str:
    """Return the text without NUL and lone surrogates, cut to 1000 characters."""
    return text[:_MAX_TEXT].replace("\x00", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
