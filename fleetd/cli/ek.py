"""`fleetd ek`: the ledger that binds endorsement keys to machines; changed only here, on the service host."""

import json
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from sqlalchemy import select

from fleetd.app.runs import keys_agree_again
from fleetd.cli.configuration import settings_of
from fleetd.cli.terminal import person
from fleetd.core.identity import shown
from fleetd.core.names import MachineId
from fleetd.store import audit
from fleetd.store.endorsement_keys import EndorsementKeyRow
from fleetd.store.endorsement_keys import rebind as rebind_key
from fleetd.wiring import Parts

ek = typer.Typer(help="Which TPM belongs to which machine.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(ek, name="ek")


@ek.command("list")
def list_(
    context: typer.Context, *, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """Show every proven key and the machine that it is bound to."""
    parts = Parts(settings_of(context))
    with parts.sessions() as session:
        rows = list(session.scalars(select(EndorsementKeyRow).order_by(EndorsementKeyRow.first_seen)))
    if as_json:
        keys = ("public_hash", "key_type", "machine_id", "manufacturer", "chain_status", "address")
        typer.echo(json.dumps([{key: getattr(row, key) for key in keys} for row in rows], indent=2))
        return
    table = Table("fingerprint", "kind", "machine", "manufacturer", "chain", "first seen", "from")
    for row in rows:
        table.add_row(
            shown(row.public_hash),
            row.key_type,
            _holder(row),
            row.manufacturer,
            row.chain_status,
            f"{row.first_seen:%Y-%m-%d %H:%M}",
            row.address,
        )
    Console(markup=False).print(table)


def _holder(row: EndorsementKeyRow) -> str:
    if row.machine_id is not None:
        return str(row.machine_id)
    return "nobody is asked" if row.settled else "waits"


@ek.command()
def rebind(
    context: typer.Context,
    key: Annotated[str, typer.Argument(help="The key's public hash, or enough of its beginning to be the only one.")],
    *,
    machine: Annotated[int, typer.Option(help="NetBox id of the machine; 0 frees the key.")],
    reason: Annotated[str, typer.Option(help="Why; kept in the audit.")],
) -> None:
    """Move a key to another machine after a board or TPM was replaced, or free it.

    Exit status: 0 done, 1 no such key, or several.
    """
    parts = Parts(settings_of(context))
    now, who = parts.clock.now(), person()
    begins = key.replace(" ", "").lower()
    with parts.sessions.begin() as session:
        query = select(EndorsementKeyRow.public_hash).where(
            EndorsementKeyRow.public_hash.startswith(begins, autoescape=True)
        )
        found = list(session.scalars(query))
        if len(found) != 1 or not reason.strip():
            typer.echo(f"{len(found)} keys begin with {begins}" if reason.strip() else "--reason is empty", err=True)
            raise typer.Exit(1)
        held = session.scalar(select(EndorsementKeyRow.machine_id).where(EndorsementKeyRow.public_hash == found[0]))
        rebind_key(session, found[0], machine or None, reason=reason, by=who, now=now)
        for concerned in sorted(number for number in {held, machine} if number):
            keys_agree_again(session, MachineId(concerned), now)
        audit.record(session, now, "ek-rebind", who=who, key=found[0], to=machine, reason=reason)
    typer.echo(f"{shown(found[0])} is bound to machine {machine}" if machine else f"{shown(found[0])} is free")
