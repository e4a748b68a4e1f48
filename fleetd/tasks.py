"""The Celery application and its tasks, a few lines each: a message says "look now" and may be lost.

Messages are acknowledged early, expire before the next sweep, and leave no result: the broker holds nothing that
matters.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import structlog
from celery import Celery
from celery.signals import beat_init, worker_process_init

from fleetd.app.fleet_reports import FleetReporter
from fleetd.app.look import look_at
from fleetd.app.poll import poll as poll_declarations
from fleetd.app.report import send_reports
from fleetd.app.sweep import forget_old
from fleetd.app.sweep import sweep as sweep_machines
from fleetd.ca.signer import KeyFileError
from fleetd.ca.tree import TreeError, keep_server_certificate
from fleetd.config import Settings, load_settings
from fleetd.core.names import MachineId
from fleetd.logs import log_as_json
from fleetd.ports import OutsideError
from fleetd.secret_files import SecretFileError
from fleetd.store.tokens import forget_expired
from fleetd.wiring import Parts

HARD_LIMIT = 120
"""Seconds until a task is killed; shorter than a lease."""

_log = structlog.get_logger(__name__)


@lru_cache
def settings() -> Settings:
    """Return the configuration of this process."""
    return load_settings()


@lru_cache
def parts() -> Parts:
    """Return the parts of this process; made after the fork, since connections do not survive one."""
    return Parts(settings(), wake=wake)


def configuration() -> Mapping[str, Any]:
    """Return Celery's configuration, with the intervals that the owner chose."""
    every = settings().intervals
    return {
        "broker_url": settings().broker.address(),
        "broker_connection_retry_on_startup": True,
        "broker_transport_options": {"socket_timeout": 5, "socket_connect_timeout": 5},
        "task_ignore_result": True,
        "task_acks_late": False,
        "task_time_limit": HARD_LIMIT,
        "task_serializer": "json",
        "accept_content": ["json"],
        "task_publish_retry": False,
        "worker_prefetch_multiplier": 1,
        "worker_max_tasks_per_child": 1000,
        "worker_max_memory_per_child": 400_000,  # KiB; pages shared with the parent count
        "worker_hijack_root_logger": False,
        "worker_redirect_stdouts": False,
        "worker_send_task_events": False,
        "timezone": "UTC",
        "beat_schedule": {
            name: {"task": f"fleetd.{name}", "schedule": seconds, "options": {"expires": seconds}}
            for name, seconds in (
                ("sweep", every.sweep),
                ("poll", every.poll),
                ("report", every.report),
                ("housekeeping", 600.0),
                ("reservations", 60.0),
            )
        },
    }


# Without fixups: with DJANGO_SETTINGS_MODULE in its environment Celery would load NetBox into every worker.
celery = Celery("fleetd", set_as_current=False, fixups=[])
celery.add_defaults(configuration)


def _task(name: str) -> Callable[[Callable[..., None]], Any]:
    made: Callable[[Callable[..., None]], Any] = celery.task(name=name)
    return made


@_task("fleetd.look")
def look(machine: int) -> None:
    """Look at one machine."""
    with structlog.contextvars.bound_contextvars(machine=machine):
        look_at(MachineId(machine), parts().world)
    _soon(report, settings().intervals.report)


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
            _soon(reservations, settings().intervals.poll)


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


def wake(machine: MachineId) -> None:
    """Ask for a look soon; without a broker the sweep does it."""
    _soon(look, settings().intervals.sweep, machine)


def ask_for_poll() -> None:
    """Ask for a poll soon; without a broker the beat does it."""
    _soon(poll, settings().intervals.poll)


def _soon(task: Any, expires: float, *arguments: Any, **named: Any) -> None:
    try:
        task.apply_async(arguments, named, expires=expires)
    except Exception as error:  # noqa: BLE001 -- whatever the broker's client raises, the message may be lost
        _log.info("no broker for a message", task=task.name, error=type(error).__name__)


def _forked(**_: Any) -> None:
    """Let each worker process make its own parts and logs."""
    parts.cache_clear()
    log_as_json(settings().log_level)


def _begun(**_: Any) -> None:
    """Read all declarations, and the runs that NetBox holds as final, at every start."""
    _soon(poll, 60, full=True)


worker_process_init.connect(_forked)
beat_init.connect(_begun)
