"""Words that try to be syntax, and the way to see that they came out as data.

A document is made of plain tokens and once more of hostile words in their place; where the first document with each
token replaced is the second, nothing of a word was read as syntax.
"""

import json
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

SHARP = [
    '"',
    "'",
    "\\",
    "`",
    "\n- x: y",
    "\r\n",
    "\t",
    "{{ 7*7 }}",
    "{% include '/etc/passwd' %}",
    "{# c #}",
    "${code}",
    "!!python/object:os.system",
    "!!binary eA==",
    "&a *a",
    "<<: *a",
    "? - :",
    ": #",
    "---\n",
    "...\n",
    "| \n >",
    "%TAG",
    "\u2028\u2029\u0085\ufeff",
    "\x1b[2J\x07\x7f",
    "\u202e",
    "é\U0001f600",
    "<script>alert(1)</script>",
    '</textarea><img src=x onerror="alert(1)">',
    '"}, {"hw-address": "',
    '<?include "/etc/passwd"?>',
    "'; DROP TABLE x; --",
    "$(reboot)",
    "null",
    "~",
    "0x1f",
    "1e5",
    "yes",
    "../../etc/shadow",
]
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
"""What NetBox can hold: PostgreSQL takes no NUL, and UTF-8 no half of a character."""
WORD = st.one_of(
    st.lists(st.sampled_from(SHARP) | TEXT, min_size=1, max_size=4).map("".join),
    st.sampled_from(SHARP).map(lambda sharp: (sharp * 10240)[:10240]),
).filter(lambda word: word != "")


def words(tokens: list[str]) -> st.SearchStrategy[dict[str, str]]:
    """A hostile word for each token, no two alike."""
    return st.lists(WORD, min_size=len(tokens), max_size=len(tokens), unique=True).map(
        lambda found: dict(zip(tokens, found, strict=True))
    )


def replaced(document: Any, chosen: Mapping[str, str]) -> Any:
    """The document with every token replaced, inside texts and inside JSON that is a text."""
    if isinstance(document, dict):
        return {replaced(key, chosen): replaced(value, chosen) for key, value in document.items()}
    if isinstance(document, list):
        return [replaced(item, chosen) for item in document]
    if not isinstance(document, str):
        return document
    parts = [document]
    for token, word in chosen.items():
        parts = [piece for part in parts for piece in _split(part, token, word)]
    return "".join(parts)


class _Done(str):
    """A piece that holds a hostile word: not searched again."""

    __slots__ = ()


def _split(part: str, token: str, word: str) -> list[str]:
    if isinstance(part, _Done) or token not in part:
        return [part]
    pieces: list[str] = []
    for piece in part.split(token):
        pieces += [_Done(word), piece]
    return pieces[1:]


def opened(document: Any) -> Any:
    """The document with JSON that is a text opened, so that its words are compared as words."""
    if isinstance(document, dict):
        return {key: opened(value) for key, value in document.items()}
    if isinstance(document, list):
        return [opened(item) for item in document]
    if isinstance(document, str) and document.startswith("{") and '"version": 1' in document[:40]:
        return {"json": opened(json.loads(document))}
    return document
