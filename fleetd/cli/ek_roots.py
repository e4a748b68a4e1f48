"""`fleetd ek-roots`: which CA certificates of TPM manufacturers are at hand, and how they get there."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from fleetd.config import load_settings
from fleetd.ek_roots import import_certificates, load_roots, pins

ek_roots = typer.Typer(help="CA certificates of TPM manufacturers.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(ek_roots, name="ek-roots")


def _directory(given: Path | None) -> Path:
    return given or load_settings().paths.roots


@ek_roots.command("import")
def import_(
    places: Annotated[
        list[Path], typer.Argument(exists=True, help="Files and directories of certificates that you downloaded.")
    ],
    directory: Annotated[Path | None, typer.Option(help="Where they are kept; default from the configuration.")] = None,
    *,
    trust_unpinned: Annotated[
        bool, typer.Option("--trust-unpinned", help="Trust what is not pinned, as your own root.")
    ] = False,
    reason: Annotated[str, typer.Option(help="Why you trust it; kept beside it.")] = "",
) -> None:
    """Admit the certificates whose fingerprint is pinned, and intermediates below them; name and refuse the rest.

    Exit status: 0 all admitted, 1 some refused or none found, 2 no such place.
    """
    if trust_unpinned and not reason.strip():
        raise typer.BadParameter("--trust-unpinned needs --reason: who vouches for these roots?")
    done = import_certificates(_directory(directory), places, datetime.now(UTC), reason if trust_unpinned else "")
    console = Console(soft_wrap=True, markup=False)
    for what, admitted in (
        ("manufacturer's root", done.manufacturers),
        ("intermediate", done.links),
        ("your own root", done.owner),
    ):
        for certificate in admitted:
            console.print(f"admitted as {what}: {certificate.subject}", markup=False, highlight=False)
    for name, why in done.refused:
        console.print(f"refused: {name}: {why}", style="red", markup=False, highlight=False)
    none_found = not (done.manufacturers or done.links or done.owner or done.refused)
    if none_found:
        console.print("no certificate found there: download the TPM vendors' certificates first", highlight=False)
    raise typer.Exit(1 if done.refused or none_found else 0)


@ek_roots.command("list")
def list_(
    directory: Annotated[Path | None, typer.Option(help="Where they are kept; default from the configuration.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show every pinned root and whether its certificate is at hand, and the owner's own roots."""
    store = load_roots(_directory(directory))
    rows = [
        {
            "manufacturer": pin.manufacturer,
            "name": pin.name,
            "sha256": pin.certificate,
            "at_hand": pin.spki in store.trusted,
        }
        for pin in pins()
    ]
    own = [
        {"manufacturer": "", "name": str(root.subject), "sha256": root.fingerprint, "at_hand": True}
        for root in store.certificates
        if store.trusted.get(root.spki_fingerprint) == "owner"
    ]
    if as_json:
        typer.echo(json.dumps([*rows, *own], indent=1))
        return
    table = Table("maker", "root", "SHA-256", "certificate")
    for row in [*rows, *own]:
        shown = "yours" if not row["manufacturer"] else "at hand" if row["at_hand"] else "not imported"
        table.add_row(str(row["manufacturer"]), str(row["name"])[:70], str(row["sha256"])[:16], shown)
    Console(markup=False).print(table)
