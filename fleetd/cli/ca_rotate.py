"""`fleetd ca rotate`: replace an issuing CA or the service key while machines go on."""

from enum import StrEnum
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from fleetd.ca.generations import TreeError
from fleetd.ca.rotation import Progress, Rotation, RotationError
from fleetd.ca.service_rotation import ServiceRotation
from fleetd.ca.signer import KeyFileError
from fleetd.ca.tree import keep_server_certificate
from fleetd.cli.configuration import settings_of
from fleetd.core.certificates.profile import Tier
from fleetd.secret_files import SecretFileError
from fleetd.wiring import Parts

rotate = typer.Typer(help="Replace an issuing CA or the service key in two phases.", no_args_is_help=True)


class Rotated(StrEnum):
    """What can be rotated."""

    DEVID = "devid"
    AK = "ak"
    SERVER = "server"
    SERVICE = "service"


KindArgument = Annotated[Rotated, typer.Argument(help="Which CA, or `service` for the service key.")]

_PUBLISHED = """{name} is published beside the old service key, which goes on signing.
Machines pin it at their next boot check; `fleetd ca rotate status service` shows how far they are.
An image of yours that carries FLEET_KEYS (a HookOS of your own) must be built anew with both keys: `fleetd ca export`."""


@rotate.command("begin")
def begin(context: typer.Context, kind: KindArgument) -> None:
    """Make the new CA and let it issue; the old one stays trusted. Needs the root's key on this host.

    Of the service key: make the next one and let machines pin it; the old one goes on signing.
    Exit status: 0 begun, 1 refused.
    """
    parts = Parts(settings_of(context))
    with _Refusals("begin"):
        if kind is Rotated.SERVICE:
            typer.echo(_PUBLISHED.format(name=_service(parts).begin()))
            return
        made = _rotation(parts).begin(Tier(kind))
        if made.tier is Tier.SERVER:
            keep_server_certificate(parts.tree, parts.server_names, parts.clock.now(), parts.random)
    typer.echo(f"{made.name} issues from now on; what the old one issued stays trusted.")
    if made.tier is Tier.SERVER:
        typer.echo("fleetd's own TLS certificate is of it; `fleetd serve` follows without a restart.")
    else:
        typer.echo(f"Machines renew at their next boot check; `fleetd ca rotate status {kind}` shows how far they are.")
        typer.echo("Give relying parties the new bundle now: `fleetd ca export`.")
    typer.echo(f"Take the root's key offline again: {parts.tree.root_key_file}")


@rotate.command("status")
def status(context: typer.Context, kind: KindArgument) -> None:
    """Show the share of active machines that moved to the new CA or key, and the rest by name."""
    parts = Parts(settings_of(context))
    with _Refusals("status"):
        _show(_service(parts).status() if kind is Rotated.SERVICE else _rotation(parts).status(Tier(kind)))


@rotate.command("complete")
def complete(context: typer.Context, kind: KindArgument) -> None:
    """Stop trusting the old CA: revoke what is left of it, sign its last list and remove its key.

    Of the service key: let the new one sign, and remove the old one.
    Exit status: 0 done, 1 refused: machines that answer still know the old one only.
    """
    parts = Parts(settings_of(context))
    with _Refusals("complete"):
        done = _service(parts).complete() if kind is Rotated.SERVICE else _rotation(parts).complete(Tier(kind))
    typer.echo(f"{done.old} is trusted no longer; its key is removed.")
    for holder in done.waiting:
        typer.echo(f"must enroll again when it comes back: {holder.node_name or f'machine {holder.machine}'}")
    if kind is not Rotated.SERVICE and not parts.tree.root_key_file.exists():
        typer.echo("The root's list names it as revoked from the next time that the root's key is here.")


@rotate.command("abort")
def abort(context: typer.Context, kind: KindArgument) -> None:
    """Let the old CA issue again and forget the new one; only while that has issued nothing.

    Of the service key: forget the new one, which has signed nothing.
    Exit status: 0 done, 1 refused.
    """
    parts = Parts(settings_of(context))
    with _Refusals("abort"):
        if kind is Rotated.SERVICE:
            _service(parts).abort()
            typer.echo("The rotation of the service key is undone; machines drop the new one at their next check.")
            return
        _rotation(parts).abort(Tier(kind))
    typer.echo(f"The rotation of {kind} is undone; the old CA issues again.")


class _Refusals:
    """Ends the command with 1 and the words of a refusal."""

    def __init__(self, step: str) -> None:
        self._step = step

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RotationError | TreeError | KeyFileError | SecretFileError | OSError):
            said = (
                f"{error.filename}: {error.strerror}" if isinstance(error, OSError) and error.filename else str(error)
            )
            typer.echo(f"fleetd ca rotate {self._step}: {said}", err=True)
            raise typer.Exit(1) from error


def _rotation(parts: Parts) -> Rotation:
    return Rotation(parts.sessions, parts.tree, parts.authority, parts.clock, parts.random, parts.crl_url)


def _service(parts: Parts) -> ServiceRotation:
    return ServiceRotation(parts.sessions, parts.tree, parts.clock)


def _show(progress: Progress) -> None:
    console = Console(soft_wrap=True, markup=False)
    if progress.machines:
        share = 100 * progress.moved // progress.machines
        console.print(
            f"{progress.old} to {progress.new}: {progress.moved} of {progress.machines} machines moved ({share} %)"
        )
    else:
        console.print(f"{progress.old} to {progress.new}: no machine depends on either")
    if not progress.server_moved:
        console.print(f"fleetd's own TLS certificate is still of {progress.old}", style="yellow")
    if progress.waiting or progress.runs:
        table = Table("machine", "name", "blocks completion")
        for holder in (*progress.waiting, *progress.runs):
            blocks = f"yes{holder.why and ': '}{holder.why}" if holder.blocks else "no: lost, quarantined or unknown"
            table.add_row(str(holder.machine), holder.node_name, blocks)
        console.print(table)
