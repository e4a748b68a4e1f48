"""Selectors and patches of the stand-in's API."""

from typing import Any

import pytest

from fleet_lab.tinkerbell import patches
from fleet_lab.tinkerbell.selectors import by_fields, by_labels
from fleet_lab.tinkerbell.status import ApiError


def item(**labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "n", "namespace": "s", "labels": labels}}


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        ("", {}, True),
        ("a=1", {"a": "1"}, True),
        ("a==1", {"a": "2"}, False),
        ("a!=1", {}, True),
        ("a!=1", {"a": "1"}, False),
        ("a in (1,2)", {"a": "2"}, True),
        ("a notin (1,2)", {"a": "2"}, False),
        ("a notin (1,2)", {}, True),
        ("a", {"a": ""}, True),
        ("!a", {"a": ""}, False),
        ("a=1,b in (x, y),!c", {"a": "1", "b": "y"}, True),
        ("a=1,b in (x, y),!c", {"a": "1", "b": "y", "c": ""}, False),
    ],
)
def test_label_selectors_match(selector: str, labels: dict[str, str], matches: bool) -> None:
    assert by_labels(selector)(item(**labels)) is matches


@pytest.mark.parametrize(
    ("selector", "matches"),
    [("metadata.name=n", True), ("metadata.name!=n", False), ("metadata.namespace==s,metadata.name=x", False)],
)
def test_field_selectors_match_names(selector: str, matches: bool) -> None:
    assert by_fields(selector)(item()) is matches


@pytest.mark.parametrize("read", [lambda: by_fields("spec.a=1"), lambda: by_fields("x"), lambda: by_labels("a in")])
def test_what_cannot_be_selected_is_400(read: Any) -> None:
    with pytest.raises(ApiError) as refused:
        read()
    assert refused.value.code == 400


def test_a_merge_patch_follows_the_example_of_rfc_7396() -> None:
    target = {"title": "Goodbye!", "author": {"givenName": "John", "familyName": "Doe"}, "tags": ["a"], "content": "x"}
    patch = {"title": "Hello!", "phone": "+01", "author": {"familyName": None}, "tags": ["b"]}
    assert patches.merge(target, patch) == {
        "title": "Hello!",
        "author": {"givenName": "John"},
        "tags": ["b"],
        "content": "x",
        "phone": "+01",
    }


def test_json_patch_operations() -> None:
    operations = [
        {"op": "test", "path": "/a/0", "value": 1},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "replace", "path": "/b~1c", "value": 9},
        {"op": "remove", "path": "/d"},
        {"op": "add", "path": "/e", "value": {}},
    ]
    assert patches.apply({"a": [1, 2], "b/c": 0, "d": 1}, operations) == {"a": [1, 2, 3], "b/c": 9, "e": {}}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "replace", "path": "/no", "value": 2},
        {"op": "remove", "path": "/no"},
        {"op": "jump", "path": "/a"},
        {"path": "/a"},
    ],
)
def test_a_json_patch_that_does_not_fit_is_422(operation: dict[str, Any]) -> None:
    with pytest.raises(ApiError) as refused:
        patches.apply({"a": 1}, [operation])
    assert refused.value.code == 422
