"""`fleetd serve`: the machine listener and the inside listener in one process, or in several that share the ports."""

import multiprocessing
import signal
import sys
from types import FrameType

import typer

from fleetd.cli.configuration import begin_service
from fleetd.config import Settings


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("serve")(serve)


def serve(context: typer.Context) -> None:
    """Serve machines, NetBox's webhook, metrics and readiness until SIGTERM.

    Exit status: 0 stopped, 1 cannot start.
    """
    settings = begin_service(context)
    if settings.machine.processes == 1:
        run_here(settings)
        return
    children = [
        multiprocessing.get_context("spawn").Process(target=run_here, args=(settings,), daemon=False)
        for _ in range(settings.machine.processes)
    ]
    for child in children:
        child.start()

    def stop(number: int, frame: FrameType | None) -> None:
        del frame
        for child in children:
            if child.is_alive():
                child.terminate()
        if number == signal.SIGINT:
            sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    for child in children:
        child.join()
    raise typer.Exit(max((child.exitcode or 0) > 0 for child in children))


def run_here(settings: Settings) -> None:
    """Run both listeners in this process."""
    # Imported where it runs: the other commands need none of it, and start the sooner.
    from fleetd.cli import listeners

    listeners.run_here(settings)
