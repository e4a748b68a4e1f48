"""fleetd's processes as they are, but killed at each new point of their work: before and after a commit that moves it.

A point is what a commit writes ("provision: attest -> disk", "a ticket", ...), and its side: both, or for half of the deaths
the one that the point's name picks. The first process to come to a point that nobody has died at yet notes it in the ledger
and kills itself with SIGKILL; the test then kills the rest.
"""

import os
import re
import signal
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import event, inspect
from sqlalchemy.orm import Session

from fleetd.cli import program
from fleetd.store.runs import RunRow
from tests.e2e import ahead  # noqa: F401 - for what it imports

LEDGER = "DOOMED_LEDGER"
ONE_SIDE = "DOOMED_ONE_SIDE"
_STEPS = frozenset({"certificate", "endorsement_key", "enrollment", "run_verdicts", "ticket"})
"""Tables whose new rows are steps of their own."""


def run(arguments: Sequence[str]) -> int:
    """Be `fleetd ARGUMENTS`, and die at the points that the ledger does not have yet."""
    ledger = Path(os.environ[LEDGER])
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    event.listen(Session, "before_flush", _collect)
    event.listen(Session, "before_commit", lambda session: _perhaps_die(session, ledger, "before"))
    event.listen(Session, "after_commit", lambda session: _perhaps_die(session, ledger, "after"))
    event.listen(Session, "after_rollback", lambda session: session.info.pop("points", None))
    program()(list(arguments))
    return 0


def _collect(session: Session, *_: Any) -> None:
    session.info.setdefault("points", set()).update(_points(session))


def _points(session: Session) -> Iterator[str]:
    for row in session.new:
        if isinstance(row, RunRow):
            yield f"{row.kind} opens"
        elif row.__tablename__ in _STEPS:
            yield f"new row of {row.__tablename__}"
    for row in session.dirty:
        if not isinstance(row, RunRow):
            continue
        changed = {
            attribute.key: attribute.history for attribute in inspect(row).attrs if attribute.history.has_changes()
        }
        if "state_name" in changed:
            yield f"{row.kind} {changed['state_name'].deleted[0]} to {row.state_name}"
        for column in ("leaves", "redeemed_at", "reboot_told_at", "outcome"):
            if column in changed:
                yield f"{row.kind} {row.state_name} gets {column}"


def _perhaps_die(session: Session, ledger: Path, side: str) -> None:
    if side == "before":
        session.flush()
    points = session.info.get("points", set())
    for point in sorted(points):
        if os.environ.get(ONE_SIDE) and side != ("before", "after")[zlib.crc32(point.encode()) % 2]:
            continue
        name = re.sub(r"[^a-z0-9]+", "-", f"{side} {point}".lower())
        try:
            (ledger / name).open("x").close()
        except FileExistsError:
            continue
        os.kill(os.getpid(), signal.SIGKILL)
    if side == "after":
        session.info.pop("points", None)
