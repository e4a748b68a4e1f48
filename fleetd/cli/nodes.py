"""`fleetd nodes`: the owner's file of nodes, applied into NetBox, and where machines differ from what is declared."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from fleetd.app.drift import drifts
from fleetd.cli.configuration import settings_of
from fleetd.cli.schema_page import table
from fleetd.core.node_schema import NODES_SCHEMA
from fleetd.netbox.inventory import Access
from fleetd.netbox.nodes import apply_nodes
from fleetd.nodes_file import NodesFileError, read_nodes
from fleetd.ports import OutsideError
from fleetd.secret_files import SecretFileError, secret_text
from fleetd.wiring import Parts

nodes = typer.Typer(help="The file of nodes.", no_args_is_help=True)

NOTHING, REFUSED, UNUSABLE = 0, 1, 2
_TITLES = {
    "problems": "cannot be applied",
    "conflicts": "conflicts: the file and NetBox say different things, and nothing tells which is newer",
    "kept": "kept as NetBox has it: changed there since the file was applied, and not in the file",
    "changes": "changes to NetBox",
}
_COLUMNS = {"applied": "last applied", "netbox": "in NetBox", "file": "in the file"}


def register(app: typer.Typer) -> None:
    """Add the group to the program."""
    app.add_typer(nodes, name="nodes")


@nodes.command()
def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(help="YAML, or CSV where its name ends in .csv.")],
    *,
    token_file: Annotated[
        Path,
        typer.Option(
            help="Your own NetBox token, 0600: the changes are yours, by your permissions.",
            envvar="FLEETD_NODES_TOKEN_FILE",
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would change; write nothing.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print NetBox's answer as JSON.")] = False,
) -> None:
    """Merge the file into NetBox: all of it, or nothing.

    Exit status: 0 applied, or no change; 1 conflicts or refused, nothing was applied; 2 the file, the token or NetBox
    cannot be used.
    """
    wanted = settings_of(context).netbox
    try:
        rows = read_nodes(file)
        access = Access(wanted.url, secret_text(token_file), wanted.timeout, str(wanted.ca_file or ""))
        answer = _applied(access, rows, dry_run=dry_run)
    except NodesFileError as error:
        for problem in error.errors:
            typer.echo(_word(f"{file}: {problem}"), err=True)
        typer.echo("nothing was applied: mend the file, then run the same again", err=True)
        raise typer.Exit(UNUSABLE) from error
    except (SecretFileError, OutsideError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(UNUSABLE) from error
    if as_json:
        typer.echo(json.dumps(answer, indent=2))
    else:
        _show(answer)
    raise typer.Exit(REFUSED if answer["outcome"] == "refused" else NOTHING)


@nodes.command()
def drift(
    context: typer.Context,
    names: Annotated[list[str] | None, typer.Argument(help="Node names; all where none is given.")] = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare what NetBox declares with what machines last reported of themselves: serials, MACs, disks, firmware.

    Exit status: 0 no difference, 1 differences, 2 no such node.
    """
    parts = Parts(settings_of(context))
    with parts.sessions() as session:
        found = drifts(session)
    unknown = sorted(set(names or ()) - {one.node_name for one in found})
    if unknown:
        typer.echo(f"no such node: {', '.join(unknown)}", err=True)
        raise typer.Exit(UNUSABLE)
    shown = [one for one in found if not names or one.node_name in names]
    rows = [{"node": one.node_name, **difference.as_dict()} for one in shown for difference in one.differences]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
    else:
        silent = sum(one.reported_at is None for one in shown)
        _table("differs", rows, ("node", "field", "declared", "reported"))
        typer.echo(f"{len(rows)} differences in {len(shown)} nodes; {silent} never reported")
    raise typer.Exit(REFUSED if rows else NOTHING)


@nodes.command()
def schema() -> None:
    """Print the JSON Schema of the file."""
    typer.echo(json.dumps(NODES_SCHEMA, indent=2))


@nodes.command()
def reference() -> None:
    """Print every field of a node as Markdown; `docs/reference/nodes-file.md` is this."""
    typer.echo(reference_page(), nl=False)


def reference_page() -> str:
    """Return the reference of the file, made from its schema."""
    lines = [
        "# Fields of the nodes file",
        "",
        "How the file is used: [the nodes file](../how-to/nodes-file.md). In CSV each field is a column under the name",
        "given here, `NAME` being the interface's: `interfaces.eth0.mac`.",
        "",
        "Made by `fleetd nodes reference` from the schema, which `fleetd nodes schema` prints.",
        "",
        *table(NODES_SCHEMA["properties"]["nodes"]["items"]),
    ]
    return "\n".join(lines) + "\n"


def _applied(access: Access, rows: list[dict[str, Any]], *, dry_run: bool) -> dict[str, Any]:
    console = Console(stderr=True, markup=False)
    with console.status("asking NetBox") as status:
        return apply_nodes(
            access, rows, dry_run=dry_run, progress=lambda done, of: status.update(f"{done} of {of} nodes written")
        )


def _show(answer: dict[str, Any]) -> None:
    _table(_TITLES["problems"], answer["problems"], ("node", "field", "message"))
    _table(_TITLES["conflicts"], answer["conflicts"], ("node", "field", "applied", "netbox", "file"))
    _table(_TITLES["kept"], answer["kept"], ("node", "field", "netbox", "file"))
    if answer["outcome"] != "refused":
        _table(_TITLES["changes"], answer["changes"], ("node", "field", "netbox", "file"))
    changes, made = len(answer["changes"]), len(answer["created"])
    said = {
        "applied": f"applied: {changes} changes, {made} new nodes",
        "unchanged": "no change",
        "planned": f"dry run: {changes} changes, {made} new nodes; nothing was written" if changes else "no change",
        "refused": f"nothing was applied: {len(answer['conflicts'])} conflicts, {len(answer['problems'])} problems",
    }[answer["outcome"]]
    typer.echo(f"{said} ({answer['nodes']} nodes)")
    if answer["conflicts"]:
        typer.echo("To solve a conflict, make both sides say the same: correct the file, or NetBox; then run it again.")


def _table(title: str, rows: list[dict[str, Any]], columns: tuple[str, ...]) -> None:
    if not rows:
        return
    table = Table(*(_COLUMNS.get(name, name) for name in columns), title=title, title_justify="left")
    for row in rows:
        table.add_row(*(_word(row[name]) for name in columns))
    Console(markup=False).print(table)


def _word(value: Any) -> str:
    """Return a value as one line: what NetBox or a machine says must not draw on the terminal."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in text)
