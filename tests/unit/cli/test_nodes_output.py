"""What NetBox or a machine says does not draw on the terminal."""

from fleetd.cli.nodes import _table


def test_control_characters_and_markup_are_shown_and_not_obeyed(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "120")

    _table("t", [{"node": "n", "value": "\x1b[2J[red]{{x}}[/red]\r\n"}], ("node", "value"))

    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert "\N{REPLACEMENT CHARACTER}[2J[red]{{x}}[/red]\N{REPLACEMENT CHARACTER}" in shown
