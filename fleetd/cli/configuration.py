"""`fleetd config`: whether the configuration can be used, and what is in force."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

import typer
from pydantic.fields import FieldInfo
from rich.console import Console

from fleetd.config import CONFIG_VARIABLE, ConfigError, Section, Settings, effective, load_settings, secret_problems

config = typer.Typer(help="The configuration.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(config, name="config")


def settings_of(context: typer.Context) -> Settings:
    """Return the configuration that `--config` or the environment names; ends the command with 2 where it is wrong."""
    path: Path | None = (context.find_root().obj or {}).get("config")
    try:
        return load_settings(path)
    except ConfigError as error:
        for line in error.errors:
            typer.echo(f"configuration: {line}", err=True)
        raise typer.Exit(2) from error


def begin_service(context: typer.Context) -> Settings:
    """Return the configuration of a process that serves or works, and hand its place on to those that come from it.

    Ends the command with 1 where the tables are those of another version: nothing is read or written through them. A
    database that is away is waited for, as later.
    """
    settings = settings_of(context)
    path: Path | None = (context.find_root().obj or {}).get("config")
    if path is not None:
        # Celery's application reads the configuration by itself.
        os.environ[CONFIG_VARIABLE] = str(path)
    problem = _tables_problem(settings)
    if problem:
        typer.echo(f"fleetd {context.info_name}: {problem}", err=True)
        raise typer.Exit(1)
    return settings


def _tables_problem(settings: Settings) -> str:
    from sqlalchemy.exc import OperationalError

    from fleetd.secret_files import SecretFileError
    from fleetd.store.engine import open_engine
    from fleetd.store.revision import revision, revision_problem

    try:
        engine = open_engine(settings.database.address(), pool_size=1)
    except SecretFileError as error:
        return str(error)
    try:
        with engine.connect() as connection:
            return ". ".join(revision_problem(revision(connection)) or ())
    except OperationalError:
        return ""
    finally:
        engine.dispose()


@config.command()
def check(context: typer.Context) -> None:
    """Name every error with its path; where there is none, print the values in force, secrets hidden.

    Exit status: 0 usable, 1 a secret file is not, 2 wrong.
    """
    settings = settings_of(context)
    problems = secret_problems(settings)
    if problems:
        for problem in problems:
            typer.echo(problem, err=True)
        typer.echo(f"{len(problems)} to mend; the values in force are shown when nothing is wrong", err=True)
        raise typer.Exit(1)
    Console(soft_wrap=True, markup=False).print_json(json.dumps(effective(settings)))


@config.command()
def reference() -> None:
    """Print every section and key with its default, as Markdown; `docs/reference/configuration.md` is this."""
    typer.echo(reference_page(), nl=False)


def reference_page() -> str:
    """Return the reference of the configuration, made from the code that reads it."""
    lines = [
        "# Configuration of fleetd",
        "",
        "One TOML file (`--config`, else `FLEETD_CONFIG`, else `/etc/fleetd/fleetd.toml`) and the environment, which wins:",
        "`FLEETD_NETBOX__URL` is `url` in `[netbox]`. Unknown keys are errors; `fleetd config check` names each. Times are seconds.",
        "Made by `fleetd config reference`.",
    ]
    plain = {name: field for name, field in Settings.model_fields.items() if not _is_section(field.annotation)}
    lines += ["", "## Top level", *_rows(plain)]
    for name, field in Settings.model_fields.items():
        section = field.annotation
        if _is_section(section):
            words = (section.__doc__ or "").strip()
            lines += ["", f"## [{name}]", "", words, *_rows(section.model_fields)]
    return "\n".join(lines) + "\n"


def _is_section(kind: Any) -> TypeGuard[type[Section]]:
    return isinstance(kind, type) and issubclass(kind, Section)


def _rows(fields: Mapping[str, FieldInfo]) -> list[str]:
    rows = ["", "| key | default | |", "| --- | --- | --- |"]
    for name, field in fields.items():
        default = None if field.default_factory else field.get_default()
        shown = "" if default is None or default == "" else f"`{default}`"
        rows.append(f"| `{name}` | {shown} | {' '.join((field.description or '').split())} |")
    return rows
