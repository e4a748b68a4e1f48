"""`fleetd runs`: what was done to machines, where a run is ended, and the signed evidence of it."""

import json
import re
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from rich.console import Console
from sqlalchemy import String, cast, select
from sqlalchemy.orm import Session

from fleetd.app.rows import is_cancelled, run_of
from fleetd.ca.service_keys import jwks_of, keys_ever
from fleetd.cli.configuration import settings_of
from fleetd.cli.terminal import show_rows
from fleetd.core.evidence.page import page
from fleetd.core.evidence.verify import NotGenuineError, keys_of, verified
from fleetd.core.names import RunId
from fleetd.core.records import to_record
from fleetd.store.events import EventRow, events_of
from fleetd.store.evidence import EvidenceRow, records_of
from fleetd.store.machines import MachineRow
from fleetd.store.runs import ArchivedWorkflow, RunRow
from fleetd.wiring import Parts

runs = typer.Typer(help="Runs.", no_args_is_help=True)

RunName = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run, or enough of its beginning.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
KEYS_FILE = "record-keys.json"
_BEGINNING = re.compile(r"[0-9a-f-]{4,36}")


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(runs, name="runs")


@runs.command("list")
def list_(
    context: typer.Context,
    *,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many, newest first.")] = 50,
    as_json: AsJson = False,
) -> None:
    """Show the latest runs."""
    parts = Parts(settings_of(context))
    with parts.sessions() as session:
        query = select(RunRow, MachineRow.node_name).join(MachineRow, MachineRow.id == RunRow.machine_id)
        found = [
            {
                "run": str(run.id),
                "node": node,
                "kind": run.kind,
                "state": run.outcome or run.state_name,
                "opened": run.opened_at.isoformat(timespec="seconds"),
                "ended": run.ended_at.isoformat(timespec="seconds") if run.ended_at else None,
                "message": run.message,
            }
            for run, node in session.execute(query.order_by(RunRow.opened_at.desc()).limit(limit))
        ]
    if as_json:
        typer.echo(json.dumps(found, indent=2))
        return
    show_rows(("run", "node", "kind", "state", "opened", "ended", "says"), [item.values() for item in found])


@runs.command()
def show(context: typer.Context, run: RunName, *, as_json: AsJson = False) -> None:
    """Show one run: who asked for it, each step, what the machine told, and how it ended.

    Exit status: 0 shown, 2 no such run.
    """
    parts = Parts(settings_of(context))
    with parts.sessions() as session:
        shown = _whole(session, _one(session, run))
    if as_json:
        typer.echo(json.dumps(shown, indent=2))
        return
    Console(soft_wrap=True, markup=False).print_json(json.dumps(shown))


def _whole(session: Session, row: RunRow) -> dict[str, Any]:
    machine = session.get_one(MachineRow, row.machine_id)
    run = run_of(row)
    asked = run.orders.intent
    archived = session.scalars(select(ArchivedWorkflow).where(ArchivedWorkflow.run_id == row.id))
    return {
        "run": str(row.id),
        "node": machine.node_name,
        "machine": row.machine_id,
        "kind": row.kind,
        "state": row.outcome or row.state_name,
        "code": row.code,
        "message": row.message,
        "findings": row.findings,
        "asked": None if asked is None else to_record(asked),
        "cancelled": is_cancelled(machine, run.id),
        "opened": _time(row.opened_at),
        "began": _time(row.began_at),
        "deadline": None if run.over else _time(run.state.deadline),
        "ended": _time(row.ended_at),
        "steps": row.steps,
        "first_leave": _time(row.first_leave_at),
        "redeemed": _time(row.redeemed_at),
        "told": [_told(event) for event in events_of(session, run.id) if event.kind != "progress"],
        "workflows": [{"part": kept.part, "outcome": kept.outcome, "at": _time(kept.at)} for kept in archived],
        "records": [{"kind": record.kind, "subject": record.subject} for record in records_of(session, run.id)],
    }


def _told(event: EventRow) -> dict[str, Any]:
    return {"at": _time(event.at), "action": event.action, "kind": event.kind, "message": event.message}


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat(timespec="seconds")


@runs.command()
def cancel(context: typer.Context, run: RunName) -> None:
    """Say where a run is cancelled: in NetBox, by a person who has the permission there. Nothing is changed by this.

    A cancelled run ends at its next safe step, never inside an erase or write.

    Exit status: 0 it is cancelled or over already, 1 it is not, and where to cancel it was said, 2 no such run.
    """
    settings = settings_of(context)
    with Parts(settings).sessions() as session:
        row = _one(session, run)
        machine = session.get_one(MachineRow, row.machine_id)
        over, cancelled = run_of(row).over, is_cancelled(machine, RunId(row.id))
    if over:
        typer.echo(f"run {row.id} ({row.kind}) is over: {row.outcome}")
        return
    if cancelled:
        typer.echo(
            f"run {row.id} ({row.kind}) is cancelled already; it ends at its next safe step. It says: {row.message}"
        )
        return
    page = f"plugins/fleet/machines/{row.machine_id}/"
    netbox = settings.netbox.url.rstrip("/")
    typer.echo(
        f"run {row.id} ({row.kind} of {machine.node_name}) is not cancelled: what is wished is said in NetBox.\n"
        f"  -> Open {netbox}/{page} and press Cancel, or POST {netbox}/api/{page}cancel/ with a reason; your NetBox user"
        " needs the permission netbox_fleet.cancel_machine.",
        err=True,
    )
    raise typer.Exit(1)


@runs.command()
def evidence(
    context: typer.Context,
    run: RunName,
    *,
    out: Annotated[Path | None, typer.Option(help="Write JSON, a page to read and the public keys there.")] = None,
) -> None:
    """Give the signed records of a run: one for each erased disk, and one for a retirement.

    Without --out the JSON is printed. `fleetd evidence verify` checks it anywhere.

    Exit status: 0 given, 1 the run has no record, 2 no such run.
    """
    parts = Parts(settings_of(context))
    with parts.sessions() as session:
        found = _one(session, run)
        rows = records_of(session, RunId(found.id))
    if not rows:
        typer.echo(f"run {found.id} ({found.kind}, {found.outcome or found.state_name}) has no record", err=True)
        raise typer.Exit(1)
    keys = jwks_of(keys_ever(parts.tree.directory))
    body = {"run": str(found.id), "records": [_shown(row, keys) for row in rows]}
    text = json.dumps(body, indent=2) + "\n"
    if out is None:
        typer.echo(text, nl=False)
        return
    out.mkdir(parents=True, exist_ok=True)
    known = keys_of(keys)
    genuine = [verified(row.jws, known) for row in rows if _holds(row, keys)]
    for name, content in (
        (f"run-{found.id}.json", text),
        (f"run-{found.id}.html", page(str(found.id), genuine)),
        (KEYS_FILE, keys.decode()),
    ):
        (out / name).write_text(content)
        typer.echo(str(out / name))


def _shown(row: EvidenceRow, keys: bytes) -> dict[str, Any]:
    """Return a record with its payload in the clear; what counts is its `jws`."""
    try:
        payload = dict(verified(row.jws, keys_of(keys)).payload)
    except NotGenuineError as problem:
        payload = {"problem": f"not verifiable with the service keys in force: {problem}"}
    return {"kind": row.kind, "subject": row.subject, "payload": payload, "jws": row.jws}


def _holds(row: EvidenceRow, keys: bytes) -> bool:
    try:
        verified(row.jws, keys_of(keys))
    except NotGenuineError as problem:
        typer.echo(f"{row.kind} {row.subject}: {problem}", err=True)
        return False
    return True


def _one(session: Session, run: str) -> RunRow:
    begins = run.strip().lower()
    found: list[RunRow] = []
    if _BEGINNING.fullmatch(begins):
        try:
            found = [row for row in [session.get(RunRow, UUID(begins))] if row is not None]
        except ValueError:
            query = select(RunRow).where(cast(RunRow.id, String).startswith(begins, autoescape=True)).limit(2)
            found = list(session.scalars(query))
    if len(found) == 1:
        return found[0]
    typer.echo(f"{'several' if found else 'no'} runs begin with {run}", err=True)
    raise typer.Exit(2)
