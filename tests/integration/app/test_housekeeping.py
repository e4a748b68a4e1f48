"""What is done every ten minutes, and that one part that is away holds up no other."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from fleetd import tasks
from tests.worlds import Stage


@pytest.fixture
def parts(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    found = SimpleNamespace(
        issuer=SimpleNamespace(sweep_intents=lambda: None),
        authority=SimpleNamespace(keep_fresh=lambda: ()),
        settings=SimpleNamespace(machine=SimpleNamespace(certificate=Path("owned.pem"))),
        sessions=stage.sessions,
        clock=stage.clock,
        world=stage.world(),
    )
    monkeypatch.setattr(tasks, "parts", lambda: found)
    return found


def test_templates_that_nothing_uses_are_removed(stage: Stage, parts: SimpleNamespace) -> None:
    stage.tinkerbell.unused = ["attest-00000000"]

    tasks.housekeeping()

    assert stage.tinkerbell.unused == []


def test_tinkerbell_away_fails_nothing(stage: Stage, parts: SimpleNamespace) -> None:
    stage.tinkerbell.unused = ["attest-00000000"]
    stage.tinkerbell.away = True

    tasks.housekeeping()

    assert stage.tinkerbell.unused == ["attest-00000000"]
