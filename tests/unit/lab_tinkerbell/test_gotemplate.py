"""The part of Go's templates that the stand-in renders."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from fleet_lab.tinkerbell.gotemplate import TemplateError, render

DATA = {"a": "x", "n": {"b": "y"}, "list": ["p", "q"], "flag": True}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("plain", "plain"),
        ("{{.a}}-{{ .n.b }}", "x-y"),
        ("{{ .a | quote }}", '"x"'),
        ("{{ quote .a .n.b }}", '"x" "y"'),
        ("{{ index .list 1 }}", "q"),
        ('{{ index .n "b" }}', "y"),
        ("{{ toJson .n }}", '{"b":"y"}'),
        ("{{ .list | toJson | quote }}", '"[\\"p\\",\\"q\\"]"'),
        ('{{ printf "%s/%s" .a (index .list 0) | quote }}', '"x/p"'),
        ("a {{- .a -}} b", "axb"),
        ("{{/* nothing */}}", ""),
        ("{{ .flag }}", "true"),
        ("{{ .list }}", "[p q]"),
        ("{{ .n }}", "map[b:y]"),
        ("{{ toJson .html }}", "{}"),
    ],
)
def test_it_renders_as_go_does(source: str, expected: str) -> None:
    assert render(source, DATA | {"html": {}}) == expected


def test_json_is_escaped_for_html_as_go_does() -> None:
    assert render("{{ toJson .a }}", {"a": "<&>"}) == '"\\u003c\\u0026\\u003e"'


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("x\n  {{.nope}}", 'workflow-template:2:4: executing "workflow-template" at <.nope>: map has no entry'),
        ("{{ .a.b }}", "can't evaluate field b in type string"),
        ("{{ index .list 7 }}", "error calling index: index out of range: 7"),
        ("{{ unknown .a }}", 'function "unknown" not defined'),
        ("{{ range .list }}", 'function "range" not defined'),
        ("{{.a", "unclosed action"),
        ('"{{.a"', "bad character U+0022"),
        ("{{ }}", "missing value for command"),
        ("{{ .a .b }}", "unexpected <.b> in command"),
        ("{{ % }}", "unexpected '%' in command"),
    ],
)
def test_it_fails_as_go_does(source: str, words: str) -> None:
    with pytest.raises(TemplateError) as failure:
        render(source, DATA)
    assert words in str(failure.value)


def test_what_is_rendered_has_a_limit() -> None:
    with pytest.raises(TemplateError, match="larger than 262144"):
        render("{{ .a }}", {"a": "x" * 262_145})


@given(st.text())
def test_a_quoted_value_is_one_string_whatever_it_holds(value: str) -> None:
    assert yaml.safe_load(render("{{ .a | quote }}", {"a": value})) == value
