"""A database that was restored from a backup knows less than the world: what may have happened since must not happen again.

Two things stop a run that erases. An operator says `fleetd restore hold`: nothing destructive begins or goes on until a
person resumes. And NetBox holds a run as final that is open here: then it ended after the backup, whoever restored what.
"""

from datetime import datetime

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from fleetd.core.names import RunId
from fleetd.store import audit
from fleetd.store.machines import MachineRow
from fleetd.store.outbox import Mark, read_mark, write_mark
from fleetd.store.runs import SpentIntent

_HELD = "held-after-restore"

HELD = "The database was restored: runs that erase are held until a person says `fleetd restore resume`."
FINAL = "NetBox holds this run as final, so it ended after the backup that this database was restored from. Cancel it."


def hold(session: Session, by: str, now: datetime) -> None:
    """Hold every run that erases, from now on."""
    write_mark(session, _HELD, by, now)
    audit.record(session, now, "held-after-restore", who=by)


def resume(session: Session, by: str, now: datetime) -> bool:
    """Let runs that erase go on, and look at every machine; False when nothing was held."""
    if not held(session):
        return False
    session.execute(delete(Mark).where(Mark.name == _HELD))
    session.execute(update(MachineRow).values(next_look_at=now, wakes=MachineRow.wakes + 1))
    audit.record(session, now, "resumed-after-restore", who=by)
    return True


def held(session: Session) -> bool:
    """Tell whether runs that erase are held."""
    return read_mark(session, _HELD) is not None


def why_not(session: Session, run: RunId) -> str:
    """Say why a run that erases must not go on in this database, or nothing."""
    if held(session):
        return HELD
    return FINAL if session.scalar(select(SpentIntent.id).where(SpentIntent.id == run)) else ""
