"""Runs many short Python processes that all import the same heavy modules, by forking a process that has done so.

An action of a light machine then costs milliseconds instead of a second of imports: fifty machines fit on two cores.
"""

import contextlib
import ctypes
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from fleet_lab.places import CHECKOUT, LabError

type Main = Callable[[Sequence[str]], int]
_PR_SET_PDEATHSIG = 1


class Job:
    """One forked process."""

    def __init__(self, server: "ForkServer", number: int) -> None:
        self._server = server
        self._number = number
        self._ended = threading.Event()
        self._status = -1

    def wait(self, timeout: float | None = None) -> int | None:
        """Wait for its end; return its exit status (negative: ended by that signal), or None when time is up."""
        return self._status if self._ended.wait(timeout) else None

    def kill(self) -> None:
        """End it, and what it started, at once."""
        self._signal(signal.SIGKILL)

    def ask_to_end(self) -> None:
        """Send it, and what it started, SIGTERM."""
        self._signal(signal.SIGTERM)

    def _signal(self, number: int) -> None:
        if not self._ended.is_set():
            self._server.tell({"signal": number, "job": self._number})

    def ended(self, status: int) -> None:
        """Take note of its end."""
        self._status = status
        self._ended.set()


class ForkServer:
    """Starts the processes of one entry point, `module:function`, which gets the arguments and returns a status."""

    def __init__(self, entry: str, log: Path) -> None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "fleet_lab.machine.forkserver", entry],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                cwd=CHECKOUT,
                start_new_session=True,
            )
        self._jobs: dict[int, Job] = {}
        self._lock = threading.Lock()
        self._count = 0
        self._reader = threading.Thread(target=self._read, name="forkserver", daemon=True)
        self._reader.start()

    def start(self, arguments: Sequence[str], environment: Mapping[str, str], log: Path) -> Job:
        """Fork a process with this environment (and no other variable); its output is appended to `log`."""
        with self._lock:
            self._count += 1
            number = self._count
            job = self._jobs[number] = Job(self, number)
        environment = dict(environment)
        self.tell({"start": number, "arguments": list(arguments), "environment": environment, "log": str(log)})
        return job

    def tell(self, order: Mapping[str, Any]) -> None:
        """Send one order.

        Raises:
            LabError: the server has ended.
        """
        assert self._process.stdin is not None
        try:
            with self._lock:
                self._process.stdin.write(json.dumps(order).encode() + b"\n")
                self._process.stdin.flush()
        except OSError as error:
            raise LabError("the fork server has ended") from error

    def close(self) -> None:
        """End the server and all its processes."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        self._process.wait(10)
        self._reader.join(10)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            with self._lock:
                job = self._jobs.pop(told["ended"], None)
            if job is not None:
                job.ended(told["status"])
        with self._lock:
            left = list(self._jobs.values())
        for job in left:
            job.ended(-signal.SIGKILL)


class _Server:
    """The other side: one thread, orders on standard input, ends on standard output."""

    def __init__(self, main: Main) -> None:
        self._main = main
        self._ready = selectors.DefaultSelector()
        self._running: dict[int, tuple[int, int]] = {}
        self._rest = b""

    def serve(self) -> None:
        self._ready.register(0, selectors.EVENT_READ)
        while True:
            for key, _ in self._ready.select():
                if key.fd != 0:
                    self._reap(key.data)
                elif not self._orders():
                    for pid, _ in self._running.values():
                        _signal_group(pid, signal.SIGKILL)
                    return

    def _orders(self) -> bool:
        data = os.read(0, 1 << 16)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            order = json.loads(line)
            if "start" in order:
                self._start(order)
            elif order["job"] in self._running:
                _signal_group(self._running[order["job"]][0], order["signal"])
        return bool(data)

    def _start(self, order: Mapping[str, Any]) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._child(order, parent)
        watch = os.pidfd_open(pid)
        self._running[order["start"]] = (pid, watch)
        self._ready.register(watch, selectors.EVENT_READ, order["start"])

    def _child(self, order: Mapping[str, Any], parent: int) -> None:
        """Become the process; never returns."""
        status = 1
        try:
            os.setsid()
            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            log = os.open(order["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(log, 1)
            os.dup2(log, 2)
            self._ready.close()
            os.environ.clear()
            os.environ.update(order["environment"])
            status = self._main(order["arguments"])
        except SystemExit as leaving:
            status = leaving.code if isinstance(leaving.code, int) else 1
        except BaseException:  # noqa: BLE001 - it must not become a second server
            sys.excepthook(*sys.exc_info())
        finally:
            with contextlib.suppress(BaseException):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(status)

    def _reap(self, number: int) -> None:
        pid, watch = self._running.pop(number)
        self._ready.unregister(watch)
        os.close(watch)
        _, waited = os.waitpid(pid, 0)
        _signal_group(pid, signal.SIGKILL)
        told = json.dumps({"ended": number, "status": os.waitstatus_to_exitcode(waited)})
        os.write(1, told.encode() + b"\n")


def _signal_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def main(arguments: Sequence[str]) -> int:
    """Serve the entry point named by the only argument."""
    import importlib

    module, _, function = arguments[0].partition(":")
    entry: Main = getattr(importlib.import_module(module), function)
    _Server(entry).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
