"""What NetBox is told: assembled from rows, queued when it changed, sent until it is accepted."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetd.app.drift import drift_of
from fleetd.app.exclusive import REPORTS, exclusive
from fleetd.app.reservations import reservation_findings
from fleetd.app.rows import declaration_of, run_of, state_of
from fleetd.app.statements import answers
from fleetd.app.world import World
from fleetd.core.findings import lifecycle as say
from fleetd.core.lifecycle.changes import changed
from fleetd.core.lifecycle.disk import ACTIONS
from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.standing import phase_of
from fleetd.core.lifecycle.states import Ended, Ending, Erasing, Gated
from fleetd.core.names import MachineId, RunId
from fleetd.ports import OutageError, RefusedError, TooLargeError
from fleetd.store import audit
from fleetd.store.events import EventRow, events_of
from fleetd.store.evidence import deeds_of, records_of
from fleetd.store.machines import MachineRow
from fleetd.store.outbox import ReportRow, add_report, next_seq, waiting
from fleetd.store.runs import RunRow

_MOST_TRIES = 3


def queue_report(session: Session, row: MachineRow, run_row: RunRow | None, now: datetime) -> None:
    """Queue what is new since the last report of this machine."""
    body = assemble(session, row, run_row, now)
    before = row.reported or {}
    news = {key: value for key, value in body.items() if before.get(key) != value}
    if news:
        row.reported = body
        add_report(session, MachineId(row.id), news, now)


def assemble(session: Session, row: MachineRow, run_row: RunRow | None, now: datetime) -> dict[str, Any]:
    """Return the whole state of a machine as a report without `machine_id` and `seq`; notes a change of phase."""
    run = run_of(run_row) if run_row is not None else None
    phase = phase_of(row.standing, run, quarantined=row.quarantined_at is not None)
    if phase.value != row.phase or row.phase_since is None:
        row.phase, row.phase_since = phase.value, now
    events = events_of(session, RunId(run_row.id)) if run_row is not None else []
    open_run = run if run is not None and not run.over else None
    body: dict[str, Any] = {
        "phase": phase.value,
        "since": row.phase_since.isoformat(),
        "deadline": open_run.state.deadline.isoformat() if open_run else None,
        "percent": _percent(open_run, events),
        "message": _message(row, run_row, run),
        "findings": _findings(session, row, run_row),
        "drift": [found.as_dict() for found in drift_of(session, row, declaration_of(row))],
        "installed_digest": row.installed_digest,
        "statements": answers(session, row),
    }
    if run_row is not None and run is not None:
        if not isinstance(run.state, Gated):
            outcome = run.state.outcome.value if isinstance(run.state, Ending | Ended) else "running"
            body["intent"] = {"id": str(run.id), "state": outcome}
        body["run"] = _run_body(session, run_row, run, events)
    return body


def _message(row: MachineRow, run_row: RunRow | None, run: Run | None) -> str:
    if row.quarantined_at is not None and (run is None or run.over):
        return say.Quarantined(row.quarantine_reason).sentence()
    return run_row.message if run_row is not None else ""


def _findings(session: Session, row: MachineRow, run_row: RunRow | None) -> list[Any]:
    found: list[Any] = list(run_row.findings) if run_row is not None else []
    found += reservation_findings(session, row.id)
    if row.standing == "active":
        found += row.check_findings
        found += _differs(row, run_row)
        if row.check_state == "late":
            found.append(say.CheckLate(row.checked_at).as_dict())
        if row.check_state == "lost":
            found.append(say.CheckLost(row.checked_at).as_dict())
    if row.quarantined_at is not None:
        found.append(say.Quarantined(row.quarantine_reason).as_dict())
    return found


def _differs(row: MachineRow, run_row: RunRow | None) -> list[Any]:
    """An installed machine that is not what NetBox declares any more."""
    declared = declaration_of(row)
    if run_row is None or declared is None or run_row.id != row.installed_run:
        return []
    what = tuple(name for name in changed(run_of(run_row).orders, declared) if name != "endorsement key")
    return [say.DiffersFromDeclaration(what).as_dict()] if what else []


def _percent(run: Run | None, events: list[EventRow]) -> float | None:
    """Return how far the action is that works on the disk now; None where none does, or none says."""
    if run is None or not isinstance(run.state, Erasing) or not events:
        return None
    last = events[-1]
    if last.kind in {"finished", "failed"}:
        return None
    return _percent_of([event for event in events if event.action == last.action])


def _percent_of(mine: list[EventRow]) -> float | None:
    """Return the last percent of an action since it last began: one that is repeated begins at nothing."""
    for event in reversed(mine):
        if event.percent is not None:
            return event.percent
        if event.kind == "started":
            return None
    return None


def _run_body(session: Session, run_row: RunRow, run: Run, events: list[EventRow]) -> dict[str, Any]:
    intent = run.orders.intent
    records = [{"kind": row.kind, "subject": row.subject, "jws": row.jws} for row in records_of(session, run.id)]
    failed = run_row.outcome in {"failed", "cancelled", "withdrawn"}
    return {
        "id": str(run.id),
        "kind": run.kind.value,
        "requester": intent.requested_by if intent else "",
        "state": run_row.outcome or run.state.name,
        "percent": _percent(None if run.over else run, events),
        "steps": steps_of(run_row, events) + _deeds(session, run),
        "result": run_row.outcome,
        "error": run_row.message if failed else "",
        "evidence": {event.action: event.data for event in events if event.kind == "finished" and event.data}
        | ({"records": records} if records else {}),
        "started": run_row.opened_at.isoformat(),
        "ended": run_row.ended_at.isoformat() if run_row.ended_at else None,
    }


def _deeds(session: Session, run: Run) -> list[dict[str, Any]]:
    """Return what was taken back, as steps after those of the run."""
    return [
        {"name": deed.step, "state": "done", "percent": None, "message": deed.message}
        | dict.fromkeys(("started", "ended"), deed.at.isoformat())
        for deed in deeds_of(session, run.id)
    ]


def steps_of(run_row: RunRow, events: list[EventRow]) -> list[dict[str, Any]]:
    """Return the steps of a run in order: its states, and inside the disk part the actions as they told it."""
    steps: list[dict[str, Any]] = []
    over = bool(run_row.outcome)
    told = [_action_step(name, events, over=over) for name in ACTIONS if any(event.action == name for event in events)]
    for step in run_row.steps:
        if step["name"] == "installing":
            continue
        if step["name"] == "erasing" and told:
            steps += told
            continue
        steps.append({"percent": None} | step)
    return steps


def _action_step(name: str, events: list[EventRow], *, over: bool) -> dict[str, Any]:
    """Return an action as a step; one that a run left behind did not come to its end."""
    mine = [event for event in events if event.action == name]
    last = mine[-1]
    state = {"finished": "done", "failed": "failed"}.get(last.kind, "failed" if over else "running")
    return {
        "name": name,
        "state": state,
        "started": mine[0].at.isoformat(),
        "ended": last.at.isoformat() if state != "running" else None,
        "percent": 100 if state == "done" else _percent_of(mine),
        "message": last.message,
    }


def send_reports(world: World) -> int:
    """Send queued reports in their order until none is left or NetBox is away; return how many were accepted.

    One process sends at a time: reports of a machine must not overtake one another.
    """
    with exclusive(world, REPORTS) as mine:
        return _send_all(world) if mine else 0


def _send_all(world: World) -> int:
    total, most = 0, world.settings.report_batch
    _queue_checks(world)
    while True:
        with world.sessions() as session:
            rows = waiting(session, most)
        if not rows:
            return total
        try:
            outcome = world.inventory.report(
                {"reports": [row.body for row in rows], "service": {"version": world.settings.service.version}}
            )
        except TooLargeError:
            if len(rows) == 1:
                return total
            most = len(rows) // 2
            continue
        except (OutageError, RefusedError):
            return total
        total += _take_answer(world, rows, set(outcome.stale), dict(outcome.rejected))


def _take_answer(world: World, rows: list[ReportRow], stale: set[MachineId], rejected: Mapping[int, str]) -> int:
    """Forget what was accepted; a stale report takes a new number, a rejected one is dropped and audited."""
    accepted = 0
    now = world.clock.now()
    with world.sessions.begin() as session:
        for index, row in enumerate(rows):
            present = session.get(ReportRow, row.id, with_for_update=True)
            if present is None:
                continue
            again = index not in rejected and MachineId(row.machine_id) in stale
            if index in rejected:
                why = rejected[index][:500]
                audit.record(session, now, "report-rejected", machine=MachineId(row.machine_id), why=why)
            if again and present.tries < _MOST_TRIES:
                present.tries += 1
                seq = next_seq(session, MachineId(row.machine_id), now)
                present.body = dict(present.body) | {"seq": seq}
                continue
            accepted += not again and index not in rejected
            session.delete(present)
    return accepted


def _queue_checks(world: World) -> None:
    """Queue the time of the last check of machines that sent one since."""
    with world.sessions.begin() as session:
        due = (
            select(MachineRow)
            .where(MachineRow.report_due)
            .limit(world.settings.report_batch)
            .with_for_update(skip_locked=True)
        )
        for row in session.scalars(due):
            row.report_due = False
            checked = row.checked_at.isoformat() if row.checked_at else None
            seen = row.last_seen.isoformat() if row.last_seen else None
            result = None if row.check_state == "none" else row.check_state
            body = {"last_check": checked, "check_result": result, "last_seen": seen}
            add_report(session, MachineId(row.id), body, world.clock.now())


def machine_state(run_row: RunRow) -> str:
    """Return the name of the run's state."""
    return state_of(run_row).name
