"""The systemd units: each starts a command that exists, and none may do more than it must."""

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest
from typer.main import get_command

from fleetd.cli import program

UNITS = sorted((Path(__file__).resolve().parents[3] / "deploy" / "systemd").glob("*.service"))
ANALYZE = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze comes with systemd")


def service(unit: Path) -> configparser.SectionProxy:
    parser = configparser.RawConfigParser(strict=False, delimiters=("=",))
    parser.optionxform = str
    parser.read_string(unit.read_text())
    return parser["Service"]


def test_there_is_a_unit_for_every_process():
    assert {unit.stem for unit in UNITS} == {"fleetd-serve", "fleetd-worker", "fleetd-beat", "fleetd-watch"}


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_starts_a_command_that_exists_as_a_user_of_its_own(unit):
    found = service(unit)

    binary, command = found["ExecStart"].split()
    assert binary == "/opt/fleetd/bin/fleetd"
    assert command in get_command(program()).commands
    assert found["User"] == "fleetd"


@ANALYZE
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_a_unit_is_exposed_no_more_than_2_5(unit):
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=25", "--no-pager", str(unit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout[-300:] + done.stderr


@ANALYZE
@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.stem)
def test_systemd_knows_every_setting(unit):
    done = subprocess.run(["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, check=False)

    complaints = [line for line in done.stderr.splitlines() if "is not executable" not in line]
    assert not [line for line in complaints if unit.name in line], done.stderr
