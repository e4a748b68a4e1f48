"""What a look does at a machine without an open run: begin one, or keep what stands."""

from datetime import datetime

from sqlalchemy.orm import Session

from fleetd.app.report import queue_report
from fleetd.app.restored import held
from fleetd.app.rows import declaration_of, put_state
from fleetd.app.world import World
from fleetd.core.declaration import Declaration, Intent
from fleetd.core.lifecycle.clock import counted_from
from fleetd.core.lifecycle.standing import next_change, next_check_state
from fleetd.core.lifecycle.states import Gated
from fleetd.core.names import MachineId, RunId
from fleetd.core.records import to_record
from fleetd.ports import OutageError
from fleetd.store import audit
from fleetd.store.checks import record_change
from fleetd.store.clock import stepped_at, watch_clock
from fleetd.store.machines import Lease, MachineRow, lock_held
from fleetd.store.outbox import add_report
from fleetd.store.runs import RunRow, is_spent


def look_at_idle(row: MachineRow, lease: Lease, world: World) -> datetime | None:
    """Begin the run that is asked for; otherwise close what may be open outside and judge how old the last check is."""
    now = watch_clock(world.sessions, world.clock)
    problem = _settle(row, world)
    declared = declaration_of(row)
    with world.sessions.begin() as session:
        held = lock_held(session, lease)
        if held is None:
            return None
        if not row.vanished and declared is not None and declared.intent is not None:
            run_row = _open(session, held, declared, declared.intent, world, now)
            if run_row is not None:
                queue_report(session, held, run_row, now)
                return now
        _judge(session, held, declared, world, now)
        queue_report(session, held, session.get(RunRow, held.run_id) if held.run_id else None, now)
        return _again(session, held, problem, world, now)


def _again(session: Session, row: MachineRow, problem: str, world: World, now: datetime) -> datetime | None:
    timing = world.settings.timing
    if problem:
        return now + timing.slow_look
    if row.hold_wanted != row.hold_done:
        return now
    change = next_change(row.check_state, _since(session, row), timing) if row.standing == "active" else None
    return change if change is None or change > now else now + timing.check_interval


def _open(
    session: Session, row: MachineRow, declared: Declaration, intent: Intent, world: World, now: datetime
) -> RunRow | None:
    if intent.cancel_requested_at is not None and not is_spent(session, intent.id):
        return _cancelled_before(session, row, declared, intent, now)
    if is_spent(session, intent.id) or (intent.kind.erases and held(session)):
        return None
    rules = world.classes.book().get(declared.machine_class)
    waits = max(rules.deadlines.intent_approval, rules.deadlines.budget) if rules else world.settings.timing.tidy
    return _insert(session, row, declared, intent, Gated(now, now + waits), now)


def _insert(
    session: Session, row: MachineRow, declared: Declaration, intent: Intent, state: Gated, now: datetime
) -> RunRow:
    run_row = RunRow(
        id=intent.id,
        machine_id=row.id,
        kind=intent.kind.value,
        orders=to_record(declared),
        was_active=row.standing == "active",
        opened_at=now,
        outcome="",
        code="",
        message="",
        findings=[],
        leaves=0,
        refusals=0,
        outage_seconds=0.0,
        lost_by="",
        lost_reason="",
        steps=[{"name": state.name, "state": "running", "started": now.isoformat(), "ended": None, "message": ""}],
    )
    put_state(run_row, state)
    session.add(run_row)
    row.run_id, row.run_open = intent.id, True
    audit.record(
        session,
        now,
        "run-opened",
        who=intent.requested_by,
        machine=MachineId(row.id),
        run=RunId(intent.id),
        kind=intent.kind.value,
        reason=intent.reason,
    )
    return run_row


def _cancelled_before(
    session: Session, row: MachineRow, declared: Declaration, intent: Intent, now: datetime
) -> RunRow:
    """An intent that was cancelled before it was seen gets a run all the same: the gate ends it, and it is spent."""
    return _insert(session, row, declared, intent, Gated(now, now), now)


def _settle(row: MachineRow, world: World) -> str:
    """Close a netboot that may still be allowed, and bring certificate holds to what they shall be."""
    try:
        if row.pxe_open:
            world.provisioner.set_allow_pxe(MachineId(row.id), allowed=False)
            _write(world, row.id, pxe_open=False)
        if row.hold_wanted and not row.hold_done:
            world.authority.hold(MachineId(row.id))
            _write(world, row.id, hold_done=True)
        if row.hold_done and not row.hold_wanted:
            world.authority.release(MachineId(row.id))
            _write(world, row.id, hold_done=False)
    except OutageError as problem:
        return str(problem)
    return ""


def _write(world: World, machine: int, **flags: bool) -> None:
    with world.sessions.begin() as session:
        row = session.get(MachineRow, machine)
        if row is not None:
            for name, value in flags.items():
                setattr(row, name, value)


def _since(session: Session, row: MachineRow) -> datetime:
    return counted_from(row.check_ok_at or row.phase_since or row.created_at, stepped_at(session))


def _judge(session: Session, row: MachineRow, declared: Declaration | None, world: World, now: datetime) -> None:
    """Late and lost by the clock, quarantine by a declined baseline."""
    decision = declared.baseline_decision if declared else None
    if decision is not None and not decision.accepted and decision.digest == row.offered_digest and row.offered_digest:
        row.quarantined_at, row.hold_wanted = row.quarantined_at or now, True
        row.quarantine_reason = f"{decision.by} declined the changed boot measurements"
        row.offered_digest = ""
        audit.record(session, now, "quarantined", who=decision.by, machine=MachineId(row.id), why="baseline declined")
    if row.standing != "active":
        return
    offline = declared is not None and declared.device_status == "offline"
    state = next_check_state(row.check_state, _since(session, row), now, world.settings.timing, offline=offline)
    if state != row.check_state:
        audit.record(session, now, f"check-{state}", machine=MachineId(row.id), before=row.check_state)
        row.check_state = state
        record_change(session, row.id, now, state)
        body = {"time": now.isoformat(), "result": state, "findings": [], "difference": []}
        add_report(session, MachineId(row.id), {"boot_check": body, "check_result": state}, now)
