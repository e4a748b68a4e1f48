"""`fleetd worker`, `fleetd beat` and `fleetd watch`: the processes beside `fleetd serve`. Two of each are safe."""

import gc
import signal
import threading
from importlib import import_module
from typing import Annotated

import typer

from fleetd.cli.configuration import begin_service
from fleetd.config import Settings
from fleetd.core.names import MachineId
from fleetd.logs import log_as_json


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command("worker")(worker)
    app.command("beat")(beat)
    app.command("watch")(watch)


def worker(
    context: typer.Context,
    concurrency: Annotated[int, typer.Option(min=1, max=64, help="Processes that look at machines.")] = 2,
) -> None:
    """Look at machines as messages ask for it, until SIGTERM."""
    _begin(context)
    # Loaded before the fork, so that the worker's processes share their memory.
    for part in ("fleetd.tasks", "fleetd.tinkerbell.provisioner", "fleetd.tinkerbell.power"):
        import_module(part)
    from fleetd.broker import celery

    gc.collect()
    gc.freeze()  # else each process's collector writes to what it shares with the others, and owns a copy of it
    celery.worker_main(
        ["worker", f"--concurrency={concurrency}", "--without-gossip", "--without-mingle", "--loglevel=warning"]
    )


def beat(context: typer.Context) -> None:
    """Send the messages of sweep, poll, report and housekeeping in their intervals, until SIGTERM."""
    _begin(context)
    from fleetd.broker import celery

    celery.start(["beat", "--scheduler=celery.beat:Scheduler", "--pidfile=", "--loglevel=warning"])


def watch(context: typer.Context) -> None:
    """Follow Tinkerbell and Rufio, and ask for a look at each machine whose objects change, until SIGTERM."""
    settings = _begin(context)
    from fleetd.broker import wake
    from fleetd.host import SystemClock
    from fleetd.store.engine import open_engine, session_factory
    from fleetd.store.machines import wake as wake_row
    from fleetd.tinkerbell.api import Api
    from fleetd.tinkerbell.connect import configuration
    from fleetd.tinkerbell.reflector import watch as follow

    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    sessions, clock = session_factory(open_engine(settings.database.address(), pool_size=2)), SystemClock()

    def woken(machine: MachineId) -> None:
        with sessions.begin() as session:
            wake_row(session, machine, clock.now())
        wake(machine)

    wanted = settings.tinkerbell
    follow(Api(configuration(wanted.kubeconfig), wanted.namespace, wanted.timeout), woken, stop)


def _begin(context: typer.Context) -> Settings:
    """Return the configuration; what is logged from here on is JSON."""
    settings = begin_service(context)
    log_as_json(settings.log_level)
    return settings
