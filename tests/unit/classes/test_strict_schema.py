"""The owner's files mean what any reader of the schema makes of them: no value that only Python lets pass, no crash."""

import json

import pytest

from fleetd.class_file import read_classes
from fleetd.core.classes import ClassesInvalidError
from fleetd.core.strict_schema import MOST_PROBLEMS, problems

CLASS = {
    "name": "lab",
    "family": "nixos-image",
    "image": {"url": "https://h/x", "sha256": "0" * 64, "size": 1024},
    "disk": {"min_size": 1},
    "attestation": {"install": {"boot": "network-trusted"}},
    "certificates": {"lifetime": 100},
    "seed": {"template": "t", "secrets": ["a"], "values": {"a": 1}, "devid_folder": "/etc/x"},
    "budget": {"max_unavailable": "10%"},
    "boot": {"quirks": {"report_delay": 1}},
    "deadlines": {"power": 10},
    "description": "d",
}
DEEP = json.loads("[" * 900 + "]" * 900)


def errors(tmp_path, where, value):
    section, _, key = where.partition(".")
    entry = {**CLASS, section: {**CLASS[section], key: value} if key else value}
    path = tmp_path / "classes.json"
    path.write_text(json.dumps({"classes": [entry]}))
    with pytest.raises(ClassesInvalidError) as caught:
        read_classes(path)
    return [error.path for error in caught.value.errors]


def test_the_class_that_the_cases_change_is_good(tmp_path):
    path = tmp_path / "classes.json"
    path.write_text(json.dumps({"classes": [CLASS]}))

    assert len(read_classes(path)) == 1


@pytest.mark.parametrize(
    ("where", "value"),
    [
        ("name", "lab\n"),
        ("image.url", "https://h/x\n"),
        ("image.sha256", "0" * 64 + "\n"),
        ("seed.template", "t\n"),
        ("seed.devid_folder", "/etc/x\n"),
        ("budget.max_unavailable", "10%\n"),
        ("deadlines.power", float("nan")),
        ("deadlines.power", float("inf")),
        ("certificates.lifetime", float("nan")),
        ("boot.quirks", {"report_delay": float("nan")}),
        ("image.size", 1e300),
        ("image.size", 1024.0),
        ("image.size", 10**4000),
        ("disk.min_size", 2**63),
        ("budget.max_unavailable", 10**30),
        ("seed.values", {"a": float("nan")}),
        ("seed.values", {"a": DEEP}),
        ("seed.values", {"a": "x\0"}),
        ("seed.values", {"\ud800": 1}),
        ("description", "x\0y"),
        ("description", "\udfff"),
    ],
)
def test_what_only_python_lets_pass_is_refused_by_its_path(tmp_path, where, value):
    (path, *_) = errors(tmp_path, where, value)

    assert path.startswith(f"$.classes[0].{where}")


def test_a_path_cannot_draw_on_the_terminal_and_a_long_list_of_problems_has_an_end():
    (path, *rest) = problems({"additionalProperties": {"type": "null"}}, {"\x1b[2J" + "x" * n: 1 for n in range(99)})

    assert "\x1b" not in path[0]
    assert len(rest) == MOST_PROBLEMS
    assert rest[-1] == ("$", "49 more of such problems")


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        (
            {"properties": {"serial": {}}, "additionalProperties": False},
            {"serail": 1},
            "no such field: 'serail' (is 'serial' meant?)",
        ),
        ({"type": ["string", "null"]}, [1], "must be a text or nothing, and is a list"),
        ({"maxLength": 3}, "x" * 10240, "has 10240 characters, more than 3"),
        ({"pattern": "^a$", "description": "An a."}, "b", "'b' does not match '^a$': An a."),
    ],
)
def test_a_problem_is_said_in_words(schema, value, words):
    assert problems(schema, value) == [("$", words)]
