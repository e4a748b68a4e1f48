"""`fleetd clock`: whether the host's clock is trusted with what destroys, and a person's word that it is right."""

from typing import Annotated

import typer

from fleetd.cli.configuration import settings_of
from fleetd.cli.terminal import person
from fleetd.store.clock import accept_clock, clock_holds, stepped_at
from fleetd.wiring import Parts

clock = typer.Typer(help="The clock of the service host.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(clock, name="clock")


@clock.command()
def show(context: typer.Context) -> None:
    """Say whether the clock is trusted, and when it was set last.

    Exit status: 0 trusted, 1 not.
    """
    parts = Parts(settings_of(context))
    now, settle = parts.clock.now(), parts.settings.timing().clock_settles
    with parts.sessions() as session:
        stepped, holds = stepped_at(session), clock_holds(session, now, settle)
    typer.echo(f"It is {now.isoformat(timespec='seconds')}; last set: {stepped or 'never'}.")
    typer.echo("trusted" if holds else "not trusted: nothing destructive starts")
    raise typer.Exit(0 if holds else 1)


@clock.command()
def accept(context: typer.Context, reason: Annotated[str, typer.Option(help="Why; kept in the audit.")]) -> None:
    """Say that the clock is right now, whatever was written when it was wrong.

    Needed where rows were written with a time that lies in the future, which would hold everything destructive until then.

    Exit status: 0 accepted, 1 refused.
    """
    if not reason.strip():
        typer.echo("--reason is empty", err=True)
        raise typer.Exit(1)
    parts = Parts(settings_of(context))
    with parts.sessions.begin() as session:
        accept_clock(session, parts.clock, person(), reason)
    typer.echo("The clock is accepted as it is now.")
