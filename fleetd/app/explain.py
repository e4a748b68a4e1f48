"""Why nothing happens: what a machine waits for, and what a person can do about it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from fleetd.app.poll import POLLED
from fleetd.app.rows import declaration_of, run_of
from fleetd.app.sweep import SWEPT
from fleetd.core.findings import lifecycle as say
from fleetd.core.lifecycle.gate import missing_from
from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.states import (
    AwaitingKey,
    Ended,
    Ending,
    HandingOver,
    Netbooting,
    PoweringDown,
    PoweringOn,
)
from fleetd.store.machines import MachineRow
from fleetd.store.outbox import Mark, ReportRow
from fleetd.store.runs import RunRow

LATE = timedelta(minutes=2)
"""Sweep, poll, looks and reports that are later than this are worth a word: all come every few seconds."""


@dataclass(frozen=True, slots=True)
class Line:
    """One thing that is so, and what to do about it where something is to be done."""

    sentence: str
    next_step: str = ""


def explain(session: Session, row: MachineRow, now: datetime) -> tuple[Line, ...]:
    """Return what holds the machine up, the most telling first; never empty."""
    run_row = session.get(RunRow, row.run_id) if row.run_id else None
    return (
        *_record(row),
        *_run(row, run_row),
        *_checks(row),
        *_service(session, row, now),
    )


def _record(row: MachineRow) -> Iterator[Line]:
    if row.vanished:
        finding = say.Orphaned()
        yield Line(finding.sentence(), finding.next_step())
    declared = declaration_of(row)
    if declared is None:
        yield Line("NetBox has not told anything about the machine yet.", "Check that fleetd reads NetBox.")
        return
    missing = tuple(missing_from(declared, needs_disk=True))
    if missing:
        finding_of = say.DeclarationIncomplete(missing)
        yield Line(finding_of.sentence(), finding_of.next_step())


def _run(row: MachineRow, run_row: RunRow | None) -> Iterator[Line]:
    if run_row is None:
        yield Line(f"The machine is {row.phase}. Nothing was ever asked of it.", "Ask for an action in NetBox.")
        return
    run = run_of(run_row)
    intent = run.orders.intent
    asked = f"{run.kind.value} asked by {intent.requested_by if intent else 'somebody'}"
    steps = tuple(str(item.get("next_step", "")) for item in run_row.findings if item.get("next_step"))
    if isinstance(run.state, Ended):
        words = f"The {asked} ended {run_row.outcome} on {_moment(run_row.ended_at)}."
        told = f" {run_row.message}" if run_row.message else ""
        otherwise = "" if run_row.outcome == "succeeded" else "Ask again in NetBox when the cause is removed."
        yield Line(f"{words}{told}", steps[0] if steps else otherwise)
    else:
        until = f" It waits until {_moment(run.state.deadline)} at most."
        step = steps[0] if steps else _awaited(run)
        yield Line(f"The {asked} is at the step {run.state.name}. {run_row.message}{until}", step)
    for item in run_row.findings[1:]:
        yield Line(str(item.get("message", "")), str(item.get("next_step", "")))


def _awaited(run: Run) -> str:
    """Return what a person can do about a run that goes on without a finding."""
    match run.state:
        case AwaitingKey():
            return "Compare the fingerprint with the machine's console, then approve the key in NetBox or reject it."
        case Netbooting() if not run.orders.has_bmc:
            return "Start the machine by hand, from the network."
        case PoweringOn() | HandingOver() | PoweringDown() | Ending() as state if state.attempt > 1:
            return "Check the BMC's network, address and state; fleetd tries again by itself."
        case _:
            return "Nothing: fleetd goes on by itself."


def _checks(row: MachineRow) -> Iterator[Line]:
    if row.quarantined_at is not None:
        finding = say.Quarantined(row.quarantine_reason)
        yield Line(finding.sentence(), finding.next_step())
    if row.standing != "active":
        return
    if row.check_state == "awaited":
        yield Line(
            "The installed system has not sent its first boot check yet.", "Check that it runs and reaches fleetd."
        )
    if row.check_state == "late":
        yield _line(say.CheckLate(row.checked_at))
    if row.check_state == "lost":
        yield _line(say.CheckLost(row.checked_at))
    for item in row.check_findings:
        yield Line(str(item.get("message", "")), str(item.get("next_step", "")))


def _line(finding: say.CheckLate | say.CheckLost) -> Line:
    return Line(finding.sentence(), finding.next_step())


def _service(session: Session, row: MachineRow, now: datetime) -> Iterator[Line]:
    """Say where fleetd itself stands still."""
    marks = {mark.name: mark.at for mark in session.scalars(select(Mark).where(Mark.name.in_((SWEPT, POLLED))))}
    for name, what, program in (
        (SWEPT, "No sweep has looked for machines whose time has come", "fleetd beat and fleetd worker"),
        (POLLED, "NetBox has not been read", "fleetd beat, fleetd worker and NetBox"),
    ):
        at = marks.get(name)
        if at is None or now - at > LATE:
            yield Line(f"{what} since {_moment(at)}.", f"Check that {program} run, and read their logs.")
    if row.next_look_at is not None and now - row.next_look_at > LATE:
        yield Line(
            f"A look at this machine is due since {_moment(row.next_look_at)}.", "Check that fleetd worker runs."
        )
    oldest = session.scalar(select(func.min(ReportRow.created_at)).where(ReportRow.machine_id == row.id))
    if oldest is not None and now - oldest > LATE:
        yield Line(
            f"NetBox has not taken what fleetd reports since {_moment(oldest)}: its page is older than that.",
            "Check that NetBox answers and that fleetd's token may report.",
        )


def _moment(at: datetime | None) -> str:
    return "ever" if at is None else f"{at:%Y-%m-%d %H:%M:%S} UTC"
