"""A process that the lab started: its log, its end, and no orphan when the lab itself is killed."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from fleet_lab.places import LabError

# The kernel's "parent" of PR_SET_PDEATHSIG is the thread that forked: one thread, which lives as long as the program,
# starts every child, so that a child outlives the worker thread that asked for it.
_STARTER = ThreadPoolExecutor(1, "starter of children")

# The wish to die with the parent is set by setpriv(1) and not in a forked Python: the child of a process in which
# threads of gRPC run must do nothing but exec, or it inherits their locks in whatever state they were.
_DIE_WITH_PARENT = ("setpriv", "--pdeathsig=SIGTERM", "--")


@dataclass
class Child:
    """One program, started with its output in a log file, stopped by its own process id."""

    name: str
    command: Sequence[str]
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    _asked: bool = False

    def start(self) -> "Child":
        """Start the program; its group is its own, so that stopping reaches what it started."""
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._asked = False
        self.process = _STARTER.submit(self._spawn).result()
        return self

    @property
    def running(self) -> bool:
        """Whether the program still runs."""
        return self.process is not None and self.process.poll() is None

    def stop(self, seconds: float = 10, how: int = signal.SIGTERM) -> None:
        """Ask it to end, then make it; returns when it is gone."""
        if self.process is None:
            return
        self.ask_to_end(how)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self.process.wait(10)
        self._signal(signal.SIGKILL)  # what it started and left

    def ask_to_end(self, how: int = signal.SIGTERM) -> None:
        """Send it the signal, once, and return; `stop` then waits for what is already on its way."""
        if self.running and not self._asked:
            self._asked = True
            self._signal(how)

    def kill(self) -> None:
        """End it and its group at once, as a power cut would."""
        if self.process is not None:
            self._signal(signal.SIGKILL)
            self.process.wait(10)

    def wait_until(self, ready: Callable[[], bool], seconds: float = 60) -> "Child":
        """Wait until it is ready.

        Raises LabError with the end of its log when it ends first, or is not ready in time.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if not self.running:
                raise LabError(f"{self.name} ended with status {self._status()}; {self.tail()}")
            if ready():
                return self
            time.sleep(0.05)
        raise LabError(f"{self.name} was not ready after {seconds:.0f} s; {self.tail()}")

    def tail(self, lines: int = 12) -> str:
        """Return the end of the log, with its path."""
        text = self.log.read_text(errors="replace").splitlines()[-lines:] if self.log.exists() else []
        return f"log {self.log}:\n" + "\n".join(text)

    def _spawn(self) -> "subprocess.Popen[bytes]":
        with self.log.open("ab") as output:
            return subprocess.Popen(
                [*_DIE_WITH_PARENT, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self.environment},
                cwd=self.cwd,
                start_new_session=True,
            )

    def _status(self) -> int | None:
        return None if self.process is None else self.process.returncode

    def _signal(self, number: int) -> None:
        if self.process is not None:
            try:
                os.killpg(self.process.pid, number)
            except (ProcessLookupError, PermissionError):
                return


def stop_together(children: Collection[Child]) -> None:
    """Ask every program to end, then wait for each: their ends overlap."""
    for child in children:
        child.ask_to_end()
    for child in children:
        child.stop()
