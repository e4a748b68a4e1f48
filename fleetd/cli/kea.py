"""`fleetd kea`: DHCP reservations."""

import typer

from fleetd.app.reservations import left_out
from fleetd.cli.configuration import settings_of
from fleetd.ports import OutsideError
from fleetd.wiring import Parts

kea = typer.Typer(help="DHCP reservations.", no_args_is_help=True)


@kea.callback()
def group() -> None:
    """DHCP reservations."""


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(kea, name="kea")


@kea.command()
def write(context: typer.Context) -> None:
    """Write Kea's reservations as NetBox last declared them, and make Kea read them, where they changed.

    Exit status: 0 as declared, 1 some machines are left out, 2 not written or Kea refuses.
    """
    settings = settings_of(context)
    if not settings.kea.subnets:
        typer.echo("no subnet is named: set kea.subnets in the configuration", err=True)
        raise typer.Exit(2)
    parts = Parts(settings)
    try:
        changed = parts.reservations.keep()
    except OutsideError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(2) from error
    with parts.sessions() as session:
        absent = left_out(session)
    typer.echo(f"{changed} of {len(settings.kea.subnets)} files changed")
    for machine, why in absent.items():
        typer.echo(f"left out: machine {machine}: {why}", err=True)
    raise typer.Exit(1 if absent else 0)
