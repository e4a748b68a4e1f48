"""What a machine or NetBox says is text on the terminal, never markup of the table it stands in."""

import re
from pathlib import Path

import pytest
from rich.console import Console

import fleetd.cli
from fleetd.cli.inspect_log import show_findings
from fleetd.cli.terminal import show_rows

HOSTILE = "guard: no disk [/dev/sda] [red]here[/red]"
FILES = sorted(Path(fleetd.cli.__path__[0]).glob("*.py"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_no_command_reads_markup(file):
    consoles = re.findall(r"\bConsole\(([^)]*)\)", file.read_text())

    assert all("markup=False" in options for options in consoles)


def test_a_message_with_brackets_does_not_break_a_table(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "250")

    show_rows(("node", "says"), [("n1", HOSTILE)])

    assert HOSTILE in capsys.readouterr().out


def test_a_finding_with_brackets_is_printed_as_it_stands(capsys):
    show_findings(Console(markup=False, soft_wrap=True), [{"severity": "fatal", "message": HOSTILE, "next_step": ""}])

    assert HOSTILE in capsys.readouterr().out
