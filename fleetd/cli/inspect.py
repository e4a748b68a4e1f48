"""`fleetd inspect`: look at evidence with no service, no database and no configuration."""

import typer

from fleetd.cli import inspect_ek, inspect_log, inspect_quote

inspect = typer.Typer(help="Look at evidence from files.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    for part in (inspect_ek, inspect_log, inspect_quote):
        part.add_to(inspect)
    app.add_typer(inspect, name="inspect")
