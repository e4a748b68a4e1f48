"""What is done again and again: look where the time has come, send reports, chain the audit, forget what is old."""

from datetime import timedelta

from sqlalchemy import delete, select

from fleetd.app.look import look_at
from fleetd.app.report import send_reports
from fleetd.app.world import World
from fleetd.core.names import MachineId
from fleetd.store import audit
from fleetd.store.clock import READING, watch_clock
from fleetd.store.events import EventRow
from fleetd.store.machines import due
from fleetd.store.outbox import Mark, write_mark
from fleetd.store.runs import RunRow

SWEPT = "swept"

_KEEP_EVENTS = timedelta(days=90)


def sweep(world: World) -> list[MachineId]:
    """Wake every machine whose time has come and return them; an index scan where nothing is due."""
    now = watch_clock(world.sessions, world.clock)
    with world.sessions.begin() as session:
        machines = due(session, now, world.settings.sweep_batch)
        write_mark(session, SWEPT, str(len(machines)), now)
    for machine in machines:
        world.wake(machine)
    chain_audit(world)
    return machines


def chain_audit(world: World) -> int:
    """Chain and sign the audit rows that wait for it."""
    if world.audit_key is None:
        return 0
    with world.sessions.begin() as session:
        return audit.chain(session, world.audit_key.sign)


def turn(world: World) -> None:
    """Do in this process what sweep, worker and report task do: look at everything that is due, then report."""
    for machine in sweep(world):
        look_at(machine, world)
    send_reports(world)


def forget_old(world: World) -> int:
    """Delete progress events of runs that ended long ago; evidence, failures and the audit stay."""
    before = world.clock.now() - _KEEP_EVENTS
    with world.sessions.begin() as session:
        session.execute(delete(Mark).where(Mark.name.startswith(READING, autoescape=True), Mark.at < before))
    old = select(RunRow.id).where(RunRow.ended_at < before)
    with world.sessions.begin() as session:
        done = session.execute(delete(EventRow).where(EventRow.run_id.in_(old), EventRow.kind == "progress"))
        return int(getattr(done, "rowcount", 0))
