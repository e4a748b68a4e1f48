"""A decision written into the rows of its machine and run, with the audit of what changed."""

from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.orm import Session

from fleetd.app.rows import put_state
from fleetd.core.declaration import Declaration
from fleetd.core.lifecycle.decision import Decision
from fleetd.core.lifecycle.observed import Observed
from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.states import Ended, Ending, Erasing, Installing, Outcome
from fleetd.core.names import IntentKind
from fleetd.core.records import to_record
from fleetd.store import audit
from fleetd.store.machines import MachineRow
from fleetd.store.runs import RunRow

_MOST_OUTAGE = timedelta(minutes=5)


def write_decision(
    session: Session, row: MachineRow, run_row: RunRow, run: Run, seen: Observed, decision: Decision, now: datetime
) -> None:
    """Write the next state and everything that follows from it. Both rows are locked by the caller."""
    if seen.fresh and seen.declaration is not None:
        take_declaration(row, seen.declaration, now)
    if decision.orders is not None:
        run_row.orders = to_record(decision.orders)
        run_row.began_at = now
    if decision.message and not isinstance(run.state, Ending):
        run_row.message = decision.message[:500]
    moved = decision.state.name != run.state.name
    if moved or decision.findings:
        run_row.findings = [finding.as_dict() for finding in decision.findings] or _kept(run_row, decision)
    _count_outage(row, run_row, seen, now, moved=moved)
    put_state(run_row, decision.state)
    if moved:
        _moved(session, row, run_row, run, seen, decision, now)


def take_declaration(row: MachineRow, declared: Declaration, now: datetime) -> None:
    """Write what NetBox declares."""
    row.declaration = to_record(declared)
    row.declared_at = now
    row.vanished = False
    row.node_name = declared.node_name
    row.machine_class = declared.machine_class
    row.disk_serial = declared.disk.serial if declared.disk else ""


def _kept(run_row: RunRow, decision: Decision) -> list[Any]:
    """The reason of an end stays with the run; a state that goes well says nothing."""
    return run_row.findings if isinstance(decision.state, Ended) and decision.state.code else []


def _count_outage(row: MachineRow, run_row: RunRow, seen: Observed, now: datetime, *, moved: bool) -> None:
    if moved:
        run_row.outage_seconds = 0.0
    elif seen.outage and row.looked_at is not None:
        run_row.outage_seconds += min(now - row.looked_at, _MOST_OUTAGE).total_seconds()


def _moved(
    session: Session, row: MachineRow, run_row: RunRow, run: Run, seen: Observed, decision: Decision, now: datetime
) -> None:
    state = decision.state
    audit.record(
        session,
        now,
        f"run-{state.name}",
        machine=run.machine,
        run=run.id,
        before=run.state.name,
        message=decision.message,
    )
    good = not isinstance(state, Ending | Ended) or state.outcome is Outcome.SUCCEEDED
    steps = [dict(step) for step in run_row.steps]
    if steps and steps[-1]["ended"] is None:
        message = "" if good else decision.message[:500]
        steps[-1] |= {"state": "done" if good else "failed", "ended": now.isoformat(), "message": message}
    if not isinstance(state, Ending | Ended):
        steps.append({"name": state.name, "state": "running", "started": now.isoformat(), "ended": None, "message": ""})
    run_row.steps = steps
    if isinstance(state, Erasing) and not isinstance(state, Installing):
        _nothing_installed(row)
    if isinstance(state, Ending | Ended) and not run_row.outcome:
        run_row.outcome, run_row.code = state.outcome.value, state.code
    if isinstance(state, Ended):
        run_row.ended_at = now
        row.run_open = False
        if state.outcome is Outcome.SUCCEEDED:
            _succeeded(row, run_row, run, seen)


def _nothing_installed(row: MachineRow) -> None:
    row.standing = "declared"
    row.installed_run, row.installed_digest = None, ""
    row.report_due = row.report_due or row.check_state != "none"
    row.check_state, row.check_due_at, row.check_findings = "none", None, []
    row.baseline_digest = row.offered_digest = ""


def _succeeded(row: MachineRow, run_row: RunRow, run: Run, seen: Observed) -> None:
    match run.kind:
        case IntentKind.PROVISION:
            row.standing, row.check_state, row.report_due = "active", "awaited", True
            row.installed_run = run.id
            row.installed_digest = seen.machine_class.digest if seen.machine_class else ""
            _trusted_again(row)
        case IntentKind.ATTEST:
            if not run.was_active:
                row.standing = "attested"
            # What was asked for before the release proves nothing about the machine as its owner released it.
            if row.release_requested_at is not None and row.release_requested_at <= run_row.opened_at:
                _trusted_again(row)
        case IntentKind.WIPE:
            _nothing_installed(row)
            row.standing = "wiped"
            _trusted_again(row)
        case IntentKind.RETIRE:
            _nothing_installed(row)
            row.standing = "retired"
            _trusted_again(row)


def _trusted_again(row: MachineRow) -> None:
    row.quarantined_at, row.quarantine_reason, row.release_requested_at = None, "", None
    row.hold_wanted = False
