"""Statements that people give in NetBox: each is taken or refused once, by the same rules as those of the command line."""

from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from fleetd.app import wishes
from fleetd.app.rows import declaration_of
from fleetd.app.world import World
from fleetd.core.declaration import Statement
from fleetd.core.names import MachineId, StatementKind
from fleetd.store.evidence import POWER_OFF
from fleetd.store.machines import Lease, MachineRow, lock_held
from fleetd.store.runs import is_spent
from fleetd.store.statements import StatementRow, answered


def hear(row: MachineRow, lease: Lease, world: World) -> bool:
    """Take or refuse what was said of the machine and not answered yet; return whether anything was.

    A statement about a wipe or retirement that has not begun yet waits for its beginning.
    """
    declared = declaration_of(row)
    if declared is None or not declared.statements or row.vanished:
        return False
    found = False
    now = world.clock.now()
    with world.sessions.begin() as session:
        held = lock_held(session, lease)
        known = answered(session, [statement.id for statement in declared.statements])
        for statement in declared.statements:
            if held is None or statement.id in known or _waits(session, held, statement):
                continue
            state, message = "taken", ""
            try:
                _take(session, held, statement, now)
            except wishes.WishRefusedError as problem:
                state, message = "refused", str(problem)
            session.add(StatementRow(id=statement.id, machine_id=row.id, state=state, message=message, at=now))
            found = True
    return found


def answers(session: Session, row: MachineRow) -> list[dict[str, Any]]:
    """Return what NetBox is told of the statements that stand in the machine's declaration."""
    declared = declaration_of(row)
    ids = [statement.id for statement in declared.statements] if declared is not None else []
    known = answered(session, ids)
    return [{"id": str(id_), "state": known[id_].state, "message": known[id_].message} for id_ in ids if id_ in known]


def _waits(session: Session, row: MachineRow, statement: Statement) -> bool:
    if statement.kind is StatementKind.RELEASE or statement.intent is None or row.run_id == statement.intent:
        return False
    return not is_spent(session, statement.intent)


def _take(session: Session, row: MachineRow, statement: Statement, now: datetime) -> None:
    machine = MachineId(row.id)
    if statement.kind is StatementKind.RELEASE:
        wishes.request_release(session, machine, statement.by, statement.reason, now)
        return
    if row.run_id != statement.intent or not row.run_open:
        raise wishes.WishRefusedError("the wipe or retirement that this was said in is over")
    if statement.kind is StatementKind.LOST:
        wishes.declare_lost(session, machine, statement.by, statement.reason, now)
        return
    subject = POWER_OFF if statement.kind is StatementKind.POWER_OFF else statement.subject
    wishes.vouch(session, machine, subject, statement.by, statement.reason, now)
