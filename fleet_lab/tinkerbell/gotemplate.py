"""The part of Go's text/template that workflow Templates use: fields, pipelines, index, quote and toJson."""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

NAME = "workflow-template"
LARGEST = 256 * 1024
"""Bytes of a rendered template."""

_ACTION = re.compile(r"\{\{(?P<left>-\s)?(?P<body>.*?)(?P<right>\s-)?\}\}", re.DOTALL)
_TOKEN = re.compile(
    r'(?P<space>\s+)|(?P<string>"(?:\\.|[^"\\])*"|`[^`]*`)|(?P<number>-?\d+)'
    r"|(?P<field>(?:\.[A-Za-z_]\w*)+)|(?P<dot>\.)|(?P<word>[A-Za-z_]\w*)|(?P<mark>[|()])"
)


class TemplateError(Exception):
    """The template cannot be parsed or executed; the text is what Go would say."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    at: int


def render(source: str, data: Mapping[str, Any]) -> str:
    """Return the rendered text; a key that the data lacks is an error (missingkey=error)."""
    parts: list[str] = []
    end = 0
    for start, stop, trim_left, trim_right, body, at in _actions(source):
        literal = source[end:start]
        parts.append(literal.rstrip() if trim_left else literal)
        if not body.strip().startswith("/*"):
            parts.append(_text(_Evaluation(source, data, body, at).value()))
        end = stop
        if trim_right:
            end += len(source[stop:]) - len(source[stop:].lstrip())
    parts.append(source[end:])
    rendered = "".join(parts)
    if len(rendered.encode()) > LARGEST:
        raise TemplateError(f"template: {NAME}: rendered output is larger than {LARGEST} bytes")
    return rendered


def _actions(source: str) -> Iterator[tuple[int, int, bool, bool, str, int]]:
    position = 0
    while (start := source.find("{{", position)) >= 0:
        found = _ACTION.match(source, start)
        if found is None:
            raise _syntax(source, start)
        yield start, found.end(), bool(found["left"]), bool(found["right"]), found["body"], found.start("body")
        position = found.end()


def _syntax(source: str, start: int) -> TemplateError:
    """Return Go's complaint about an action that does not end: what its lexer met last."""
    rest = source[start + 2 :]
    quote = rest.find('"')
    line = source.count("\n", 0, start) + 1
    if quote >= 0 and rest[:quote].strip().startswith(".") and "\n" not in rest[:quote]:
        return TemplateError(f"template: {NAME}:{line}: bad character U+0022 '\"'")
    return TemplateError(f"template: {NAME}:{line}: unclosed action")


class _Evaluation:
    """Evaluate the pipeline inside one pair of braces."""

    def __init__(self, source: str, data: Mapping[str, Any], body: str, at: int) -> None:
        self._source, self._data, self._at, self._body = source, data, at, body
        self._tokens = self._tokenized(body)
        self._next = 0

    def value(self) -> Any:
        result = self._pipeline()
        if self._next < len(self._tokens):
            raise self._syntax_error(self._tokens[self._next])
        return result

    def _tokenized(self, body: str) -> Sequence[_Token]:
        tokens, position = [], 0
        while position < len(body):
            found = _TOKEN.match(body, position)
            if found is None or found.lastgroup is None:
                raise TemplateError(
                    f"template: {NAME}:{self._line(self._at + position)}: unexpected {body[position]!r} in command"
                )
            if found.lastgroup != "space":
                tokens.append(_Token(found.lastgroup, found.group(), self._at + position))
            position = found.end()
        return tokens

    def _pipeline(self) -> Any:
        result = self._command(None, piped=False)
        while self._peek("|"):
            self._next += 1
            result = self._command(result, piped=True)
        return result

    def _command(self, previous: Any, *, piped: bool) -> Any:
        if self._next >= len(self._tokens):
            raise TemplateError(f"template: {NAME}:{self._line(self._at)}: missing value for command")
        first = self._tokens[self._next]
        if first.kind == "word" and first.text not in {"true", "false", "nil"}:
            return self._call(first, previous, piped=piped)
        result = self._operand()
        if piped:
            raise self._syntax_error(first)
        return result

    def _call(self, token: _Token, previous: Any, *, piped: bool) -> Any:
        function = _FUNCTIONS.get(token.text)
        if function is None:
            raise TemplateError(f'template: {NAME}:{self._line(token.at)}: function "{token.text}" not defined')
        self._next += 1
        arguments = []
        while self._next < len(self._tokens) and not self._peek("|") and not self._peek(")"):
            arguments.append(self._operand())
        if piped:
            arguments.append(previous)
        try:
            return function(*arguments)
        except (TypeError, ValueError, LookupError) as error:
            raise self._failure(token, self._body.strip(), f"error calling {token.text}: {error}") from error

    def _operand(self) -> Any:
        token = self._tokens[self._next]
        self._next += 1
        match token.kind:
            case "string":
                return token.text[1:-1] if token.text[0] == "`" else json.loads(token.text)
            case "number":
                return int(token.text)
            case "field":
                return self._field(token)
            case "dot":
                return self._data
            case "word" if token.text in {"true", "false", "nil"}:
                return {"true": True, "false": False, "nil": None}[token.text]
            case "mark" if token.text == "(":
                result = self._pipeline()
                if not self._peek(")"):
                    raise self._syntax_error(token)
                self._next += 1
                return result
        raise self._syntax_error(token)

    def _field(self, token: _Token) -> Any:
        value: Any = self._data
        for name in token.text[1:].split("."):
            if not isinstance(value, Mapping):
                raise self._failure(token, token.text, f"can't evaluate field {name} in type {_go_type(value)}")
            if name not in value:
                raise self._failure(token, token.text, f'map has no entry for key "{name}"')
            value = value[name]
        return value

    def _peek(self, mark: str) -> bool:
        token = self._tokens[self._next] if self._next < len(self._tokens) else None
        return token is not None and token.kind == "mark" and token.text == mark

    def _failure(self, token: _Token, shown: str, why: str) -> TemplateError:
        start = self._source.rfind("\n", 0, token.at) + 1
        place = f"{self._line(token.at)}:{token.at - start}"
        return TemplateError(f'template: {NAME}:{place}: executing "{NAME}" at <{shown}>: {why}')

    def _syntax_error(self, token: _Token) -> TemplateError:
        return TemplateError(f"template: {NAME}:{self._line(token.at)}: unexpected <{token.text}> in command")

    def _line(self, at: int) -> int:
        return self._source.count("\n", 0, at) + 1


def _index(value: Any, *keys: Any) -> Any:
    for key in keys:
        if isinstance(value, Mapping):
            value = value.get(key, "")
        elif isinstance(key, int) and 0 <= key < len(value):
            value = value[key]
        else:
            raise ValueError(f"index out of range: {key}")
    return value


def _quote(*values: Any) -> str:
    return " ".join(f'"{"".join(map(_quoted, _text(value)))}"' for value in values if value is not None)


_SHORT = dict(zip('"\\\a\b\f\n\r\t\v', ('\\"', "\\\\", *(f"\\{sign}" for sign in "abfnrtv")), strict=True))


def _quoted(sign: str) -> str:
    """Return a character as Go's %q writes it (strconv.Quote): what cannot be printed is escaped."""
    number = ord(sign)
    if sign in _SHORT:
        return _SHORT[sign]
    if sign.isprintable():
        return sign
    return f"\\x{number:02x}" if number < 0x80 else f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"


def _to_json(value: Any) -> str:
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _printf(form: str, *values: Any) -> str:
    if form.count("%") != form.count("%s"):
        raise ValueError("only %s is part of this stand-in")
    return form.replace("%s", "{}").format(*map(_text, values)) if values else form


_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "index": _index,
    "printf": _printf,
    "quote": _quote,
    "toJson": _to_json,
}


def _text(value: Any) -> str:
    match value:
        case None:
            return "<no value>"
        case bool():
            return "true" if value else "false"
        case list():
            return "[" + " ".join(_text(item) for item in value) + "]"
        case dict():
            return "map[" + " ".join(f"{key}:{_text(value[key])}" for key in sorted(value)) + "]"
        case _:
            return str(value)


def _go_type(value: Any) -> str:
    return {str: "string", int: "int", bool: "bool", list: "[]interface {}"}.get(type(value), "interface {}")
