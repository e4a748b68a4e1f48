"""`fleetd migrate`: bring the database to what this version needs."""

import typer

from fleetd.cli.configuration import settings_of


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("migrate")(migrate)


def migrate(context: typer.Context) -> None:
    """Create or change the tables; safe to run again, and by two at once."""
    from fleetd.store.migrate import NewerTablesError, upgrade

    settings = settings_of(context)
    try:
        at = upgrade(settings.database.address())
    except NewerTablesError as problem:
        typer.echo(f"Nothing was changed: {problem}", err=True)
        raise typer.Exit(1) from problem
    typer.echo(f"the database is at {at}")
