"""NetBox's declarations brought into machine rows, page by page after a cursor; a full read now and then."""

import json
from dataclasses import dataclass, field
from datetime import datetime

from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from fleetd.app.exclusive import POLL, exclusive
from fleetd.app.persist import take_declaration
from fleetd.app.world import World
from fleetd.core.declaration import Declaration, Vanished
from fleetd.core.names import MachineId
from fleetd.core.records import to_record
from fleetd.ports import DeclarationPage
from fleetd.store import audit
from fleetd.store.endorsement_keys import settle, waiting_among
from fleetd.store.machines import MachineRow, wake
from fleetd.store.outbox import read_mark, write_mark
from fleetd.store.runs import SpentIntent

CURSOR = "declarations-cursor"
FULL_READ = "declarations-full-read"
MALFORMED = "declarations-malformed"
POLLED = "declarations-polled"

_IGNORED = ("phase",)
"""What fleetd itself tells NetBox; its echo is no news."""


@dataclass(slots=True)
class Polled:
    """What a poll brought."""

    records: int = 0
    changed: list[MachineId] = field(default_factory=list)


def poll(world: World, *, full: bool = False) -> Polled:
    """Read what changed in NetBox since the last poll, everything when asked or when it is due, and wake what changed.

    Nothing follows from a machine that a full read does not show: only a tombstone says that it vanished.
    Raises OutageError and RefusedError. One process polls at a time: the others bring nothing.
    """
    with exclusive(world, POLL) as mine:
        return _poll(world, full=full) if mine else Polled()


def _poll(world: World, *, full: bool) -> Polled:
    found = Polled()
    started = world.clock.now()
    cursor = _cursor(world, full=full)
    whole = cursor is None
    if whole:
        remember_finished(world)
    while True:
        page = world.inventory.declarations(cursor)
        if page.full_read_required and not whole:
            cursor, whole = None, True
            continue
        take_page(page, world, found)
        cursor = page.cursor
        if not page.more:
            break
    with world.sessions.begin() as session:
        write_mark(session, POLLED, "", started)
        if whole:
            write_mark(session, FULL_READ, started.isoformat(), started)
    return found


def _cursor(world: World, *, full: bool) -> str | None:
    with world.sessions() as session:
        cursor, read = read_mark(session, CURSOR), read_mark(session, FULL_READ)
    if full or read is None or world.clock.now() - datetime.fromisoformat(read) >= world.settings.full_read:
        return None
    return cursor


def take_page(page: DeclarationPage, world: World, found: Polled) -> None:
    """Write one page and its cursor in one transaction, then wake the machines that changed."""
    now = world.clock.now()
    with world.sessions.begin() as session:
        changed = [record.machine for record in page.records if take_record(session, record, now)]
        write_mark(session, CURSOR, page.cursor, now)
        if page.malformed:
            write_mark(session, MALFORMED, json.dumps(page.malformed), now)
    _settle_rejected(page, world)
    found.records += len(page.records)
    found.changed += changed
    for machine in changed:
        world.wake(machine)


def _settle_rejected(page: DeclarationPage, world: World) -> None:
    """Ask nobody about keys that a person has rejected.

    Each by itself, and apart from the machines' rows: an enrollment takes its keys in their order, then its machine.
    """
    declared = [key for record in page.records if isinstance(record, Declaration) for key in record.keys]
    if not (rejected := [key.public_hash for key in declared if key.status == "rejected"]):
        return
    with world.sessions() as session:
        waiting = waiting_among(session, rejected)
    for public_hash in waiting:
        with world.sessions.begin() as session:
            settle(session, public_hash)


def take_record(session: Session, record: Declaration | Vanished, now: datetime) -> bool:
    """Write one record; return whether it says something new."""
    row = session.get(MachineRow, record.machine, with_for_update=True)
    if isinstance(record, Vanished):
        if row is None or row.vanished:
            return False
        row.vanished = True
        audit.record(session, now, "declaration-vanished", machine=record.machine)
        wake(session, record.machine, now)
        return True
    if row is None:
        _insert(session, record, now)
        row = session.get_one(MachineRow, record.machine, with_for_update=True)
    elif not row.vanished and _same(row, record):
        return False
    take_declaration(row, record, now)
    session.flush()
    wake(session, record.machine, now)
    return True


def _same(row: MachineRow, record: Declaration) -> bool:
    known, told = dict(row.declaration or {}), dict(to_record(record))
    for name in _IGNORED:
        known.pop(name, None)
        told.pop(name, None)
    return known == told


def _insert(session: Session, record: Declaration, now: datetime) -> None:
    session.execute(
        insert(MachineRow)
        .values(id=record.machine, created_at=now, check_findings=[])
        .on_conflict_do_nothing(index_elements=["id"])
    )


def remember_finished(world: World) -> int:
    """Take every run that NetBox holds as final as spent: a restored store may have forgotten it."""
    now = world.clock.now()
    count = 0
    for run in world.inventory.finished_runs():
        with world.sessions.begin() as session:
            session.execute(insert(SpentIntent).values(id=run, at=now).on_conflict_do_nothing())
        count += 1
    return count
