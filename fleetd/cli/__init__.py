"""The `fleetd` program. Its commands are modules of this package, each with a `register(app)`."""

import importlib
import pkgutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer
from sqlalchemy.exc import OperationalError

_UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h: no command says anything else by it.

_HELP = "Attests, installs and checks bare-metal machines, on the word of NetBox."


SERVICES: Final = {"serve": "serve", "worker": "work", "beat": "work", "watch": "work"}
"""The module of each command that goes on until it is ended: its process loads no other's."""


def program(service: str = "") -> typer.Typer:
    """Return the program with the commands of every module that has some, or with those of the service's only."""
    app = typer.Typer(help=_HELP, no_args_is_help=True, pretty_exceptions_show_locals=False)

    @app.callback()
    def common(
        context: typer.Context,
        config: Annotated[
            Path | None, typer.Option(help="The TOML file.", envvar="FLEETD_CONFIG", show_envvar=True)
        ] = None,
    ) -> None:
        context.obj = {"config": config}

    names = [SERVICES[service]] if service else sorted(module.name for module in pkgutil.iter_modules(__path__))
    for name in names:
        module = importlib.import_module(f"{__name__}.{name}")
        register = getattr(module, "register", None)
        if register is not None:
            register(app)
    return app


def _service(words: Sequence[str]) -> str:
    """Return the service that these words of the command line ask for, or nothing: then every command is loaded."""
    rest = iter(words)
    for word in rest:
        if word == "--config":
            next(rest, None)
        elif not word.startswith("--config="):
            return word if word in SERVICES else ""
    return ""


def main() -> None:
    """Run the program; where PostgreSQL does not answer, say so and what to do, with exit status 69."""
    try:
        program(_service(sys.argv[1:]))()
    except OperationalError as error:
        print(
            f"fleetd: PostgreSQL cannot be used: {error.orig}\n"
            "Start it, or correct database.url and database.password_file, then run this again; "
            "`fleetd doctor` examines the rest.",
            file=sys.stderr,
        )
        sys.exit(_UNAVAILABLE)
