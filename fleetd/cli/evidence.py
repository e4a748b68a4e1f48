"""`fleetd evidence`: records of erased disks and retirements, checked without network and without a database."""

import json
from pathlib import Path
from typing import Annotated

import typer

from fleetd.ca.service_keys import jwks_of, keys_ever
from fleetd.ca.signer import KeyFileError
from fleetd.ca.tree import TreeError
from fleetd.cli.configuration import settings_of
from fleetd.cli.evidence_files import read_evidence, unreadable
from fleetd.core.evidence.verify import NotGenuineError, Record, UnreadableError, keys_of, records_in, verified
from fleetd.secret_files import SecretFileError
from fleetd.wiring import Parts

evidence = typer.Typer(help="Signed records of what was erased and withdrawn.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(evidence, name="evidence")


@evidence.command()
def verify(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="Records: JSON of `runs evidence` or of NetBox, or one JWS a line.")],
    *,
    jwks: Annotated[
        Path | None,
        typer.Option(help="Public keys of the service (JWKS); default: all that this service ever signed with."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what the records say as JSON.")] = False,
) -> None:
    """Check that fleetd signed every record in a file, and say what each says.

    Exit status: 0 all are genuine, 1 one is not, 2 file or keys cannot be read, or there is no record.
    """
    raw = read_evidence(file)
    known = jwks.name if jwks else "the service's keys"
    try:
        keys = keys_of(read_evidence(jwks) if jwks else _own_keys(context))
    except UnreadableError as problem:
        raise unreadable(jwks or Path(known), str(problem)) from problem
    try:
        found = records_in(raw)
    except UnreadableError as problem:
        raise unreadable(file, str(problem)) from problem
    bad, told = 0, []
    for number, jws in enumerate(found, 1):
        try:
            record = verified(jws, keys)
        except NotGenuineError as problem:
            bad += 1
            typer.echo(f"record {number} of {len(found)}: NOT GENUINE: {problem}", err=True)
            continue
        told.append(dict(record.payload))
        if not as_json:
            typer.echo(f"record {number} of {len(found)}: genuine (key {record.kid})")
            typer.echo(f"  {_sentence(record)}")
    if as_json:
        typer.echo(json.dumps(told, indent=2))
    raise typer.Exit(1 if bad else 0)


def _sentence(record: Record) -> str:
    payload, machine = record.payload, record.payload["machine"]
    where = f"run {payload['run']} on {machine['node_name']} (device serial {machine['serial'] or 'not declared'})"
    if record.kind == "retirement":
        fates = "; ".join(f"{disk['name']}: {disk['state']}" for disk in payload["disks"])
        return f"{where} retired with {len(payload['steps'])} steps. Disks: {fates or 'none seen'}."
    disk, witness = payload["disk"], payload["witness"]
    boot = "judged" if witness["boot_judged"] else "not judged"
    return (
        f"{where}: disk {disk['serial']} {disk['result']} by {disk['method']} ({disk['depth']}), ended {disk['end']},"
        f" {disk['samples']} places read back; the boot of the machine was {boot}. {disk['note']}".rstrip()
    )


def _own_keys(context: typer.Context) -> bytes:
    try:
        return jwks_of(keys_ever(Parts(settings_of(context)).tree.directory))
    except (TreeError, KeyFileError, SecretFileError, OSError) as problem:
        raise UnreadableError(f"{problem}; give them with --jwks") from problem
