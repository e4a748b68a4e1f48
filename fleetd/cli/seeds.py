"""`fleetd seeds`: what a node would get."""

import io
import json
import tarfile
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy import select

from fleetd.app.rows import declaration_of
from fleetd.cli.configuration import settings_of
from fleetd.core.names import Family
from fleetd.core.seed import SEED_SCHEMA, rehearsal
from fleetd.seeds.templates import SeedError
from fleetd.store.machines import MachineRow
from fleetd.wiring import Parts

seeds = typer.Typer(help="Seeds of nodes.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(seeds, name="seeds")


@seeds.command()
def render(
    context: typer.Context,
    device: Annotated[str, typer.Option(help="Device or node name.")],
    *,
    redact: Annotated[bool, typer.Option("--redact/--reveal", help="Hide secrets, or print them.")] = True,
    output: Annotated[Path | None, typer.Option(help="Write the seed's bytes here instead.")] = None,
) -> None:
    """Show what a node would get, from what NetBox last declared of it.

    Exit status: 0 rendered, 1 not renderable, 2 no such node.
    """
    parts = Parts(settings_of(context))
    with parts.sessions() as session:
        rows = session.scalars(select(MachineRow).where(~MachineRow.vanished))
        declared = [found for row in rows if (found := declaration_of(row)) is not None]
    named = [item for item in declared if device in {item.device_name, item.node_name}]
    if len(named) != 1:
        typer.echo(f"{len(named)} machines are called {device}", err=True)
        raise typer.Exit(2)
    machine_class = parts.class_file.book().get(named[0].machine_class)
    if machine_class is None:
        typer.echo(f"the class {named[0].machine_class} is not in force: {parts.class_file.problem}", err=True)
        raise typer.Exit(1)
    inputs = rehearsal(named[0], machine_class, parts.settings.machine.public_url, parts.machine_ca)
    try:
        content = parts.seeds.redacted(inputs) if redact else parts.seeds.render(inputs)
    except SeedError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from error
    if output is not None:
        output.touch(mode=0o600)
        output.write_bytes(content)
        return
    _print(content, archive=machine_class.family is Family.CLOUD_INIT_NOCLOUD)


@seeds.command()
def schema() -> None:
    """Print the JSON Schema of the seed of the image families (docs/reference/seed.schema.json)."""
    typer.echo(json.dumps(SEED_SCHEMA, indent=2))


def _print(content: bytes, *, archive: bool) -> None:
    if not archive:
        typer.echo(content.decode())
        return
    with tarfile.open(fileobj=io.BytesIO(content)) as files:
        for member in files:
            stream = files.extractfile(member)
            assert stream is not None
            typer.echo(f"--- {member.name}\n{stream.read().decode()}")
