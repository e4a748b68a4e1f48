"""What a newcomer meets first: usages, and messages where nothing is set up yet."""

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetd import cli

SCRIPTS = Path(__file__).parents[3] / "scripts"


@pytest.mark.parametrize("script", ["test", "bootstrap"])
def test_a_script_shows_its_usage_and_installs_nothing(script):
    shown = subprocess.run(
        [SCRIPTS / script, "--help"], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert shown.returncode == 0
    assert f"Usage: scripts/{script} [" in shown.stdout
    assert not shown.stderr


def test_bootstrap_refuses_what_it_does_not_know():
    refused = subprocess.run(
        [SCRIPTS / "bootstrap", "dmeo"], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    assert refused.returncode == 2
    assert "dmeo is neither demo nor test" in refused.stderr


def test_a_command_says_what_to_do_while_postgresql_is_away(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("FLEETD_DATABASE__URL", f"postgresql+psycopg:///fleetd?host={tmp_path}")
    monkeypatch.setattr(sys, "argv", ["fleetd", "runs", "list"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 69
    said = capsys.readouterr().err
    assert "PostgreSQL cannot be used" in said
    assert "database.url" in said
    assert "Traceback" not in said


def test_importing_roots_from_no_place_or_an_empty_one_is_not_a_success(tmp_path):
    kept = ["--directory", str(tmp_path / "kept")]
    missing = CliRunner().invoke(cli.program(), ["ek-roots", "import", str(tmp_path / "none"), *kept])
    assert missing.exit_code == 2
    (tmp_path / "empty").mkdir()
    empty = CliRunner().invoke(cli.program(), ["ek-roots", "import", str(tmp_path / "empty"), *kept])
    assert empty.exit_code == 1
    assert "no certificate found" in empty.output
