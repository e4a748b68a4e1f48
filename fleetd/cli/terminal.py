"""What commands print for people. Every `Console` here is without markup: what machines and NetBox say is text."""

from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text


def verdict(*, accepted: bool) -> Text:
    """Return the word of a verdict, with its colour where there are colours."""
    return Text("accepted", style="green") if accepted else Text("refused", style="bold red")


def show_rows(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table; None and False are shown as nothing."""
    table = Table(*headings)
    for row in rows:
        table.add_row(*(str(value or "") for value in row))
    Console(markup=False).print(table)
