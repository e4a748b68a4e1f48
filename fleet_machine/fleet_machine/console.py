"""The screen that an owner looks at when a machine stands still."""

import os
import sys
from typing import Protocol


class Console(Protocol):
    """Says plain words to whoever looks."""

    def say(self, text: str) -> None:
        """Show one line."""
        ...


class ScreenConsole:
    """Standard error of the action, and the host's console where it can be written."""

    def __init__(self, screens: tuple[str, ...] = ("/dev/console",)) -> None:
        """Write to these devices too; one that cannot be written is passed over."""
        self._screens = screens

    def say(self, text: str) -> None:
        """Show one line."""
        line = f"fleet: {printable(text)}\n"
        sys.stderr.write(line)
        sys.stderr.flush()
        for screen in self._screens:
            try:
                # Without waiting: a serial console with nobody at its end must not stop an install.
                fd = os.open(screen, os.O_WRONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
                try:
                    os.write(fd, line.encode())
                finally:
                    os.close(fd)
            except OSError:
                continue


def printable(text: str) -> str:
    """Return text that cannot steer a terminal, at most 2,000 characters."""
    return "".join(letter if letter.isprintable() else " " for letter in text[:2000])
