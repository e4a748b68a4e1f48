"""The discard commands as the kernel takes them, and the places that are read back."""

import itertools
import random
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from fleet_machine.disk import commands
from fleet_machine.disk.samples import ENDS, PLACE_SIZE, PLACES, places_of


@pytest.mark.parametrize(("name", "number"), [("discard", 0x1277), ("secure_discard", 0x127D)])
def test_a_discard_is_the_kernels_ioctl_with_start_and_length_in_bytes(monkeypatch, name, number):
    told = []
    monkeypatch.setattr(commands.fcntl, "ioctl", lambda fd, request, argument: told.append((fd, request, argument)))
    with Path("/dev/null").open("rb") as stream:
        getattr(commands.KernelCommands(), name)(stream.fileno(), 1 << 30, 4096)
        assert told == [(stream.fileno(), number, struct.pack("=QQ", 1 << 30, 4096))]


@given(some.integers(1, 1 << 44), some.integers())
def test_places_read_back_lie_on_the_disk_and_hold_both_ends(size, seed):
    places = places_of(size, random.Random(seed))

    assert all(place.offset >= 0 and place.offset + place.length <= size for place in places)
    assert places[0].offset == 0
    assert max(place.offset + place.length for place in places) == size
    if size > 2 * ENDS + 2 * PLACES * PLACE_SIZE:
        assert (places[0].length, places[1].length) == (ENDS, ENDS)
        assert len(places) == PLACES + 2
        assert len({place.offset for place in places[2:]}) == PLACES, "1,024 different places"


def test_a_small_disk_is_read_back_whole():
    places = places_of(3 << 20, random.Random(1))

    assert sum(place.length for place in places) == 3 << 20


def test_the_places_are_scattered_over_the_whole_disk():
    size = 1 << 40
    starts = sorted(place.offset for place in places_of(size, random.Random(7))[2:])

    assert max(later - earlier for earlier, later in itertools.pairwise(starts)) < 2 * size / PLACES + PLACE_SIZE
