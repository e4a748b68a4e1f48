"""The tasks that messages ask for, a few lines each."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import structlog
from celery.signals import worker_process_init

from fleetd.app.fleet_reports import FleetReporter
from fleetd.app.look import look_at
from fleetd.app.poll import poll as poll_declarations
from fleetd.app.report import send_reports
from fleetd.app.sweep import forget_old
from fleetd.app.sweep import sweep as sweep_machines
from fleetd.broker import celery, settings, soon, wake
from fleetd.ca.signer import KeyFileError
from fleetd.ca.tree import TreeError, keep_server_certificate
from fleetd.core.names import MachineId
from fleetd.logs import log_as_json
from fleetd.ports import OutsideError
from fleetd.secret_files import SecretFileError
from fleetd.store.tokens import forget_expired
from fleetd.wiring import Parts

_log = structlog.get_logger(__name__)


@lru_cache
def parts() -> Parts:
    """Return the parts of this process; made after the fork, since connections do not survive one."""
    return Parts(settings(), wake=wake)


def _task(name: str) -> Callable[[Callable[..., None]], Any]:
    made: Callable[[Callable[..., None]], Any] = celery.task(name=name)
    return made


@_task("fleetd.look")
def look(machine: int) -> None:
    """Look at one machine."""
    with structlog.contextvars.bound_contextvars(machine=machine):
        look_at(MachineId(machine), parts().world)
    soon("report", settings().intervals.report)


@_task("fleetd.sweep")
def sweep() -> None:
    """Wake what is due, and chain the audit."""
    sweep_machines(parts().world)


@_task("fleetd.poll")
def poll(*, full: bool = False) -> None:
    """Read what changed in NetBox."""
    try:
        found = poll_declarations(parts().world, full=full)
    except OutsideError as problem:
        _log.warning("NetBox cannot be read", problem=str(problem))
    else:
        if found.changed:
            soon("reservations", settings().intervals.poll)


@_task("fleetd.reservations")
def reservations() -> None:
    """Keep DHCP reservations as NetBox declares them."""
    try:
        parts().reservations.keep()
    except OutsideError as problem:
        _log.error("DHCP reservations are not kept", problem=str(problem))


@_task("fleetd.report")
def report() -> None:
    """Send what NetBox has not accepted yet."""
    made = parts()
    send_reports(made.world)
    fleet = FleetReporter(
        made.sessions, made.inventory, made.class_file.book, made.clock, made.world.settings.service.version
    )
    try:
        fleet.send()
    except OutsideError as problem:
        _log.warning("NetBox takes no reports", problem=str(problem))


@_task("fleetd.housekeeping")
def housekeeping() -> None:
    """Finish what a crash cut off in the authority, keep its lists fresh, and forget what is old."""
    made = parts()
    made.issuer.sweep_intents()
    try:
        if renewed := made.authority.keep_fresh():
            _log.info("revocation lists signed", authorities=renewed)
    except (TreeError, KeyFileError, SecretFileError) as problem:
        _log.error("lists cannot be signed", problem=str(problem))
    try:
        if made.settings.machine.certificate is None:
            keep_server_certificate(made.tree, made.server_names, made.clock.now(), made.random)
    except (TreeError, KeyFileError, SecretFileError) as problem:
        _log.error("the server's certificate cannot be signed", problem=str(problem))
    with made.sessions.begin() as session:
        forget_expired(session, made.clock.now())
    forget_old(made.world)
    try:
        removed = made.world.provisioner.collect_templates()
    except (OutsideError, OSError) as problem:
        _log.warning("old Templates cannot be removed", problem=str(problem))
    else:
        _log.info("old Templates removed", templates=removed)


def _forked(**_: Any) -> None:
    """Let each worker process make its own parts and logs."""
    parts.cache_clear()
    log_as_json(settings().log_level)


worker_process_init.connect(_forked)
