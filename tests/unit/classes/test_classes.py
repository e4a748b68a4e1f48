import copy
import json
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetd.class_file import ClassFile, read_classes
from fleetd.core.classes import ClassesInvalidError, Deadlines, PowerQuirks, differences, parse_classes
from fleetd.core.names import Family

CHECKOUT = Path(__file__).resolve().parents[3]
GOOD = {
    "name": "node",
    "family": "alpine-image",
    "image": {"url": "https://images.example.org/node.img", "sha256": "0" * 64, "size": 1024},
    "attestation": {"install": {"boot": "network-trusted"}},
}


def a_file(**changes):
    return {"classes": [{**copy.deepcopy(GOOD), **changes}]}


def errors_of(data):
    with pytest.raises(ClassesInvalidError) as caught:
        parse_classes(data)
    return [str(error) for error in caught.value.errors]


def test_the_shipped_example_is_good():
    book = read_classes(CHECKOUT / "classes.json")

    assert {found.family for found in book} == set(Family)
    assert any(not found.installable and found.reason for found in book)


def test_what_is_not_said_has_defaults():
    (found,) = parse_classes(a_file())

    assert found.installable
    assert found.deadlines == Deadlines()
    assert found.certificate_lifetime == timedelta(days=365)
    assert found.attestation.select == (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14)


def test_deadlines_of_the_service_hold_where_the_class_sets_none():
    (found,) = parse_classes(a_file(deadlines={"attest": 5}), Deadlines(power=timedelta(seconds=1)))

    assert (found.deadlines.power, found.deadlines.attest) == (timedelta(seconds=1), timedelta(seconds=5))


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"name": "Not A Slug"}, "$.classes[0].name"),
        ({"family": "windows"}, "$.classes[0].family"),
        ({"colour": "blue"}, "$.classes[0]"),
        ({"image": {**GOOD["image"], "sha256": "xyz"}}, "$.classes[0].image.sha256"),
        ({"attestation": {"install": {}}}, "$.classes[0].attestation.install"),
        ({"attestation": {"install": {"boot": "judged"}}}, "$.classes[0].attestation.install.allow"),
        ({"installable": False}, "$.classes[0].reason"),
        ({"budget": {"max_unavailable": 1, "min_available": 1}}, "$.classes[0].budget"),
        ({"budget": {"max_unavailable": "120%"}}, "$.classes[0].budget.max_unavailable"),
        ({"family": "talos"}, "$.classes[0].seed.template"),
        ({"seed": {"secrets": ["../x"]}}, "$.classes[0].seed.secrets[0]"),
        ({"deadlines": {"lunch": 3}}, "$.classes[0].deadlines"),
        (
            {"attestation": {"install": {"boot": "network-trusted"}, "pcrs": {"bank": "sha256", "select": [0]}}},
            "$.classes[0].attestation.check.baseline",
        ),
        (
            {"attestation": {"install": {"boot": "network-trusted", "allow": [{"digest": "00" * 32}]}}},
            "$.classes[0].attestation.install.allow",
        ),
    ],
)
def test_an_error_is_named_by_its_path(changes, path):
    assert any(error.startswith(f"{path}: ") for error in errors_of(a_file(**changes))), errors_of(a_file(**changes))


def test_all_errors_are_named_at_once():
    errors = errors_of({"classes": [{**GOOD, "family": "x"}, {**GOOD, "name": "X"}, {"name": "y"}]})

    assert [error.split(":")[0] for error in errors] == ["$.classes[0].family", "$.classes[1].name", "$.classes[2]"]


def test_a_name_stands_once():
    assert errors_of({"classes": [GOOD, GOOD]}) == ["$.classes[1].name: node stands twice"]


def test_there_is_no_default_for_how_hookos_is_trusted():
    assert any("boot" in error for error in errors_of(a_file(attestation={"install": {"secure_boot": "required"}})))


def test_a_network_trusted_class_says_so_and_gives_no_secrets():
    (found,) = parse_classes(a_file())

    assert "network-trusted" in found.warning
    assert not found.may_deliver_secrets


@pytest.mark.parametrize(
    ("budget", "total", "room"),
    [
        ({"max_unavailable": 2}, 10, 2),
        ({"max_unavailable": "25%"}, 10, 2),
        ({"min_available": 8}, 10, 2),
        ({"min_available": "75%"}, 10, 2),
        ({"min_available": 20}, 10, 0),
        ({"max_unavailable": "10%"}, 3, 0),
    ],
)
def test_a_budget_is_rounded_to_the_safe_side(budget, total, room):
    (found,) = parse_classes(a_file(budget=budget))

    assert found.budget.room(total) == room


def test_a_changed_class_has_another_digest_and_is_named():
    old = parse_classes({"classes": [GOOD, {**GOOD, "name": "gone"}]})
    new = parse_classes({"classes": [{**GOOD, "role": "edge"}, {**GOOD, "name": "new"}]})

    assert [line.split(":")[0] for line in differences(old, new)] == ["gone", "new", "node"]
    assert differences(old, old) == ()


def test_a_changed_file_is_in_force_at_once_and_a_bad_one_is_not(tmp_path):
    path = tmp_path / "classes.json"
    path.write_text(json.dumps(a_file()))
    file = ClassFile(path)
    assert [found.slug for found in file.book()] == ["node"]

    path.write_text(json.dumps(a_file(name="second-node")))
    assert [found.slug for found in file.book()] == ["second-node"]

    path.write_text("{")
    assert [found.slug for found in file.book()] == ["second-node"]
    assert "not JSON" in file.problem

    path.unlink()
    assert [found.slug for found in file.book()] == ["second-node"]

    path.write_text(json.dumps(a_file(name="third-node-here")))
    assert [found.slug for found in file.book()] == ["third-node-here"]
    assert file.problem == ""


def test_a_key_that_stands_twice_is_an_error(tmp_path):
    path = tmp_path / "classes.json"
    path.write_text('{"classes": [], "classes": []}')

    with pytest.raises(ClassesInvalidError, match="stands twice"):
        read_classes(path)


def errors_in(data):
    try:
        parse_classes(data)
    except ClassesInvalidError as error:
        return error.errors
    return ()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*GOOD, "x", "classes"]), inner),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(json_values, st.sampled_from([*GOOD, "seed", "disk", "budget", "deadlines", "boot", "approval"]))
def test_any_json_is_read_or_refused_by_path(value, key):
    for data in (value, a_file(**{key: value})):
        assert all(error.path.startswith("$") for error in errors_in(data))


def test_quirks_of_power_are_data_of_the_class():
    (found,) = parse_classes(a_file(boot={"quirks": {"off_before_boot_device": True, "report_delay": 45}}))

    assert found.quirks == PowerQuirks(off_before_boot_device=True, report_delay=timedelta(seconds=45))
    assert errors_of(a_file(boot={"quirks": {"slow": True}}))[0].startswith("$.classes[0].boot.quirks")
