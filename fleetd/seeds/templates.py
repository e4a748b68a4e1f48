"""Jinja2 in a sandbox: values reach YAML and JSON only as JSON or YAML scalars, never as syntax."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from jinja2 import FileSystemLoader, StrictUndefined, TemplateError, TemplateSyntaxError, Undefined, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment


class SeedError(ValueError):
    """A seed cannot be rendered; the message says why and holds no secret."""


_DEEPEST = 64
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
"""What YAML does not allow as itself, or takes for the end of a line."""


class _Rendered(str):
    """Text as it came out of tojson or toyaml: the only text that may reach the output.

    Whatever is done to it (joined, cut, formatted, changed) gives a plain text, which may not.
    """

    __slots__ = ()


def to_json(value: Any) -> _Rendered:
    """Return the value as JSON, which YAML 1.1 and 1.2 both read as the same value."""
    if isinstance(value, Undefined):
        raise SeedError("a value that is not there cannot be written")
    # Escaped, a character beyond U+FFFF is two halves in JSON, which YAML does not put together: it stands as itself.
    text = json.dumps(value, ensure_ascii=False, sort_keys=False)
    return _Rendered(_UNPRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def to_yaml(value: Any, indent: int = 0) -> _Rendered:
    """Return the value as a block of YAML, every line but the first indented."""
    if isinstance(value, Undefined):
        raise SeedError("a value that is not there cannot be written")
    if not 0 <= indent <= _DEEPEST:
        raise SeedError(f"toyaml is indented by 0 to {_DEEPEST}")
    text = yaml.safe_dump(value, allow_unicode=False, default_flow_style=False, sort_keys=False, width=10**6)
    text = text.removesuffix("...\n").rstrip("\n")
    return _Rendered(text.replace("\n", "\n" + " " * indent))


def _finalize(value: Any) -> Any:
    """Refuse to write anything that did not pass tojson or toyaml."""
    if isinstance(value, _Rendered):
        return value
    raise SeedError(f"a {type(value).__name__} would be written without tojson or toyaml")


class _Environment(ImmutableSandboxedEnvironment):
    """A sandbox in which template text is copied and every expression passes `_finalize`."""

    # One line of either can ask for all memory and time of the service.
    intercepted_binops = frozenset({"*", "**"})

    def call_binop(self, _context: Context, operator: str, _left: Any, _right: Any) -> Any:
        """Refuse: a seed repeats and raises nothing. Raises SeedError."""
        raise SeedError(f"{operator} has no place in a template")

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """Return the sandbox's `format`, whose result is a plain text, whatever it was called on."""
        wrapped = super().wrap_str_format(value)
        return None if wrapped is None else lambda *words, **named: str(wrapped(*words, **named))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        """Refuse the two blocks whose result jinja2 writes past `finalize`. Raises TemplateSyntaxError."""
        tree = super()._parse(source, name, filename)
        for block in (*tree.find_all(nodes.FilterBlock), *tree.find_all(nodes.CallBlock)):
            words = "filter and call blocks would be written without tojson or toyaml"
            raise TemplateSyntaxError(words, block.lineno, name, filename)
        return tree


def environment(directory: Path) -> ImmutableSandboxedEnvironment:
    """Return the environment over the templates directory; includes cannot leave it."""
    found = _Environment(
        loader=FileSystemLoader(directory, followlinks=False),
        undefined=StrictUndefined,
        autoescape=False,
        keep_trailing_newline=True,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters = {name: found.filters[name] for name in _HARMLESS if name in found.filters}
    found.filters |= {"tojson": to_json, "toyaml": to_yaml}
    found.globals = {}
    return found


_HARMLESS = (
    "default", "d", "first", "last", "length", "count", "lower", "upper", "trim", "sort", "list", "map", "select", "selectattr",
    "reject", "rejectattr", "unique", "join", "replace", "items", "attr", "int", "string", "groupby", "batch", "sum", "min", "max",
)  # fmt: skip


def render(directory: Path, name: str, values: dict[str, Any]) -> str:
    """Render one template file. Raises SeedError."""
    try:
        return environment(directory).get_template(name).render(values)
    except SeedError:
        raise
    except TemplateError as error:
        raise SeedError(f"template {name}: {error.message or type(error).__name__}"[:500]) from None
    except (TypeError, ValueError, ArithmeticError, RecursionError, LookupError, MemoryError) as error:
        # The text of such an error may hold a value: only its kind is told.
        raise SeedError(f"template {name}: {type(error).__name__}") from None
