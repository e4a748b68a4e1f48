"""Each fuzz target runs for ten minutes without a failure."""

import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
TARGETS = sorted(path.stem for path in (CHECKOUT / "fuzz").glob("fuzz_*.py"))


@pytest.mark.soak
@pytest.mark.parametrize("target", TARGETS)
def test_a_fuzz_target_finds_nothing_in_ten_minutes(tmp_path, target):
    run_target(tmp_path, target, seconds=600)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_a_fuzz_target_runs(tmp_path, target):
    run_target(tmp_path, target, seconds=1)


def run_target(folder, target, *, seconds):
    done = subprocess.run(
        [sys.executable, "-m", f"fuzz.{target}", f"-max_total_time={seconds}"],
        cwd=folder,
        env={"PYTHONPATH": str(CHECKOUT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
