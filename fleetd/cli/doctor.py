"""`fleetd doctor`: what is wrong with the set-up, and what to do about it."""

import json
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fleetd.cli.configuration import settings_of
from fleetd.doctor.notes import Level, Note

_COLOURS = {Level.GOOD: "green", Level.WARNS: "yellow", Level.BROKEN: "red"}


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("doctor")(doctor)


def doctor(
    context: typer.Context,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Examine database, broker, NetBox, Tinkerbell, keys and files; nothing is changed.

    Exit status: 0 nothing is broken, 1 something is, 2 the configuration is wrong.
    """
    from fleetd.doctor.examine import examine

    notes = list(examine(settings_of(context)))
    if as_json:
        typer.echo(json.dumps([asdict(note) for note in notes], indent=2))
    else:
        _print(notes)
    raise typer.Exit(any(note.level is Level.BROKEN for note in notes))


def _print(notes: list[Note]) -> None:
    table = Table("part", "", "what is seen", "what to do", box=None, pad_edge=False)
    for note in notes:
        level = Text(note.level.value, style=_COLOURS[note.level])
        table.add_row(note.part, level, note.says, note.do)
    Console(markup=False).print(table)
