"""How many machines a budget lets out of service at once, and how one is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from fleetd.core.classes import Budget, ClassesInvalidError, TagRules, parse_classes

TOTALS = some.integers(0, 100_000)
NUMBERS = some.integers(0, 100_000)
PARTS = some.integers(0, 100)


@given(TOTALS, NUMBERS)
def test_a_largest_number_is_the_room_whatever_the_total(total: int, most: int) -> None:
    assert Budget(max_unavailable=most).room(total) == most


@given(TOTALS, NUMBERS)
def test_a_smallest_number_in_service_leaves_the_rest_as_room(total: int, least: int) -> None:
    room = Budget(min_available=least).room(total)

    assert room == max(0, total - least)
    assert room == 0 or total - room >= least


@given(TOTALS, PARTS)
def test_a_largest_part_is_never_exceeded_and_one_more_would_exceed_it(total: int, part: int) -> None:
    room = Budget(max_unavailable=part, percent=True).room(total)

    assert 100 * room <= part * total
    assert 100 * (room + 1) > part * total


@given(TOTALS, PARTS)
def test_a_smallest_part_is_always_kept_and_one_more_out_would_break_it(total: int, part: int) -> None:
    room = Budget(min_available=part, percent=True).room(total)

    assert 100 * (total - room) >= part * total
    assert 100 * (total - room - 1) < part * total


@given(TOTALS, PARTS)
def test_the_two_ways_to_say_a_part_never_disagree_to_the_unsafe_side(total: int, part: int) -> None:
    assert Budget(max_unavailable=100 - part, percent=True).room(total) == Budget(
        min_available=part, percent=True
    ).room(total)


def test_a_part_too_small_for_one_machine_leaves_no_room() -> None:
    assert Budget(max_unavailable=10, percent=True).room(9) == 0
    assert Budget(min_available=75, percent=True).room(3) == 0


def test_a_tag_has_a_budget_and_a_second_person_of_its_own() -> None:
    book = parse_classes(
        {
            "classes": [],
            "tags": {
                "edge": {"budget": {"min_available": "75%"}},
                "vault": {"approval": {"two_person": True}, "budget": {"max_unavailable": 1}},
            },
        }
    )

    assert book.tags == {
        "edge": TagRules(Budget(min_available=75, percent=True)),
        "vault": TagRules(Budget(max_unavailable=1), two_person=True),
    }
    assert str(book.tags["edge"].budget) == "min_available 75%"


@pytest.mark.parametrize(
    "budget",
    [{}, {"max_unavailable": 1, "min_available": 1}, {"max_unavailable": -1}, {"min_available": "101%"}, {"most": 1}],
)
def test_a_budget_of_a_tag_that_says_nothing_or_two_things_is_refused_by_its_path(budget: dict) -> None:
    with pytest.raises(ClassesInvalidError) as refused:
        parse_classes({"classes": [], "tags": {"edge": {"budget": budget}}})

    assert all(error.path.startswith("$.tags.edge.budget") for error in refused.value.errors)
