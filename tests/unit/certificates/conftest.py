"""A tree of authorities on disk, and a clock that the test moves."""

import os
from datetime import UTC, datetime, timedelta

import pytest

from fleetd.ca.tree import make_tree

URL = "https://fleetd.example.org:7443"


class SetClock:
    """A clock whose wall can jump while seconds go by as ever."""

    def __init__(self):
        self.time, self.seconds = datetime(2026, 3, 1, 12, tzinfo=UTC), 0.0

    def now(self):
        return self.time

    def monotonic(self):
        return self.seconds

    def pass_by(self, **how):
        self.time += timedelta(**how)
        self.seconds += timedelta(**how).total_seconds()

    def jump(self, **how):
        self.time += timedelta(**how)


class SystemRandom:
    def bytes(self, count):
        return os.urandom(count)


@pytest.fixture
def clock():
    return SetClock()


@pytest.fixture
def tree(tmp_path, clock):
    return make_tree(tmp_path / "ca", "Example", URL, clock.now(), SystemRandom())
