"""Rows as the values that decisions see."""

from datetime import timedelta

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetd.core.declaration import Declaration
from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.states import STATES, State
from fleetd.core.names import IntentKind, MachineId, RunId
from fleetd.core.records import from_record, to_record
from fleetd.store.machines import MachineRow
from fleetd.store.runs import RunRow


def state_of(row: RunRow) -> State:
    """Return the state of a run's row."""
    state: State = from_record(STATES[row.state_name], row.state)
    return state


def put_state(row: RunRow, state: State) -> None:
    """Write a state into a run's row."""
    row.state_name = state.name
    row.state = to_record(state)


def run_of(row: RunRow) -> Run:
    """Return the run of a row."""
    return Run(
        id=RunId(row.id),
        machine=MachineId(row.machine_id),
        kind=IntentKind(row.kind),
        state=state_of(row),
        orders=from_record(Declaration, row.orders),
        was_active=row.was_active,
        outage=timedelta(seconds=row.outage_seconds),
        first_leave_at=row.first_leave_at,
        refusals=row.refusals,
        redeemed_at=row.redeemed_at,
        reboot_told_at=row.reboot_told_at,
        lost_by=row.lost_by,
    )


def declaration_of(row: MachineRow) -> Declaration | None:
    """Return what NetBox last declared, None when nothing is known."""
    return None if row.declaration is None else from_record(Declaration, row.declaration)


def lock_run(session: Session, run: RunId) -> RunRow | None:
    """Return the run's row, fresh and locked for this transaction.

    Its machine's row is locked before it, as a look does: one order everywhere, so that nobody waits in a circle.
    """
    machine = select(RunRow.machine_id).where(RunRow.id == run).scalar_subquery()
    session.execute(select(MachineRow.id).where(MachineRow.id == machine).with_for_update())
    return session.execute(
        select(RunRow).where(RunRow.id == run).with_for_update().execution_options(populate_existing=True)
    ).scalar_one_or_none()


def is_cancelled(machine: MachineRow, run: RunId) -> bool:
    """Tell whether a person asked that the run end: by cancelling it, or by another approved intent."""
    declared = declaration_of(machine)
    intent = declared.intent if declared else None
    if intent is None:
        return False
    if intent.id == run:
        return intent.cancel_requested_at is not None
    return intent.approved
