"""`fleetd classes`: the file of machine classes, checked and compared without touching anything."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from fleetd.class_file import read_classes
from fleetd.cli.configuration import settings_of
from fleetd.cli.schema_page import table
from fleetd.config import Settings
from fleetd.core.class_schema import CLASSES_SCHEMA
from fleetd.core.classes import ClassBook, ClassesInvalidError, MachineClass, differences
from fleetd.core.names import Family
from fleetd.core.seed import rehearsal, specimen
from fleetd.seeds.cloud_init import schema_problem
from fleetd.seeds.rendering import SeedRenderer

classes = typer.Typer(help="Machine classes.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(classes, name="classes")


@classes.command()
def check(
    context: typer.Context,
    file: Annotated[Path | None, typer.Argument(help="The file; default from the configuration.")] = None,
    *,
    seeds: Annotated[
        bool,
        typer.Option(help="Render a seed of each on trial too, with cloud-init's own check where it is installed."),
    ] = False,
) -> None:
    """Name every error by its path, and each class that is good.

    Exit status: 0 good, 1 errors.
    """
    book = _read(file or settings_of(context).paths.classes_file)
    console = Console(soft_wrap=True, markup=False)
    failed = False
    for found in book:
        state = "installable" if found.installable else f"not installable: {found.reason}"
        console.print(f"{found.slug}: {found.family}, {state}", markup=False, highlight=False)
        if found.warning:
            console.print(f"  warning: {found.warning}", markup=False, highlight=False)
        if seeds:
            problem = _seed_problem(settings_of(context), found) if found.installable else ""
            failed = failed or bool(problem)
            if problem:
                console.print(f"  seed: {problem}", style="red", markup=False, highlight=False)
    raise typer.Exit(1 if failed else 0)


@classes.command()
def schema() -> None:
    """Print the JSON Schema of the file."""
    typer.echo(json.dumps(CLASSES_SCHEMA, indent=2))


@classes.command()
def reference() -> None:
    """Print every field of a class as Markdown; `docs/reference/classes.md` is this."""
    typer.echo(reference_page(), nl=False)


def reference_page() -> str:
    """Return the reference of the file, made from its schema."""
    entry = CLASSES_SCHEMA["properties"]["classes"]["items"]
    lines = [
        "# Machine classes",
        "",
        '`classes.json` is `{"version": 1, "classes": [..]}`; `paths.classes_file` of the [configuration](configuration.md)',
        "says where it lies, and the top of the repository has an example. Each class says what is installed on its",
        "machines and what is demanded of them.",
        "",
        "- `fleetd classes check [FILE] [--seeds]` names every error by its path; with `--seeds` it renders a seed of each",
        "  class on trial, with cloud-init's own check where cloud-init is installed. `fleetd classes schema` prints the JSON Schema, `fleetd classes diff OLD NEW` what changed.",
        "- A changed file is in force at once. One with errors is not: the last good one stays in force, and the log says why.",
        "- NetBox shows each class with its machines, and those that were installed from an older version of it: a change",
        "  of a class changes no machine until it is provisioned again.",
        "- A class with `installable: false` can be chosen in NetBox, and provisioning is refused there with its `reason`.",
        "",
        "Made by `fleetd classes reference` from the schema. Times are seconds.",
        "",
        *table(entry),
        "",
        "## Tags",
        "",
        '`"tags": {"edge": {..}}` beside `classes` demands something of all machines with a NetBox tag, by its slug, on top of',
        "what their classes demand.",
        "",
        *table(CLASSES_SCHEMA["properties"]["tags"]["additionalProperties"]),
    ]
    return "\n".join(lines) + "\n"


@classes.command()
def diff(old: Path, new: Path) -> None:
    """Say which classes were added, removed or changed.

    Exit status: 0 the same, 1 different, 2 one of the files cannot be read.
    """
    found = differences(_read(old, 2), _read(new, 2))
    for line in found:
        typer.echo(line)
    raise typer.Exit(1 if found else 0)


def _seed_problem(settings: Settings, found: MachineClass) -> str:
    """Say why a plain machine of the class would get no good seed, or nothing."""
    renderer = SeedRenderer(settings.paths.templates, settings.paths.secrets)
    inputs = rehearsal(specimen(found), found, settings.machine.public_url, "")
    problem = renderer.rehearse(inputs)
    if problem or found.family is not Family.CLOUD_INIT_NOCLOUD:
        return problem
    return schema_problem(renderer.redacted(inputs))


def _read(file: Path, status: int = 1) -> ClassBook:
    try:
        return read_classes(file)
    except ClassesInvalidError as error:
        for problem in error.errors:
            # What is wrong with the file as a whole has the file for its path.
            typer.echo(str(problem) if problem.path == str(file) else f"{file}: {problem}", err=True)
        raise typer.Exit(status) from error
