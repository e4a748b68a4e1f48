"""What the demo shows in the terminal: steps with their durations, and live progress under them."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text


class Screen:
    """A list of finished steps above a list of running ones; safe to use from several threads."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True)
        self._running: dict[int, tuple[str, str, float]] = {}
        self._lock = threading.Lock()
        self._live = Live(console=self.console, get_renderable=self._render, refresh_per_second=4, transient=True)
        self._next = 0

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self._live.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._live.stop()

    def say(self, text: str, style: str = "") -> None:
        """Print a line above the running steps."""
        self.console.print(Text(text, style=style))

    @contextmanager
    def step(self, name: str) -> Iterator["Step"]:
        """Show a step while it runs, and its duration or its failure when it ends."""
        with self._lock:
            number = self._next
            self._next += 1
        step = Step(self, number, name)
        step.note("")
        begun = time.monotonic()
        try:
            yield step
        except BaseException:
            self._end(number)
            self.say(f"  ✗ {name:<58} {time.monotonic() - begun:7.1f} s", "red")
            raise
        self._end(number)
        self.say(f"  ✓ {name:<58} {time.monotonic() - begun:7.1f} s", "green")

    def _end(self, number: int) -> None:
        with self._lock:
            self._running.pop(number, None)

    def _show(self, number: int, name: str, note: str) -> None:
        with self._lock:
            begun = self._running.get(number, (name, "", time.monotonic()))[2]
            changed = self._running.get(number, ("", "", 0.0))[1] != note
            self._running[number] = (name, note, begun)
        if note and changed and not self.console.is_terminal:
            self.say(f"    {name}: {note}")

    def _render(self) -> Table:
        table = Table.grid(padding=(0, 1))
        with self._lock:
            running = list(self._running.values())
        for name, note, begun in running:
            table.add_row(
                Spinner("dots"),
                Text(name),
                Text(note, style="cyan"),
                Text(f"{time.monotonic() - begun:5.0f} s", style="dim"),
            )
        return table


class Step:
    """One running step; `note` says what it is doing right now."""

    def __init__(self, screen: Screen, number: int, name: str) -> None:
        self._screen, self._number, self._name = screen, number, name

    def note(self, text: str) -> None:
        """Show what the step is doing."""
        self._screen._show(self._number, self._name, text)  # noqa: SLF001 - the two classes are one thing
