"""What NetBox changed or took back while a run is under way."""

from collections.abc import Iterator

from fleetd.core.declaration import Declaration
from fleetd.core.findings import Finding
from fleetd.core.findings import lifecycle as say
from fleetd.core.lifecycle.decision import Moment
from fleetd.core.lifecycle.states import AwaitingCheck, Gated, Outcome, PoweringDown, Withdrawing


def changed(before: Declaration, now: Declaration) -> Iterator[str]:
    """Name what differs of that which a run goes by."""
    if before.machine_class != now.machine_class:
        yield "class"
    if before.disk != now.disk or before.extra_disks != now.extra_disks:
        yield "disk serial"
    if set(before.macs) != set(now.macs):
        yield "MAC addresses"
    if (before.bmc_address, before.bmc_secret) != (now.bmc_address, now.bmc_secret):
        yield "BMC"
    approved = {key.id for key in now.keys if key.status == "approved"}
    if any(key.status == "approved" and key.id not in approved for key in before.keys):
        yield "endorsement key"


def stop_cause(at: Moment) -> tuple[Outcome, Finding] | None:
    """Return why the run must end before its time, None when it need not."""
    run, declared = at.run, at.seen.declaration
    if isinstance(run.state, PoweringDown | Withdrawing):
        return None
    if at.seen.vanished:
        return Outcome.FAILED, say.Orphaned()
    if declared is None:
        return None
    return _asked_otherwise(at, declared) or _changed(at, declared)


def _asked_otherwise(at: Moment, declared: Declaration) -> tuple[Outcome, Finding] | None:
    run, intent = at.run, declared.intent
    if intent is not None and intent.id == run.id:
        if intent.cancel_requested_at is not None:
            return Outcome.CANCELLED, say.Cancelled(intent.cancel_requested_by)
        return None
    if intent is not None and intent.approved:
        return Outcome.WITHDRAWN, say.Withdrawn(intent.kind.value)
    if intent is None and run.first_leave_at is None and run.state.before_disk and at.seen.fresh:
        return Outcome.WITHDRAWN, say.Withdrawn("")
    return None


def _changed(at: Moment, declared: Declaration) -> tuple[Outcome, Finding] | None:
    run = at.run
    if run.first_leave_at is not None or isinstance(run.state, Gated | AwaitingCheck):
        return None
    if not run.kind.erases and not run.state.before_disk:
        return None
    what = tuple(dict.fromkeys((*changed(run.orders, declared), *_rejected_since(at, declared))))
    return (Outcome.FAILED, say.DeclarationChanged(what)) if what else None


def _rejected_since(at: Moment, declared: Declaration) -> Iterator[str]:
    """Name the key that a machine passed by, where it was approved in the run and is rejected meanwhile.

    What the run began with does not tell of it: it was not approved then.
    """
    passed = at.seen.verdict is not None and at.seen.verdict.state == "passed"
    statuses = {key.status for key in declared.keys}
    if passed and "rejected" in statuses and "approved" not in statuses:
        yield "endorsement key"
