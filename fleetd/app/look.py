"""The look: bring one machine one step closer to what its owner asked for."""

from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fleetd.app.budget import BUDGET_LOCK, budget_full, runs_full
from fleetd.app.effects import perform
from fleetd.app.evidence import keep_erase_records
from fleetd.app.idle import look_at_idle
from fleetd.app.observe import observe
from fleetd.app.persist import write_decision
from fleetd.app.report import queue_report
from fleetd.app.restored import why_not
from fleetd.app.rows import run_of
from fleetd.app.statements import hear
from fleetd.app.world import World
from fleetd.core.lifecycle.clock import begun_anew
from fleetd.core.lifecycle.decide import decide, give_up, refuse
from fleetd.core.lifecycle.decision import Decision
from fleetd.core.lifecycle.observed import Observed
from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.states import Ended, Ending, Gated
from fleetd.core.names import MachineId
from fleetd.ports import OutageError, RefusedError
from fleetd.store.clock import stepped_at, watch_clock
from fleetd.store.machines import Lease, MachineRow, give_back, lock_held, take_lease
from fleetd.store.runs import RunRow


class LeaseLostError(Exception):
    """Somebody else looks at the machine now; nothing more is done here."""


_MOST_ROUNDS = 3

_MOST_MARGIN = timedelta(seconds=15)


def look_at(machine: MachineId, world: World) -> None:
    """Bring one machine closer to what its owner asked for, up to some steps.

    Safe to call at any time and from several workers: whoever holds the lease acts, everybody else returns.
    Not guaranteed: that an effect happens once. Effects are named after the run, so a repeat finds its own work.
    """
    watch_clock(world.sessions, world.clock)
    for _ in range(_MOST_ROUNDS):
        if not _look(machine, world):
            return


def _look(machine: MachineId, world: World) -> bool:
    """Look once; return whether somebody woke the machine meanwhile."""
    with world.sessions.begin() as session:
        lease = take_lease(session, machine, world.clock.now(), world.settings.lease)
    if lease is None:
        return False
    again: datetime | None = world.clock.now()
    try:
        for _ in range(world.settings.steps_per_look):
            again = _step(lease, world)
            if again is None or again > world.clock.now():
                break
    except LeaseLostError:
        return False
    except Exception:
        # Whatever it was, the machine is looked at again soon, not when the lease runs out.
        with world.sessions.begin() as session:
            give_back(session, lease, world.clock.now(), world.clock.now() + world.settings.timing.look)
        raise
    with world.sessions.begin() as session:
        return give_back(session, lease, world.clock.now(), again)


def _step(lease: Lease, world: World) -> datetime | None:
    """Take one step and return when to look again."""
    row, run_row = _rows(lease, world)
    if row is None:
        return None
    if hear(row, lease, world):
        row, run_row = _rows(lease, world)
        assert row is not None
    if run_row is None:
        return look_at_idle(row, lease, world)
    run, _ = _by_the_clock(run_of(run_row), world)
    if run.kind.erases and not isinstance(run.state, Ending) and _stopped(lease, run, world):
        return world.clock.now() + world.settings.timing.slow_look
    seen = observe(row, run, world)
    # To ask all that is outside takes a while, and the clock may have been set in it.
    run, now = _by_the_clock(run, world)
    decision = _decided(run, seen, lease, world, now)
    return _persist(lease, run, run_row.leaves, seen, decision, world)


def _by_the_clock(run: Run, world: World) -> tuple[Run, datetime]:
    """Return the run with its waits begun anew where the clock was set since they began, and the time that it is now."""
    now = watch_clock(world.sessions, world.clock)
    with world.sessions() as session:
        return replace(run, state=begun_anew(run.state, stepped_at(session), now)), now


def _rows(lease: Lease, world: World) -> tuple[MachineRow | None, RunRow | None]:
    with world.sessions() as session:
        row = session.get(MachineRow, lease.machine)
        return row, session.get(RunRow, row.run_id) if row is not None and row.run_open else None


def _stopped(lease: Lease, run: Run, world: World) -> bool:
    """Leave a run that erases where it is when the database was restored from before its end, and say so."""
    with world.sessions.begin() as session:
        why = why_not(session, run.id)
        row = lock_held(session, lease) if why else None
        if row is not None:
            run_row = session.get_one(RunRow, run.id)
            run_row.message = why
            queue_report(session, row, run_row, world.clock.now())
    return bool(why)


def _decided(run: Run, seen: Observed, lease: Lease, world: World, now: datetime) -> Decision:
    """Decide and perform; an outage leaves the run where it is, a refusal fails it."""
    timing = world.settings.timing
    decision = decide(run, seen, now, timing)
    if decision.orders is not None:
        run = replace(run, orders=decision.orders)
    try:
        _perform_all(decision, run, lease, world)
    except OutageError as problem:
        away = replace(seen, outage=str(problem))
        if not run.late(now, outage=True):
            return Decision(run.state, (), now + timing.look, (), f"Waiting: {problem}")
        return give_up(run, away, now, timing)
    except RefusedError as problem:
        decision = refuse(run, seen, now, str(problem), timing)
        return replace(decision, effects=()) if decision.state != run.state else decision
    return decision


def _perform_all(decision: Decision, run: Run, lease: Lease, world: World) -> None:
    # A quarter of a short lease: with a fixed margin a lease no longer than that would end before it began.
    last_start = lease.until - min(_MOST_MARGIN, world.settings.lease / 4)
    for effect in decision.effects:
        if world.clock.now() >= last_start:
            raise LeaseLostError
        perform(effect, run, world)


def _persist(lease: Lease, run: Run, leaves: int, seen: Observed, decision: Decision, world: World) -> datetime | None:
    """Write the decision and its report, unless the lease or the ground of the decision is gone."""
    now = world.clock.now()
    with world.sessions.begin() as session:
        passes_gate = isinstance(run.state, Gated) and decision.orders is not None
        if passes_gate and _no_room_any_more(session, run, seen, world):
            return now + world.settings.timing.look
        row = lock_held(session, lease)
        if row is None:
            raise LeaseLostError
        run_row = session.get_one(RunRow, run.id, with_for_update=True, populate_existing=True)
        if run_row.leaves != leaves:
            return now
        keep_erase_records(session, run_of(run_row), world.signer, now)
        write_decision(session, row, run_row, run, seen, decision, now)
        queue_report(session, row, run_row, now)
        return now if isinstance(decision.state, Ended) else decision.look_again_at


def _no_room_any_more(session: Session, run: Run, seen: Observed, world: World) -> bool:
    """Count once more under a lock, so that two runs never take the same last place."""
    session.execute(select(func.pg_advisory_xact_lock(BUDGET_LOCK)))
    declared = seen.declaration
    assert declared is not None
    forced = declared.intent is not None and declared.intent.force_budget
    full = budget_full(session, run, declared, seen.machine_class, world.classes.book().tags)
    return (bool(full) and not forced) or (not run.by_check and bool(runs_full(session, world.settings.max_runs)))
