"""Where each machine's newest report of itself differs from its declaration."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, func, select
from sqlalchemy.orm import Session

from fleetd.app.rows import declaration_of
from fleetd.core.declaration import Declaration
from fleetd.core.drift import Difference, drift
from fleetd.core.names import MachineId
from fleetd.store.enrollments import EnrollmentRow, newest_facts
from fleetd.store.machines import MachineRow


@dataclass(frozen=True, slots=True)
class Drift:
    """One machine and its differences; `reported_at` is None where it never reported."""

    machine: MachineId
    node_name: str
    reported_at: datetime | None
    differences: tuple[Difference, ...]


def drifts(session: Session) -> list[Drift]:
    """Return every declared machine with its differences, by name; two queries."""
    last = (
        select(EnrollmentRow.machine_id, func.max(EnrollmentRow.made).label("made"))
        .where(EnrollmentRow.verified)
        .group_by(EnrollmentRow.machine_id)
        .subquery()
    )
    newest = select(EnrollmentRow.machine_id, EnrollmentRow.made, EnrollmentRow.facts).join(
        last, and_(EnrollmentRow.machine_id == last.c.machine_id, EnrollmentRow.made == last.c.made)
    )
    facts = {machine: (made, told) for machine, made, told in session.execute(newest.where(EnrollmentRow.verified))}
    found = []
    for row in session.scalars(select(MachineRow).where(~MachineRow.vanished).order_by(MachineRow.node_name)):
        declared = declaration_of(row)
        if declared is None:
            continue
        made, told = facts.get(row.id, (None, {}))
        found.append(Drift(MachineId(row.id), declared.node_name, made, drift(declared, told) if made else ()))
    return found


def drift_of(session: Session, row: MachineRow, declared: Declaration | None) -> tuple[Difference, ...]:
    """Return the differences of one machine; none while it has not reported."""
    told = newest_facts(session, row.id)
    return drift(declared, told) if declared is not None and told is not None else ()
