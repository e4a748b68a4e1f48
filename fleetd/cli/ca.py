"""`fleetd ca`: the authorities, from the ceremony that makes them to the switch that stops them."""

from pathlib import Path
from typing import Annotated

import typer
from cryptography.hazmat.primitives.serialization import Encoding
from rich.console import Console
from rich.table import Table
from sqlalchemy import func, select

from fleetd.ca.revoking import REASONS, sign_root_list
from fleetd.ca.service_keys import jwks_of, keys_ever
from fleetd.ca.signer import KeyFileError
from fleetd.ca.tree import Issuer, TreeError, keep_server_certificate, make_tree, replace_file
from fleetd.cli.ca_rotate import rotate
from fleetd.cli.configuration import settings_of
from fleetd.cli.terminal import person
from fleetd.core.certificates.profile import Tier
from fleetd.core.names import MachineId
from fleetd.ports import OutageError
from fleetd.secret_files import SecretFileError, make_secret
from fleetd.store.certificates import CertificateRow, CertificateState, PauseRow
from fleetd.wiring import Parts

ca = typer.Typer(help="The certificate authorities of this fleet.", no_args_is_help=True)
ca.add_typer(rotate, name="rotate")

_CEREMONY = """
The root's key is needed again only to replace an issuing CA. Take it away now:
  1. copy {key} to a medium that is kept offline, and to a second one;
  2. compare the copies, then remove the file from this host;
  3. `fleetd ca show` then says "root key: not here", as it should be.
Relying parties trust {certificate}."""


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(ca, name="ca")


@ca.command("init")
def init(
    context: typer.Context,
    organization: Annotated[
        str, typer.Option(help="Whose fleet it is; stands in every CA's name. Default from the configuration.")
    ] = "",
) -> None:
    """Make root, issuing CAs, service key, server key and fleetd's own TLS certificate; what is there already stays.

    Exit status: 0 all there, 1 a part is missing that needs the root's key back.
    """
    parts = Parts(settings_of(context))
    now = parts.clock.now()
    try:
        fresh = not parts.tree.complete
        named = organization or parts.settings.ca.organization
        tree = make_tree(parts.tree.directory, named, parts.crl_url, now, parts.random, parts.tree.token)
        keep_server_certificate(tree, parts.server_names, now, parts.random)
        make_secret(parts.settings.ca.server_key_file, parts.random.bytes(32))
        key = tree.root_key_file
        if key.exists():
            replace_file(tree.root_list_file, sign_root_list(tree, now))
    except (TreeError, KeyFileError, SecretFileError) as error:
        typer.echo(f"fleetd ca init: {error}", err=True)
        raise typer.Exit(1) from error
    if fresh and key.exists():
        typer.echo(f"The authorities are made in {tree.directory}.")
        typer.echo(_CEREMONY.format(key=key, certificate=tree.directory / "root.pem"))
    else:
        typer.echo(f"The authorities in {tree.directory} are complete; none was changed.")
        if key.exists():
            typer.echo("The root's list is signed anew, for a year. Take the root's key offline again.")


@ca.command("show")
def show(context: typer.Context) -> None:
    """Show each authority, how long it is in force, what it issued and what it revoked."""
    parts = Parts(settings_of(context))
    table = Table("authority", "state", "subject", "in force until", "issued", "revoked")
    try:
        issuers = [issuer for tier in Tier for issuer in parts.tree.in_force(tier)]
        issuing = {parts.tree.issuer(tier).name for tier in Tier}
    except TreeError as error:
        typer.echo(f"fleetd ca show: {error}", err=True)
        raise typer.Exit(1) from error
    with parts.sessions() as session:
        for issuer in issuers:
            mine = select(func.count()).where(
                CertificateRow.issuer == issuer.fingerprint, CertificateRow.state == CertificateState.ISSUED
            )
            revoked = session.scalar(mine.where(CertificateRow.revoked_at.is_not(None)))
            until = f"{issuer.certificate.not_valid_after_utc:%Y-%m-%d}"
            name = issuer.certificate.subject.rfc4514_string()
            state = "issues" if issuer.name in issuing else "leaving"
            table.add_row(issuer.name, state, name, until, str(session.scalar(mine)), str(revoked))
        paused = session.get(PauseRow, 1)
    console = Console(soft_wrap=True, markup=False)
    console.print(table)
    here = parts.tree.root_key_file.exists()
    console.print("root key: on this host; take it offline" if here else "root key: not here, as it should be")
    if paused is not None:
        console.print(
            f"issuing is paused since {paused.since:%Y-%m-%d %H:%M} by {paused.by}: {paused.reason}", style="yellow"
        )


@ca.command("revoke")
def revoke(
    context: typer.Context,
    machine: Annotated[int, typer.Argument(help="NetBox's number of the Machine.")],
    reason: Annotated[str, typer.Option(help="keyCompromise, cessationOfOperation, superseded, ..")],
) -> None:
    """Revoke every certificate of a machine, effective at its next request, and publish the lists.

    Exit status: 0 done, 1 they are revoked and a list could not be signed anew.
    """
    if reason not in REASONS:
        raise typer.BadParameter(
            f"{reason} is no reason of a revocation (RFC 5280, 5.3.1): {', '.join(sorted(REASONS))}"
        )
    parts = Parts(settings_of(context))
    try:
        parts.authority.revoke(MachineId(machine), reason)
    except OutageError as error:
        typer.echo(f"fleetd ca revoke: every certificate of machine {machine} is revoked, but {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(f"Every certificate of machine {machine} is revoked ({reason}); the revocation lists are signed anew.")


@ca.command("reissue")
def reissue(
    context: typer.Context,
    machine: Annotated[int | None, typer.Argument(help="NetBox's number of the Machine.")] = None,
    *,
    everybody: Annotated[bool, typer.Option("--all", help="Every machine with certificates in force.")] = False,
) -> None:
    """Let a machine, or all, get new certificates at the next boot check; those in force stay until the new ones are used.

    Exit status: 0 done, 1 the machine has none in force.
    """
    if (machine is None) is not everybody:
        raise typer.BadParameter("name one machine, or --all")
    parts = Parts(settings_of(context))
    count = parts.issuer.reissue(None if machine is None else MachineId(machine))
    if machine is not None and not count:
        typer.echo(f"fleetd ca reissue: machine {machine} has no certificate in force; it gets one in a run", err=True)
        raise typer.Exit(1)
    typer.echo(f"{count} certificates are replaced at the next boot check of their machines.")


@ca.command("pause")
def pause(
    context: typer.Context,
    reason: Annotated[str, typer.Option(help="Why; shown to whoever asks for a certificate.")],
    by: Annotated[str, typer.Option(help="Who says so, where it is not the user who runs this.")] = "",
) -> None:
    """Stop issuing certificates; boot checks go on."""
    Parts(settings_of(context)).issuer.pause(by or person(), reason)
    typer.echo("Issuing is paused; `fleetd ca resume` ends it.")


@ca.command("resume")
def resume(context: typer.Context) -> None:
    """Issue certificates again."""
    Parts(settings_of(context)).issuer.resume()
    typer.echo("Certificates are issued again.")


@ca.command("export")
def export(context: typer.Context, directory: Annotated[Path, typer.Argument(help="Where the files go.")]) -> None:
    """Write what relying parties need; nothing of it is secret.

    `<name>.pem` of each trusted authority, `<tier>-issuers.pem` (the trusted ones of one tier), `<tier>-chain.pem` (these, then the
    root), `bundle.pem` (all), `<name>.crl` where a list is signed, `crl-urls.txt`, `service-keys.json` (JWKS of the
    keys in force), and `record-keys.json` (JWKS of all that ever signed records).
    Exit status: 0 written, 1 an authority cannot be read.
    """
    parts = Parts(settings_of(context))
    try:
        files = _exported(parts)
        directory.mkdir(parents=True, exist_ok=True)
        for name, content in files.items():
            replace_file(directory / name, content)
    except (OSError, TreeError, KeyFileError, SecretFileError) as error:
        typer.echo(f"fleetd ca export: {error}", err=True)
        raise typer.Exit(1) from error
    typer.echo(files["crl-urls.txt"].decode(), nl=False)
    typer.echo(f"written to {directory}: {', '.join(files)}")


def _exported(parts: Parts) -> dict[str, bytes]:
    trusted = {tier: parts.tree.in_force(tier) for tier in Tier}
    (root,) = trusted[Tier.ROOT]
    files = {f"{each.name}.pem": _pem(each) for issuers in trusted.values() for each in issuers}
    for tier in (Tier.DEVID, Tier.AK, Tier.SERVER):
        files[f"{tier}-issuers.pem"] = b"".join(_pem(each) for each in trusted[tier])
        files[f"{tier}-chain.pem"] = b"".join(_pem(each) for each in (*trusted[tier], root))
    files["bundle.pem"] = b"".join(_pem(each) for issuers in trusted.values() for each in issuers)
    listed = [each for tier in (Tier.ROOT, Tier.DEVID, Tier.AK) for each in trusted[tier]]
    for each in listed:
        revoked = parts.authority.revocation_list(each.name)
        if revoked is not None:
            files[f"{each.name}.crl"] = revoked
    files["crl-urls.txt"] = "".join(f"{each.name} {parts.crl_url}/v1/crl/{each.name}\n" for each in listed).encode()
    files["service-keys.json"] = parts.speaker.jwks()
    # Records of erased disks are kept for longer than a service key lives.
    files["record-keys.json"] = jwks_of(keys_ever(parts.tree.directory))
    return files


def _pem(issuer: Issuer) -> bytes:
    return issuer.certificate.public_bytes(Encoding.PEM)
