"""`fleetd restore`: after a backup of the database was put back."""

import typer

from fleetd.app import restored
from fleetd.cli.configuration import settings_of
from fleetd.cli.terminal import person
from fleetd.wiring import Parts

restore = typer.Typer(help="After a backup of the database was put back.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(restore, name="restore")


@restore.command()
def hold(context: typer.Context) -> None:
    """Hold every run that erases. Say it before a process starts on the restored database."""
    parts = Parts(settings_of(context))
    with parts.sessions.begin() as session:
        restored.hold(session, person(), parts.clock.now())
    typer.echo("Runs that erase are held. Compare the open runs with NetBox, cancel what is over, then resume.")


@restore.command()
def resume(context: typer.Context) -> None:
    """Let runs that erase go on.

    Exit status: 0 they go on, 1 nothing was held.
    """
    parts = Parts(settings_of(context))
    with parts.sessions.begin() as session:
        done = restored.resume(session, person(), parts.clock.now())
    typer.echo("Runs that erase go on." if done else "Nothing was held.")
    raise typer.Exit(not done)
