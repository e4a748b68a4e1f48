"""`fleetd audit`: whether the chain of what was done still holds, and a copy of it."""

import json
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import typer
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from sqlalchemy import select

from fleetd.ca.service_keys import keys_ever
from fleetd.ca.signer import KeyFileError
from fleetd.ca.tree import TreeError
from fleetd.cli.configuration import settings_of
from fleetd.core.exchange.jwk import unpadded
from fleetd.secret_files import SecretFileError
from fleetd.store.audit import AuditRow, Verified, in_order, unchained, verified
from fleetd.wiring import Parts

audit = typer.Typer(help="The record of what was done, by whom and when.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(audit, name="audit")


def by_any(keys: tuple[Ed25519PublicKey, ...]) -> Callable[[bytes, str], bool]:
    """Return what tells whether a signature, base64url, is of one of these keys."""

    def signed(message: bytes, signature: str) -> bool:
        try:
            raw = urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
        except ValueError:
            return False
        return unpadded(raw) == signature and any(_by(key, raw, message) for key in keys)

    return signed


def _by(key: Ed25519PublicKey, signature: bytes, message: bytes) -> bool:
    try:
        key.verify(signature, message)
    except InvalidSignature:
        return False
    return True


@audit.command()
def verify(
    context: typer.Context,
    *,
    file: Annotated[Path | None, typer.Option(help="Verify an export instead of the database.")] = None,
    expect: Annotated[str, typer.Option(help="A head that you noted earlier: it must still be in the chain.")] = "",
) -> None:
    """Check every row of the chain against the one before it and against the service key, and print its head.

    Note the head outside this host from time to time: with `--expect` a chain whose end was cut off shows.
    Exit status: 0 the chain holds, 1 it does not, 2 it could not be checked.
    """
    parts = Parts(settings_of(context))
    try:
        signed = by_any(keys_ever(parts.tree.directory))
    except (TreeError, KeyFileError, SecretFileError) as error:
        typer.echo(f"fleetd audit verify: the service key cannot be read: {error}", err=True)
        raise typer.Exit(2) from error
    if file is not None:
        result, waiting = verified(_rows_of(file), signed, expect), 0
    else:
        with parts.sessions() as session:
            result = verified(in_order(session), signed, expect)
            waiting = unchained(session)
    _tell(result, waiting)


def _tell(result: Verified, waiting: int) -> None:
    if result.broken_at is not None:
        typer.echo(
            f"The chain breaks at position {result.broken_at}: a row was removed, changed or put in. "
            "Compare with the last export or backup, and find out who could write to the database.",
            err=True,
        )
        raise typer.Exit(1)
    if not result.found_expected:
        typer.echo(
            f"The chain of {result.rows} rows holds, but the expected head is not in it: its end was cut off, "
            "or the database was restored from before it.",
            err=True,
        )
        raise typer.Exit(1)
    typer.echo(f"{result.rows} rows hold; head {result.head or 'none'}; {waiting} rows wait for their place.")


@audit.command()
def export(
    context: typer.Context,
    *,
    after: Annotated[int, typer.Option(help="Begin after this position.")] = 0,
    machine: Annotated[
        int | None, typer.Option(help="Only rows of this machine; such a part cannot be verified.")
    ] = None,
) -> None:
    """Print the chained rows as JSON lines, oldest first: a copy that `fleetd audit verify --file` can check."""
    statement = select(AuditRow).where(AuditRow.position > after).order_by(AuditRow.position)
    if machine is not None:
        statement = statement.where(AuditRow.machine_id == machine)
    with Parts(settings_of(context)).sessions() as session:
        for row in session.scalars(statement.execution_options(yield_per=1000)):
            typer.echo(json.dumps(_plain(row)))


def _plain(row: AuditRow) -> dict[str, Any]:
    return {
        "position": row.position,
        "at": row.at.isoformat(),
        "machine": row.machine_id,
        "run": str(row.run_id) if row.run_id else None,
        "who": row.who,
        "what": row.what,
        "detail": row.detail,
        "digest": row.digest,
        "signature": row.signature,
    }


def _rows_of(file: Path) -> Iterator[AuditRow]:
    """Read an export. Ends the command with 2 where a line is none."""
    with file.open(encoding="utf-8") as stream:
        for number, line in enumerate(stream, 1):
            try:
                yield _row(json.loads(line))
            except (KeyError, TypeError, ValueError) as error:
                typer.echo(f"{file}, line {number}: not a row of an export", err=True)
                raise typer.Exit(2) from error


def _row(values: dict[str, Any]) -> AuditRow:
    return AuditRow(
        position=values["position"],
        at=datetime.fromisoformat(values["at"]),
        machine_id=values["machine"],
        run_id=UUID(values["run"]) if values["run"] else None,
        who=values["who"],
        what=values["what"],
        detail=values["detail"],
        digest=values["digest"],
        signature=values["signature"],
    )
