"""Whether a destructive action may start now: the only place that says yes."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import timedelta

from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.states import Erasing
from fleetd.core.names import DiskSerial, IntentKind

DESTRUCTIVE = ("erase", "write-image", "write-seed", "set-boot")
"""The actions that ask, in the order in which they run."""

_SOON = timedelta(seconds=5)


@dataclass(frozen=True, slots=True)
class Granted:
    """The action may start on the disk within the time that the service gives."""


@dataclass(frozen=True, slots=True)
class NotNow:
    """Why not; `stop` when asking again will not help."""

    why: str
    stop: bool
    retry_after: timedelta | None = None


def may_start(
    run: Run, action: str, serial: DiskSerial, *, finished: Collection[str], cancelled: bool, clock_ok: bool
) -> Granted | NotNow:
    """Decide about one action of a run on the disk with that serial; `finished` are the actions that have finished."""
    if action not in DESTRUCTIVE:
        return NotNow(f"no leave exists for the action {action[:40]!r}", stop=True)
    if not run.kind.erases:
        return NotNow("this run erases nothing", stop=True)
    if cancelled or run.over:
        return NotNow("the run is cancelled or over", stop=True)
    if serial not in disks_of(run):
        return NotNow("the disk's serial is not the declared one", stop=True)
    if not isinstance(run.state, Erasing):
        return _too_early(run)
    if not clock_ok:
        return NotNow(
            "the clock of the service cannot be trusted; nothing destructive starts", stop=False, retry_after=_SOON
        )
    return _in_order(run, action, finished)


def disks_of(run: Run) -> tuple[DiskSerial, ...]:
    """Return the serials that the run may erase: declared ones only, and one disk only where a system is installed."""
    orders = run.orders
    if orders.disk is None:
        return ()
    extra = () if run.kind is IntentKind.PROVISION else tuple(disk.serial for disk in orders.extra_disks)
    return (orders.disk.serial, *extra)


def _too_early(run: Run) -> NotNow:
    if run.state.before_disk:
        return NotNow("the run has not come to its disk yet", stop=False, retry_after=_SOON)
    return NotNow("the run is past its disk", stop=True)


def _in_order(run: Run, action: str, finished: Collection[str]) -> Granted | NotNow:
    if action == "erase":
        if "write-image" in finished:
            return NotNow("the image is written; it is not erased again in this run", stop=True)
        return Granted()
    if run.kind is not IntentKind.PROVISION:
        return NotNow("this run writes nothing", stop=True)
    if "erase" not in finished:
        return NotNow("the erase has not reported that it finished", stop=False, retry_after=_SOON)
    return Granted()
