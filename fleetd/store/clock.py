"""The clock of this host held against its monotonic one, wherever it matters; a step is noted for all processes."""

import json
from datetime import datetime, timedelta

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session, sessionmaker

from fleetd.core.lifecycle.clock import SLACK, Reading, step_between
from fleetd.ports import Clock
from fleetd.store import audit
from fleetd.store.checks import CheckRow
from fleetd.store.machines import MachineRow
from fleetd.store.outbox import Mark, write_mark

READING = "clock-reading-"
"""Mark of the last reading of a host, by its boot: `{"monotonic": seconds}`."""
STEPPED = "clock-stepped"
"""Mark of the last step: seconds that the clock was set forth; its time is the first one after it."""
ACCEPTED = "clock-accepted"
"""Mark of what a person accepted: the id of the newest audit row at that time."""
REFRESH = 10.0
"""Seconds between readings."""


def watch_clock(sessions: sessionmaker[Session], clock: Clock) -> datetime:
    """Compare this host's clocks with their last reading, note a step, and return the time. Cheap: mostly one read by key.

    Who decides by the time that this returns, and reads `stepped_at` after it, takes no step for time that passed.
    """
    now = Reading(clock.now(), clock.monotonic())
    name = f"{READING}{clock.boot()}"
    with sessions() as session:
        if not _stale(session.get(Mark, name), now):
            return now.wall
    with sessions.begin() as session:
        mark = session.get(Mark, name, with_for_update=True)
        if not _stale(mark, now):  # another process was here meanwhile, and has seen what there was to see
            return now.wall
        step = _step(mark, now)
        write_mark(session, name, json.dumps({"monotonic": now.monotonic}), now.wall)
        if step:
            _note(session, step, now.wall)
    return now.wall


def _earlier(mark: Mark) -> Reading:
    return Reading(mark.at, float(json.loads(mark.value)["monotonic"]))


def _stale(mark: Mark | None, now: Reading) -> bool:
    if mark is None:
        return True
    earlier = _earlier(mark)
    return bool(step_between(earlier, now)) or now.monotonic - earlier.monotonic >= REFRESH


def _step(mark: Mark | None, now: Reading) -> timedelta:
    return step_between(_earlier(mark), now) if mark is not None else timedelta()


def _note(session: Session, step: timedelta, now: datetime) -> None:
    """Note the step; what lies in the future of a clock that was set back is brought to the present.

    The time of a quote is forgotten: once the clock has come to it again it would say nothing of how long ago that was.
    """
    write_mark(session, STEPPED, str(step.total_seconds()), now)
    audit.record(session, now, "clock-stepped", seconds=step.total_seconds())
    if step < timedelta():
        for column in (MachineRow.next_look_at, MachineRow.check_ok_at, MachineRow.checked_at):
            session.execute(
                update(MachineRow)
                .where(column > now)
                .values({column: now})
                .execution_options(synchronize_session=False)
            )
        session.execute(
            update(CheckRow)
            .where(CheckRow.clock_at > now)
            .values(clock_at=None)
            .execution_options(synchronize_session=False)
        )


def last_step(session: Session, clock: Clock) -> tuple[datetime | None, bool]:
    """Return when the clock was stepped last, by the clock after it, and whether it was set since: nobody has noted it."""
    reading = f"{READING}{clock.boot()}"
    marks = {mark.name: mark for mark in session.scalars(select(Mark).where(Mark.name.in_((STEPPED, reading))))}
    stepped = marks.get(STEPPED)
    unnoticed = _step(marks.get(reading), Reading(clock.now(), clock.monotonic()))
    return stepped.at if stepped is not None else None, bool(unnoticed)


def stepped_at(session: Session) -> datetime | None:
    """Return when the clock was stepped last, by the clock after it."""
    return session.scalar(select(Mark.at).where(Mark.name == STEPPED))


def clock_holds(session: Session, now: datetime, settle: timedelta) -> bool:
    """Tell whether the clock can be trusted with what destroys, and with the dates of certificates."""
    return not clock_problem(session, now, settle)


def clock_problem(session: Session, now: datetime, settle: timedelta) -> str:
    """Say why the clock cannot be trusted, or nothing.

    It must not be behind what the store has already seen, and a step must have settled: a clock that is being set is
    often set twice.
    """
    stepped, accepted = stepped_at(session), session.get(Mark, ACCEPTED)
    unsettled = stepped is not None and stepped - SLACK <= now < stepped + settle
    if unsettled and stepped is not None and (accepted is None or accepted.at < stepped):
        left = stepped + settle - now
        return (
            f"this host's clock was set at {stepped:%Y-%m-%d %H:%M:%S}: it is trusted in {left.total_seconds():.0f} s"
        )
    query = select(func.max(audit.AuditRow.at))
    newest = session.scalar(query.where(audit.AuditRow.id > int(accepted.value)) if accepted else query)
    if newest is None or now >= newest - SLACK:
        return ""
    return f"this host's clock is behind what was written at {newest:%Y-%m-%d %H:%M:%S}: see `fleetd clock show`"


def accept_clock(session: Session, clock: Clock, by: str, reason: str) -> None:
    """Take a person's word that the clock is right now, whatever was written when it was wrong."""
    now = clock.now()
    newest = session.scalar(select(func.max(audit.AuditRow.id))) or 0
    write_mark(session, ACCEPTED, str(newest), now)
    audit.record(session, now, "clock-accepted", who=by, reason=reason)
