"""The Celery application: its configuration, its schedule, and how a message is sent. What messages ask for is in `tasks`.

A message says "look now" and may be lost: messages are acknowledged early, expire before the next sweep, and leave no
result. The broker holds nothing that matters. Whoever only sends need not load what answers.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import structlog
from celery import Celery
from celery.signals import beat_init

from fleetd.config import Settings, load_settings
from fleetd.core.names import MachineId

HARD_LIMIT: Final = 120
"""Seconds until a task is killed; shorter than a lease."""

_log = structlog.get_logger(__name__)


@lru_cache
def settings() -> Settings:
    """Return the configuration of this process."""
    return load_settings()


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


def wake(machine: MachineId) -> None:
    """Ask for a look soon; without a broker the sweep does it."""
    soon("look", settings().intervals.sweep, machine)


def ask_for_poll() -> None:
    """Ask for a poll soon; without a broker the beat does it."""
    soon("poll", settings().intervals.poll)


def soon(task: str, expires: float, *arguments: Any, **named: Any) -> None:
    """Send a message for the task of this name, which is worth nothing after `expires` seconds. Never raises."""
    try:
        celery.send_task(f"fleetd.{task}", arguments, named, expires=expires, ignore_result=True)
    except Exception as error:  # noqa: BLE001 -- whatever the broker's client raises, the message may be lost
        _log.info("no broker for a message", task=task, error=type(error).__name__)


def _begun(**_: Any) -> None:
    """Read all declarations, and the runs that NetBox holds as final, at every start."""
    soon("poll", 60, full=True)


beat_init.connect(_begun)
