"""How a light machine runs actions."""

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from fleet_lab.agent import ActionExit, SubprocessRunner

MODULE = """\
import os, sys, time
print(sys.argv[1:], os.environ["A"], os.environ["B"])
if sys.argv[-1] == "sleep":
    time.sleep(60)
sys.exit(3 if sys.argv[-1] == "fail" else 0)
"""


@pytest.fixture
def runner(tmp_path: Path) -> tuple[SubprocessRunner, list[str]]:
    (tmp_path / "fleet_machine.py").write_text(MODULE)
    lines: list[str] = []
    return SubprocessRunner(sys.executable, {"PYTHONPATH": str(tmp_path), "B": "of the machine"}, lines.append), lines


def run(runner: SubprocessRunner, word: str, timeout: float = 30) -> ActionExit:
    asked: dict[str, Any] = {"name": "erase", "image": "i", "volumes": [], "pid": ""}
    return runner.run(command=["action", word], environment=["A=1=2", "B=of the Template"], timeout=timeout, **asked)


def test_an_action_gets_its_arguments_and_both_environments(runner: tuple[SubprocessRunner, list[str]]) -> None:
    assert run(runner[0], "work") == ActionExit(0)
    assert runner[1] == ["[erase] ['action', 'work'] 1=2 of the machine"]


def test_an_action_that_fails_says_so_by_its_status(runner: tuple[SubprocessRunner, list[str]]) -> None:
    assert run(runner[0], "fail") == ActionExit(3)


def test_an_action_whose_time_is_up_is_ended(runner: tuple[SubprocessRunner, list[str]]) -> None:
    assert run(runner[0], "sleep", 0.5).timed_out


def test_a_power_cut_ends_an_action_at_once(runner: tuple[SubprocessRunner, list[str]]) -> None:
    cut = threading.Timer(0.5, runner[0].kill)
    cut.start()
    ended = run(runner[0], "sleep")
    assert ended.status != 0
    assert not ended.timed_out
