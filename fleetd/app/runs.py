"""What the machine's own calls do to its run: the seam between the HTTP side and the reconcile side.

Every function writes into the caller's open session and makes the machine due; the caller commits, and only then wakes
the machine. None of them decides what comes next: the next look does.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal

from sqlalchemy import select, update
from sqlalchemy.orm import Session

from fleetd.app.restored import why_not
from fleetd.app.rows import declaration_of, is_cancelled, lock_run, run_of
from fleetd.core.declaration import Declaration, Disk
from fleetd.core.findings import Finding
from fleetd.core.lifecycle.leave import Granted, NotNow, may_start
from fleetd.core.lifecycle.states import HandingOver
from fleetd.core.lifecycle.timing import Timing
from fleetd.core.names import IntentKind, MachineId, RunId, disk_serial
from fleetd.store import audit
from fleetd.store.checks import record_change
from fleetd.store.clock import clock_holds
from fleetd.store.events import EventRow, add_event
from fleetd.store.machines import MachineRow, wake
from fleetd.store.outbox import add_report
from fleetd.store.runs import RunRow, VerdictRow

__all__ = [
    "CheckOutcome",
    "EnrollmentAnswer",
    "EnrollmentOutcome",
    "Granted",
    "MachineEvent",
    "NotNow",
    "OpenRun",
    "grant",
    "may_reboot",
    "open_run",
    "record_check",
    "record_enrollment",
    "record_event",
    "record_redemption",
]


@dataclass(frozen=True, slots=True)
class OpenRun:
    """The run that a machine is in, as the HTTP side needs it."""

    id: RunId
    machine: MachineId
    kind: IntentKind
    state: str
    """Name of the state (docs/reference/lifecycle-states.md)."""
    machine_class: str
    disk: Disk | None
    refusals: int
    """Refused enrollments so far."""
    declaration: Declaration
    """As it was when the run began."""
    cancelled: bool
    by_check: bool
    """The run is an on-demand check: the next boot check shall bring its full log."""


@dataclass(frozen=True, slots=True)
class EnrollmentOutcome:
    """How an enrollment was judged."""

    state: Literal["passed", "waiting", "refused"]
    findings: tuple[Finding, ...]
    attestation: dict[str, Any]
    """The `attestation` of a report (docs/reference/plugin-api.md); empty when none shall be shown."""
    facts: dict[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class EnrollmentAnswer:
    """What the machine is told after a refusal."""

    stop: bool
    retry_after: timedelta | None


@dataclass(frozen=True, slots=True)
class MachineEvent:
    """One event of an action."""

    seq: int
    action: str
    kind: Literal["started", "progress", "evidence", "failed", "finished"]
    percent: float | None = None
    message: str = ""
    data: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """How a boot check was judged."""

    result: Literal["ok", "drifted", "failed"]
    findings: tuple[Finding, ...]
    difference: tuple[Any, ...]
    pcr_digest: str
    at: datetime
    baseline: dict[str, Any] = field(default_factory=dict)
    """The `baseline` of a report where one was accepted or is offered."""
    full_log: bool = True
    """Whether the check brought, or did not need, its event log."""
    quarantine: str = ""
    """Why the machine must be quarantined: a bad signature, Secure Boot off where it is required."""


def open_run(session: Session, machine: MachineId) -> OpenRun | None:
    """Return the machine's run whose outcome is not latched yet, None when there is none."""
    row = session.get(MachineRow, machine)
    if row is None or row.run_id is None or not row.run_open:
        return None
    run_row = session.execute(
        select(RunRow).where(RunRow.id == row.run_id).execution_options(populate_existing=True)
    ).scalar_one_or_none()
    if run_row is None:
        return None
    run = run_of(run_row)
    if run.over:
        return None
    return OpenRun(
        id=run.id,
        machine=machine,
        kind=run.kind,
        state=run.state.name,
        machine_class=run.orders.machine_class,
        disk=run.orders.disk,
        refusals=run.refusals,
        declaration=run.orders,
        cancelled=is_cancelled(row, run.id),
        by_check=run.by_check,
    )


def record_enrollment(
    session: Session, machine: MachineId, run: RunId | None, outcome: EnrollmentOutcome, timing: Timing | None = None
) -> EnrollmentAnswer:
    """Write the outcome of an enrollment and say whether the machine may try again after a refusal.

    A run that is over, or a machine that has no row, takes nothing: then the answer says stop.
    """
    timing = timing or Timing()
    findings = [finding.as_dict() for finding in outcome.findings]
    session.add(
        VerdictRow(
            machine_id=machine,
            run_id=run,
            state=outcome.state,
            findings=findings,
            attestation=outcome.attestation,
            facts=outcome.facts,
            at=outcome.at,
        )
    )
    _seen(session, machine, outcome.at)
    body: dict[str, Any] = {"last_seen": outcome.at.isoformat()}
    if outcome.attestation:
        body["attestation"] = outcome.attestation
    add_report(session, machine, body, outcome.at)
    audit.record(
        session,
        outcome.at,
        f"enrollment-{outcome.state}",
        who="machine",
        machine=machine,
        run=run,
        findings=[finding.code for finding in outcome.findings],
    )
    wake(session, machine, outcome.at)
    if outcome.state != "refused":
        return EnrollmentAnswer(stop=False, retry_after=None)
    return _after_refusal(session, run, timing)


def _after_refusal(session: Session, run: RunId | None, timing: Timing) -> EnrollmentAnswer:
    row = lock_run(session, run) if run is not None else None
    if row is None or run_of(row).over:
        return EnrollmentAnswer(stop=True, retry_after=None)
    row.refusals += 1
    if row.refusals > len(timing.refusal_pauses):
        return EnrollmentAnswer(stop=True, retry_after=None)
    return EnrollmentAnswer(stop=False, retry_after=timing.refusal_pauses[row.refusals - 1])


def grant(
    session: Session, run: RunId, action: str, serial: str, now: datetime, timing: Timing | None = None
) -> Granted | NotNow:
    """Decide whether a destructive action may start, and write that it was allowed.

    The run's row stays locked until the caller commits, so that no look can end the run in between; a leave that was
    granted makes a decision that did not know of it void.
    """
    row = lock_run(session, run)
    machine = session.get(MachineRow, row.machine_id, populate_existing=True) if row else None
    if row is None or machine is None or machine.run_id != run:
        return NotNow("no such run is open", stop=True)
    value = run_of(row)
    if stopped := why_not(session, run):
        return NotNow(stopped, stop=False)
    finished = set(session.scalars(select(EventRow.action).where(EventRow.run_id == run, EventRow.kind == "finished")))
    answer = may_start(
        value,
        action,
        disk_serial(serial),
        finished=finished,
        cancelled=is_cancelled(machine, run),
        clock_ok=clock_holds(session, now, (timing or Timing()).clock_settles),
    )
    _seen(session, value.machine, now)
    audit.record(
        session,
        now,
        "leave-granted" if isinstance(answer, Granted) else "leave-refused",
        who="machine",
        machine=value.machine,
        run=run,
        action=action[:40],
        serial=serial[:100],
        why="" if isinstance(answer, Granted) else answer.why,
    )
    if isinstance(answer, Granted):
        row.leaves += 1
        row.first_leave_at = row.first_leave_at or now
        wake(session, value.machine, now)
    return answer


def record_event(session: Session, run: RunId, event: MachineEvent, now: datetime) -> bool:
    """Write an event; False when this seq was seen before and nothing was written."""
    values = {
        "run_id": run,
        "seq": event.seq,
        "action": event.action[:40],
        "kind": event.kind,
        "percent": event.percent,
        "message": event.message[:500],
        "data": event.data,
        "at": now,
    }
    machine = session.scalar(select(RunRow.machine_id).where(RunRow.id == run))
    if machine is None:
        return False
    # The machine's row first: inserting the event locks the run's, and a look takes them in this order.
    _seen(session, MachineId(machine), now)
    if not add_event(session, values):
        return False
    wake(session, MachineId(machine), now)
    return True


def record_redemption(session: Session, run: RunId, now: datetime) -> None:
    """Write that the installed system fetched its seed; the first time counts."""
    row = lock_run(session, run)
    if row is None or row.redeemed_at is not None:
        return
    row.redeemed_at = now
    machine = MachineId(row.machine_id)
    audit.record(session, now, "seed-redeemed", who="machine", machine=machine, run=run)
    _seen(session, machine, now)
    wake(session, machine, now)


def may_reboot(session: Session, run: RunId, now: datetime | None = None) -> bool:
    """Tell whether the machine may now reboot by itself from its disk; a yes is written.

    Yes only where there is no BMC, after the result was latched, the Workflow removed and allowPXE cleared.
    """
    row = lock_run(session, run)
    if row is None:
        return False
    value = run_of(row)
    if not isinstance(value.state, HandingOver) or not value.state.ready or value.orders.has_bmc:
        return row.reboot_told_at is not None
    if row.reboot_told_at is None:
        row.reboot_told_at = now or value.state.since
        wake(session, value.machine, row.reboot_told_at)
    return True


def record_check(session: Session, row: MachineRow, outcome: CheckOutcome) -> None:
    """Write how a boot check of the machine, whose row is locked, was judged; only what changes something makes it due."""
    machine = MachineId(row.id)
    outcome = _with_baseline(row, outcome)
    changed = row.check_state != outcome.result or row.quarantined_at is not None or _new_baseline(row, outcome)
    row.checked_at = row.last_seen = outcome.at
    row.report_due = True
    row.check_findings = [finding.as_dict() for finding in outcome.findings]
    if outcome.result == "ok":
        row.check_ok_at = outcome.at
        row.check_due_at = None
    _take_baseline(row, outcome)
    if outcome.quarantine:
        _quarantine(session, row, outcome.quarantine, outcome.at)
    if changed:
        _report_change(session, row, outcome)
    if row.check_state != outcome.result:
        record_change(session, machine, outcome.at, outcome.result, row.check_findings, outcome.pcr_digest)
    row.check_state = outcome.result
    if changed or row.run_open:
        wake(session, machine, outcome.at)


KEYS_CONTRADICT = "Its endorsement keys contradict the ledger"
"""Why a machine is quarantined until `fleetd ek rebind`."""


def quarantine(session: Session, machine: MachineId, why: str, now: datetime) -> None:
    """Trust the machine no more: its certificates go on hold, it gets no seed and no renewal; checks are still recorded."""
    row = session.get(MachineRow, machine, with_for_update=True, populate_existing=True)
    if row is not None:
        _quarantine(session, row, why, now)
        wake(session, machine, now)


def _quarantine(session: Session, row: MachineRow, why: str, now: datetime) -> None:
    if row.quarantined_at is not None:
        return
    row.quarantined_at, row.quarantine_reason, row.hold_wanted = now, why[:500], True
    audit.record(session, now, "quarantined", machine=MachineId(row.id), why=why[:500])


def keys_agree_again(session: Session, machine: MachineId, now: datetime) -> None:
    """End a quarantine that contradicting endorsement keys began: a person rebound them."""
    row = session.get(MachineRow, machine, with_for_update=True, populate_existing=True)
    if row is None or row.quarantine_reason != KEYS_CONTRADICT:
        return
    row.quarantined_at, row.quarantine_reason, row.hold_wanted = None, "", False
    audit.record(session, now, "released", machine=machine, why="the endorsement key was rebound")
    wake(session, machine, now)


def _with_baseline(row: MachineRow, outcome: CheckOutcome) -> CheckOutcome:
    """The first good check is the baseline, and a difference is offered as one, unless the caller said otherwise."""
    if outcome.baseline or outcome.result == "failed":
        return outcome
    known = row.baseline_digest if outcome.result == "ok" else row.offered_digest
    if known and (outcome.result == "ok" or known == outcome.pcr_digest):
        return outcome
    state = "accepted" if outcome.result == "ok" else "offered"
    offer = {"digest": outcome.pcr_digest, "state": state, "pcrs": {}, "time": outcome.at.isoformat()}
    return replace(outcome, baseline=offer | {"difference": list(outcome.difference)})


def _new_baseline(row: MachineRow, outcome: CheckOutcome) -> bool:
    """Whether a baseline was accepted or is offered that was not: each check offers the same one until it is decided."""
    offered = outcome.baseline.get("state") == "offered" and outcome.baseline.get("digest") == row.offered_digest
    return bool(outcome.baseline) and not offered


def _take_baseline(row: MachineRow, outcome: CheckOutcome) -> None:
    digest = str(outcome.baseline.get("digest", ""))
    if outcome.baseline.get("state") == "accepted":
        row.baseline_digest, row.offered_digest = digest, ""
    elif digest:
        row.offered_digest = digest


def _report_change(session: Session, row: MachineRow, outcome: CheckOutcome) -> None:
    body: dict[str, Any] = {
        "boot_check": {
            "time": outcome.at.isoformat(),
            "result": outcome.result,
            "findings": row.check_findings,
            "difference": list(outcome.difference),
        },
        "last_check": outcome.at.isoformat(),
        "check_result": outcome.result,
    }
    if outcome.baseline:
        body["baseline"] = outcome.baseline
    machine = MachineId(row.id)
    add_report(session, machine, body, outcome.at)
    audit.record(session, outcome.at, f"check-{outcome.result}", who="machine", machine=machine, before=row.check_state)


def _seen(session: Session, machine: MachineId, now: datetime) -> None:
    session.execute(
        update(MachineRow)
        .where(MachineRow.id == machine)
        .values(last_seen=now)
        .execution_options(synchronize_session=False)
    )


def wants_log(session: Session, machine: MachineId) -> bool:
    """Tell whether a person asked for a check with full log that has not come yet."""
    run = open_run(session, machine)
    return run is not None and run.state == "awaiting-check"


def current_declaration(session: Session, machine: MachineId) -> Declaration | None:
    """Return what NetBox last declared of the machine."""
    row = session.get(MachineRow, machine)
    return None if row is None or row.vanished else declaration_of(row)
