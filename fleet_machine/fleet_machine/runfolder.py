"""What a run's actions hand on to each other within one boot: `/run/fleet/<run>` of the host, in memory.

A power cut empties it; the next action then enrolls again by itself.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fleet_machine.challenge import base64_text, unbase64
from fleet_machine.clock import TimeMark, format_time, parse_time
from fleet_machine.keys import SessionKey
from fleet_machine.tpm.keys import KeyPair


@dataclass(frozen=True, slots=True)
class Session:
    """One enrollment that fleetd verified; its key authenticates the calls of the run."""

    enrollment: str
    run: str
    machine: int
    node_name: str
    key: SessionKey
    mark: TimeMark | None


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder; made 0700 on first use, files 0600 and replaced as a whole."""

    path: Path

    def session(self) -> Session | None:
        """Return the session of this boot; None when there is none that can be read."""
        held = self._read("session.json")
        try:
            mark = TimeMark(parse_time(held["issued"]), float(held["boot"])) if held.get("issued") else None
            return Session(
                str(held["enrollment"]),
                str(held["run"]),
                int(held["machine"]),
                str(held["node_name"]),
                SessionKey(unbase64(held["key"])),
                mark,
            )
        except (KeyError, TypeError, ValueError):
            return None

    def keep_session(self, session: Session) -> None:
        """Keep a new session; its calls count from 1."""
        with self._locked():
            self._write("counter.json", {"counter": 0})
            self._write(
                "session.json",
                {
                    "enrollment": session.enrollment,
                    "run": session.run,
                    "machine": session.machine,
                    "node_name": session.node_name,
                    "key": base64_text(session.key),
                    "issued": format_time(session.mark.issued) if session.mark else None,
                    "boot": session.mark.boot if session.mark else None,
                },
            )

    def drop_session(self) -> None:
        """Forget the session: fleetd does not take it any more."""
        with suppress(FileNotFoundError):
            (self.path / "session.json").unlink()

    def next_counter(self) -> int:
        """Return a number above all that were used with this session."""
        with self._locked():
            counter = int(self._read("counter.json").get("counter", 0)) + 1
            self._write("counter.json", {"counter": counter})
            return counter

    def next_seq(self, milliseconds: int) -> int:
        """Return an event number above all of this run, also of those before a power cut: time in milliseconds."""
        with self._locked():
            seq = max(int(self._read("seq.json").get("seq", 0)) + 1, milliseconds)
            self._write("seq.json", {"seq": seq})
            return seq

    def lak_context(self) -> bytes | None:
        """Return the saved LAK of this boot."""
        try:
            return (self.path / "lak.context").read_bytes()
        except OSError:
            return None

    def keep_lak_context(self, context: bytes) -> None:
        """Keep the LAK's saved context: an RSA primary takes long to make on hardware."""
        self._write_bytes("lak.context", context)

    def ldevid(self) -> KeyPair | None:
        """Return the LDevID that was made in this boot."""
        held = self._read("ldevid.json")
        try:
            return KeyPair(unbase64(held["public"]), unbase64(held["private"]))
        except (KeyError, ValueError):
            return None

    def keep_ldevid(self, pair: KeyPair) -> None:
        """Keep a new LDevID, so that a repeated enrollment claims the same."""
        self._write("ldevid.json", {"public": base64_text(pair.public), "private": base64_text(pair.private)})

    def note(self, name: str) -> dict[str, Any]:
        """Return what an action noted for its repetition; empty when it noted nothing."""
        return self._read(f"{name}.note.json")

    def keep_note(self, name: str, content: dict[str, Any]) -> None:
        """Note something for a repetition of this action in the same boot, or for a later action."""
        self._write(f"{name}.note.json", content)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.path / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _read(self, name: str) -> dict[str, Any]:
        try:
            held = json.loads((self.path / name).read_bytes())
        except (OSError, ValueError):
            return {}
        return held if isinstance(held, dict) else {}

    def _write(self, name: str, content: dict[str, Any]) -> None:
        self._write_bytes(name, json.dumps(content).encode())

    def _write_bytes(self, name: str, content: bytes) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(self.path / name, content)


def write_private(path: Path, content: bytes) -> None:
    """Replace a file as a whole, readable by its owner only, on stable storage when this returns."""
    fresh = path.with_name(f".{path.name}.new")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
