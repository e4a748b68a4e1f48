"""What the benchmark table is made of."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.intents import p95
from benchmarks.processors import seconds_of
from benchmarks.verdict import at_least, at_most

CHECKOUT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    ("how", "value", "verdict"),
    [(at_least, 300.0, "ok"), (at_least, 299.0, "short"), (at_most, 3.0, "ok"), (at_most, 3.1, "short")],
)
def test_a_line_says_whether_the_target_is_met(how, value, verdict, capsys):
    how("name", value, "unit", 300 if how is at_least else 3)

    line = capsys.readouterr().out.split()

    assert (line[0], line[2], line[-1], len(line)) == ("name", "unit", verdict, 5)


def test_processor_time_counts_children_that_have_ended():
    before = seconds_of([os.getpid()])
    work = "import time\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", work], check=True)

    assert seconds_of([os.getpid()]) - before >= 0.25


def test_the_slowest_of_a_few_is_what_95_of_100_do_not_exceed():
    assert p95([1.0, 9.0, 2.0]) == 9.0
    assert p95([float(value) for value in range(100)]) == 95.0


def test_every_benchmark_can_be_run_or_is_used_by_one():
    texts = {file.stem: file.read_text() for file in (CHECKOUT / "benchmarks").glob("*.py")}

    for name, text in texts.items():
        used = any(f"from benchmarks.{name} import" in other for other in texts.values())
        assert used or "__main__" in text, name
