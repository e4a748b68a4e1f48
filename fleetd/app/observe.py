"""What a look sees: only what the present state watches is asked for."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetd.app.budget import budget_full, runs_full
from fleetd.app.evidence import undeclared_disks
from fleetd.app.rows import declaration_of
from fleetd.app.world import World
from fleetd.core.declaration import Declaration, Vanished
from fleetd.core.findings import codes_of
from fleetd.core.lifecycle.observed import CheckSeen, EventSeen, GateSeen, Observed, VerdictSeen
from fleetd.core.lifecycle.run import Run
from fleetd.core.lifecycle.states import (
    Erasing,
    Gated,
    HandingOver,
    Netbooting,
    Off,
    PoweringDown,
    PoweringOn,
    Preparing,
    Watch,
    Withdrawing,
)
from fleetd.core.outside import Part
from fleetd.ports import CredentialsRefusedError, OutageError, OutsideError, RefusedError
from fleetd.store.clock import clock_holds
from fleetd.store.events import events_of
from fleetd.store.evidence import POWER_OFF, words_of
from fleetd.store.machines import MachineRow
from fleetd.store.runs import last_verdict


@dataclass(slots=True)
class _Reading:
    """What outside parts said so far."""

    values: dict[str, Any] = field(default_factory=dict)
    outage: str = ""


def observe(row: MachineRow, run: Run, world: World) -> Observed:
    """Read the store and whatever part of the outside the state watches; an outage leaves its values unknown."""
    reading = _Reading()
    declared, fresh, vanished = _declaration(row, run, world, reading)
    _outside(row, run, world, reading)
    book = world.classes.book()
    name = (declared or run.orders).machine_class if isinstance(run.state, Gated) else run.orders.machine_class
    with world.sessions() as session:
        inside = _inside(session, row, run)
        if Watch.GATE in run.state.watches and declared is not None:
            reading.values["gate"] = _gate(session, run, declared, world, reading)
        clock_ok = clock_holds(session, world.clock.now(), world.settings.timing.clock_settles)
    return Observed(
        declaration=declared,
        fresh=fresh,
        vanished=vanished,
        machine_class=book.get(name),
        last_seen=row.last_seen,
        pxe_open=row.pxe_open,
        outage=reading.outage,
        clock_ok=clock_ok,
        **reading.values,
        **inside,
    )


def _declaration(row: MachineRow, run: Run, world: World, reading: _Reading) -> tuple[Declaration | None, bool, bool]:
    """Return (declaration, read just now, vanished). NetBox without an answer means no news, never an end."""
    stored = declaration_of(row)
    waits = (
        isinstance(run.state, Gated) and stored is not None and stored.intent is not None and not stored.intent.approved
    )
    if Watch.DECLARATION not in run.state.watches or waits:
        return stored, False, row.vanished
    try:
        answer = world.inventory.declaration(run.machine)
    except OutsideError as problem:
        if isinstance(problem, OutageError):
            reading.outage = str(problem)
        return stored, False, row.vanished
    if isinstance(answer, Vanished):
        return stored, True, True
    if answer is None:
        return stored, False, row.vanished
    return answer, True, False


def _outside(row: MachineRow, run: Run, world: World, reading: _Reading) -> None:
    watches = run.state.watches
    steps: dict[Watch, tuple[str, Callable[[], Any]]] = {
        Watch.ATTEST: ("attest", lambda: world.provisioner.workflow(run.id, Part.ATTEST)),
        Watch.DISK: ("disk", lambda: world.provisioner.workflow(run.id, Part.DISK)),
        Watch.STRAYS: ("strays", lambda: world.provisioner.stray_workflows(run.machine, run.id)),
        Watch.JOB: ("job", lambda: world.power.job(run.id, run.state.job)),
        Watch.POWER: ("power", lambda: world.power.state(run.machine)),
    }
    for watch, (name, read) in steps.items():
        if watch not in watches or not _worth_asking(watch, row, run, world, reading):
            continue
        try:
            reading.values[name] = read()
        except CredentialsRefusedError:
            reading.values["bmc_refused"] = True
        except RefusedError as problem:
            reading.outage = f"refused: {problem}"
        except OutageError as problem:
            reading.outage = str(problem)


def _worth_asking(watch: Watch, row: MachineRow, run: Run, world: World, reading: _Reading) -> bool:
    """Spare the BMC: its state is asked for where it decides something, and of machines that are silent."""
    if watch not in {Watch.JOB, Watch.POWER}:
        return True
    if not run.orders.has_bmc:
        return False
    match run.state:
        case PoweringOn() | HandingOver() as state if watch is Watch.POWER:
            return state.off is Off.UNDER_WAY
        case Preparing():
            return bool(reading.values.get("strays"))
        case Netbooting() | Erasing() if watch is Watch.POWER:
            heard = max(run.state.since, row.last_seen or run.state.since)
            return world.clock.now() >= heard + world.settings.timing.silence
        case _:
            return True


def _inside(session: Session, row: MachineRow, run: Run) -> dict[str, Any]:
    verdict = last_verdict(session, run.id)
    events = events_of(session, run.id)
    check = None
    left: dict[str, Any] = {}
    if isinstance(run.state, PoweringDown | Withdrawing) and run.kind.erases:
        left = {
            "undeclared": undeclared_disks(session, run),
            "off_vouched": POWER_OFF in words_of(session, run.id),
        }
    if row.checked_at is not None:
        check = CheckSeen(row.checked_at, row.check_state, codes_of(row.check_findings))
    return {
        "verdict": verdict
        and VerdictSeen(
            verdict.state,
            verdict.at,
            codes_of(verdict.findings),
            tuple(verdict.findings),
        ),
        "events": tuple(EventSeen(event.action, event.kind, event.at, event.message) for event in events),
        "check": check,
        **left,
    }


def _gate(session: Session, run: Run, declared: Declaration, world: World, reading: _Reading) -> GateSeen:
    book = world.classes.book()
    rules, tags = book.get(declared.machine_class), book.tags
    ready = True
    if declared.has_bmc and not run.by_check:
        try:
            ready = world.power.credentials_ready(declared.bmc_secret)
        except OutsideError as problem:
            reading.outage, ready = str(problem), False
    return GateSeen(
        disk_declared_by=_other_with_disk(session, declared),
        seed_problem=world.classes.seed_problem(rules, declared) if rules and rules.installable else "",
        budget_full=budget_full(session, run, declared, rules, tags),
        runs_full=runs_full(session, world.settings.max_runs),
        credentials_ready=ready,
        two_person=any(tags[tag].two_person for tag in declared.tags if tag in tags),
    )


def _other_with_disk(session: Session, declared: Declaration) -> str:
    if declared.disk is None:
        return ""
    found = session.execute(
        select(MachineRow.id, MachineRow.node_name).where(
            MachineRow.disk_serial == declared.disk.serial,
            MachineRow.id != declared.machine,
            MachineRow.vanished.is_(False),
            MachineRow.standing != "retired",
        )
    ).first()
    return "" if found is None else f"{found.node_name or 'machine'} ({found.id})"
