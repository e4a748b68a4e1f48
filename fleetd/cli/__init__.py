"""The `fleetd` program. Its commands are modules of this package, each with a `register(app)`."""

import importlib
import pkgutil
import sys
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy.exc import OperationalError

_UNAVAILABLE = 69  # EX_UNAVAILABLE of sysexits.h: no command says anything else by it.

_HELP = "Attests, installs and checks bare-metal machines, on the word of NetBox."


def program() -> typer.Typer:
    """Return the program with the commands of every module that has some."""
    app = typer.Typer(help=_HELP, no_args_is_help=True, pretty_exceptions_show_locals=False)

    @app.callback()
    def common(
        context: typer.Context,
        config: Annotated[
            Path | None, typer.Option(help="The TOML file.", envvar="FLEETD_CONFIG", show_envvar=True)
        ] = None,
    ) -> None:
        context.obj = {"config": config}

    for found in sorted(pkgutil.iter_modules(__path__), key=lambda module: module.name):
        module = importlib.import_module(f"{__name__}.{found.name}")
        register = getattr(module, "register", None)
        if register is not None:
            register(app)
    return app


def main() -> None:
    """Run the program; where PostgreSQL does not answer, say so and what to do, with exit status 69."""
    try:
        program()()
    except OperationalError as error:
        print(
            f"fleetd: PostgreSQL cannot be used: {error.orig}\n"
            "Start it, or correct database.url and database.password_file, then run this again; "
            "`fleetd doctor` examines the rest.",
            file=sys.stderr,
        )
        sys.exit(_UNAVAILABLE)
