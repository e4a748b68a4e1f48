"""What was recorded of a run when it began, also after its end."""

from typing import Any

from sqlalchemy.orm import Session

from fleetd.core.declaration import Declaration
from fleetd.core.names import RunId
from fleetd.core.records import from_record
from fleetd.store.runs import RunRow


def declaration_of_run(session: Session, run: RunId) -> Declaration | None:
    """Return the declaration that the run began with."""
    row = session.get(RunRow, run)
    found: Any = from_record(Declaration, row.orders) if row is not None else None
    return found if isinstance(found, Declaration) else None
