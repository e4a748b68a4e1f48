"""A tree of authorities on disk, and a clock that the test moves."""

import pytest

from fleetd.ca.tree import make_tree
from fleetd.host import SystemRandom
from tests.clocks import SetClock

URL = "https://fleetd.example.org:7443"


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def tree(tmp_path, clock):
    return make_tree(tmp_path / "ca", "Example", URL, clock.now(), SystemRandom())
