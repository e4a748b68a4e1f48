"""`fleetd machines`: what is known of a machine, why nothing happens, and what only a person can say."""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

import typer
from rich.console import Console
from sqlalchemy import select
from sqlalchemy.orm import Session

from fleetd.app import wishes
from fleetd.app.explain import Line, explain
from fleetd.cli.configuration import settings_of
from fleetd.cli.terminal import person, show_rows
from fleetd.core.names import MachineId, disk_serial
from fleetd.ports import OutsideError
from fleetd.store.checks import changes_of
from fleetd.store.evidence import POWER_OFF
from fleetd.store.machines import MachineRow, machines_named
from fleetd.store.runs import RunRow
from fleetd.wiring import Parts

machines = typer.Typer(help="Machines.", no_args_is_help=True)

Node = Annotated[str, typer.Argument(metavar="NODE", help="Node name, or the machine's number in NetBox.")]
Reason = Annotated[str, typer.Option(help="Why; kept in the audit.")]
By = Annotated[str, typer.Option(help="Who says so, where it is not the user who runs this.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(machines, name="machines")


@machines.command("list")
def list_(
    context: typer.Context,
    *,
    phase: Annotated[str, typer.Option(help="Only machines in this phase.")] = "",
    as_json: AsJson = False,
) -> None:
    """Show every machine: its phase, how its last check went, and what it says."""
    parts = Parts(settings_of(context))
    with parts.sessions() as session:
        query = select(MachineRow, RunRow).outerjoin(RunRow, RunRow.id == MachineRow.run_id)
        rows = session.execute(query.order_by(MachineRow.node_name, MachineRow.id)).all()
        found = [_summary(row, run) for row, run in rows if phase in {"", row.phase}]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    headings = ("node", "number", "class", "phase", "since", "check", "says")
    show_rows(headings, [[item[name] for name in _COLUMNS] for item in found])


_COLUMNS = ("node", "machine", "class", "phase", "since", "check", "message")


@machines.command()
def show(context: typer.Context, node: Node, *, as_json: AsJson = False) -> None:
    """Show all that fleetd knows of one machine.

    Exit status: 0 shown, 2 no such machine.
    """
    parts = Parts(settings_of(context))
    with parts.sessions() as session:
        row = _one(session, node)
        run = session.get(RunRow, row.run_id) if row.run_id else None
        shown = _summary(row, run) | {
            "declared": row.declaration,
            "vanished": row.vanished,
            "standing": row.standing,
            "quarantined": row.quarantine_reason if row.quarantined_at else "",
            "last_seen": _time(row.last_seen),
            "last_check": _time(row.checked_at),
            "last_good_check": _time(row.check_ok_at),
            "run": _run(run),
            "check_changes": [
                {"at": _time(change.at), "result": change.result, "findings": [f.get("code") for f in change.findings]}
                for change in changes_of(session, row.id)
            ],
        }
    if as_json:
        typer.echo(json.dumps(shown, indent=2))
        return
    Console(soft_wrap=True, markup=False).print_json(json.dumps(shown))


@machines.command("explain")
def explain_(context: typer.Context, node: Node, *, as_json: AsJson = False) -> None:
    """Say why nothing happens: what the machine waits for, and what to do next.

    Exit status: 0 said, 2 no such machine.
    """
    parts = Parts(settings_of(context))
    with parts.sessions() as session:
        lines = explain(session, _one(session, node), parts.clock.now())
    if as_json:
        typer.echo(json.dumps([{"sentence": line.sentence, "next_step": line.next_step} for line in lines], indent=2))
        return
    for line in lines:
        _print(line)


def _print(line: Line) -> None:
    typer.echo(line.sentence)
    if line.next_step:
        typer.echo(f"  -> {line.next_step}")


@machines.command("declare-lost")
def declare_lost(context: typer.Context, node: Node, *, reason: Reason, by: By = "", yes: Yes = False) -> None:
    """Let a wipe or retirement end without the machine: its credentials are withdrawn, its disks are not erased.

    For a machine that cannot be reached any more. Ask for the wipe or retirement in NetBox first.

    Exit status: 0 declared, 1 refused, 2 no such machine.
    """

    def say(session: Session, machine: MachineId, who: str, now: datetime) -> None:
        wishes.declare_lost(session, machine, who, reason, now)

    _wish(context, node, reason, by, say, ask="" if yes else "Its disks will NOT be erased. Is the machine lost?")
    typer.echo(f"{node} is declared lost: its credentials are withdrawn at the next look.")


@machines.command()
def vouch(
    context: typer.Context,
    node: Node,
    *,
    reason: Reason,
    disk: Annotated[str, typer.Option(help="Serial of an undeclared disk that may leave as it is.")] = "",
    power_off: Annotated[bool, typer.Option("--power-off", help="The machine, which has no BMC, is off.")] = False,
    by: By = "",
) -> None:
    """Give your word in a retirement for what fleetd cannot see: what is on a disk, or that a machine is off.

    Exit status: 0 taken, 1 refused, 2 no such machine or nothing to vouch for.
    """
    if bool(disk) == power_off:
        typer.echo("say one of --disk SERIAL and --power-off", err=True)
        raise typer.Exit(2)
    subject = POWER_OFF if power_off else disk_serial(disk)

    def say(session: Session, machine: MachineId, who: str, now: datetime) -> None:
        wishes.vouch(session, machine, subject, who, reason, now)

    _wish(context, node, reason, by, say)
    typer.echo(f"{node}: your word about {subject} is recorded; the retirement goes on at the next look.")


@machines.command()
def release(context: typer.Context, node: Node, *, reason: Reason, by: By = "") -> None:
    """Ask that a quarantined machine be trusted again; its next good attest lifts the quarantine.

    Exit status: 0 asked, 1 refused, 2 no such machine.
    """

    def say(session: Session, machine: MachineId, who: str, now: datetime) -> None:
        wishes.request_release(session, machine, who, reason, now)

    _wish(context, node, reason, by, say)
    typer.echo(f"{node}: now ask for an attest in NetBox; when it passes, the quarantine ends.")


@machines.command()
def forget(context: typer.Context, node: Node, *, reason: Reason, by: By = "", yes: Yes = False) -> None:
    """Withdraw everything of a machine whose record vanished from NetBox.

    Exit status: 0 forgotten, 1 refused or a part of the service is away, 2 no such machine.
    """
    parts = Parts(settings_of(context))
    with parts.sessions() as session:
        machine = MachineId(_one(session, node).id)
    _checked(reason, "" if yes else f"Revoke every certificate of {node} and remove its Hardware?")
    try:
        wishes.forget(machine, by or person(), reason, parts.world)
    except (wishes.WishRefusedError, OutsideError) as problem:
        raise _refused(node, problem) from problem
    typer.echo(f"{node} is forgotten: its credentials are withdrawn and its Hardware is removed.")


def _wish(
    context: typer.Context,
    node: str,
    reason: str,
    by: str,
    say: Callable[[Session, MachineId, str, datetime], None],
    ask: str = "",
) -> None:
    """Write what a person says of a machine, with who said it."""
    parts = Parts(settings_of(context))
    with parts.sessions() as session:
        machine = MachineId(_one(session, node).id)
    _checked(reason, ask)
    try:
        with parts.sessions.begin() as session:
            say(session, machine, by or person(), parts.clock.now())
    except wishes.WishRefusedError as problem:
        raise _refused(node, problem) from problem


def _checked(reason: str, ask: str) -> None:
    if not reason.strip():
        typer.echo("--reason is empty", err=True)
        raise typer.Exit(1)
    if ask:
        typer.confirm(ask, abort=True)


def _refused(node: str, problem: Exception) -> typer.Exit:
    typer.echo(f"{node}: {problem}", err=True)
    return typer.Exit(1)


def _one(session: Session, node: str) -> MachineRow:
    found = machines_named(session, node)
    if len(found) == 1:
        return found[0]
    numbers = ", ".join(str(row.id) for row in found)
    typer.echo(
        f"{len(found)} machines are called {node}{f': give one of the numbers {numbers}' if found else ''}", err=True
    )
    raise typer.Exit(2)


def _summary(row: MachineRow, run: RunRow | None) -> dict[str, Any]:
    return {
        "node": row.node_name,
        "machine": row.id,
        "class": row.machine_class,
        "phase": row.phase,
        "since": _time(row.phase_since),
        "check": row.check_state,
        "message": run.message if run else "",
    }


def _run(run: RunRow | None) -> dict[str, Any] | None:
    if run is None:
        return None
    return {
        "id": str(run.id),
        "kind": run.kind,
        "state": run.state_name,
        "outcome": run.outcome,
        "opened": _time(run.opened_at),
        "ended": _time(run.ended_at),
        "message": run.message,
        "findings": run.findings,
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="seconds")
