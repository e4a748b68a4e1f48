"""Which machines know which service keys: what a rotation of the service key waits for."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fleetd.core.names import MachineId
from fleetd.store.checks import CheckRow
from fleetd.store.enrollments import InstallRow
from fleetd.store.machines import MachineRow
from fleetd.store.runs import RunRow


@dataclass(frozen=True, slots=True)
class PinHolder:
    """A machine that checks, and whether it told that it pins a key."""

    machine: MachineId
    node_name: str
    pinned: bool
    active: bool
    """It is neither lost, nor quarantined, nor unknown."""


def pin_holders(session: Session, kid: str) -> list[PinHolder]:
    """Return the machines whose present install checks, by node name."""
    rows = session.execute(
        select(CheckRow.machine_id, CheckRow.pins, MachineRow)
        .join(InstallRow, (InstallRow.machine_id == CheckRow.machine_id) & InstallRow.staged.is_(False))
        .outerjoin(MachineRow, MachineRow.id == CheckRow.machine_id)
        # The row of an earlier install tells nothing of the present one, which is still on its way to its first check.
        .where(CheckRow.run_id.is_not_distinct_from(InstallRow.run_id))
        .order_by(func.coalesce(MachineRow.node_name, ""), CheckRow.machine_id)
    )
    return [_holder(machine, pins, row, kid) for machine, pins, row in rows]


def _holder(machine: int, pins: list[str], row: MachineRow | None, kid: str) -> PinHolder:
    active = row is not None and row.check_state != "lost" and row.quarantined_at is None and not row.vanished
    return PinHolder(MachineId(machine), row.node_name if row else "", kid in pins, active)


def runs_begun_before(session: Session, moment: datetime) -> list[tuple[MachineId, str]]:
    """Return machine and node name of each open run that passed its gate before then: its Workflow names older keys."""
    rows = session.execute(
        select(RunRow.machine_id, func.coalesce(MachineRow.node_name, ""))
        .outerjoin(MachineRow, MachineRow.id == RunRow.machine_id)
        .where(RunRow.ended_at.is_(None), RunRow.began_at < moment)
        .order_by(RunRow.machine_id)
    )
    return [(MachineId(machine), name) for machine, name in rows]
