"""What commands print for people. Every `Console` here is without markup: what machines and NetBox say is text."""

import getpass
import os
from collections.abc import Iterable

from rich.console import Console
from rich.table import Table
from rich.text import Text


def person() -> str:
    """Return the person behind the command: the one who became another user, where somebody did."""
    return os.environ.get("SUDO_USER") or getpass.getuser()


def verdict(*, accepted: bool) -> Text:
    """Return the word of a verdict, with its colour where there are colours."""
    return Text("accepted", style="green") if accepted else Text("refused", style="bold red")


def show_rows(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table; None and False are shown as nothing."""
    table = Table(*headings)
    for row in rows:
        table.add_row(*(str(value or "") for value in row))
    Console(markup=False).print(table)
