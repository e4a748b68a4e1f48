"""How much memory all processes of a fleetd take that has 10,000 machines: a real NetBox, Tinkerbell, intervals as shipped.

The machines are entered while fleetd runs; the highest sum of a sample each second counts, from the first record read until
each was read, looked at and reported. PSS, so that what processes share counts once (proc(5), smaps_rollup).
"""

import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from benchmarks.filled_netbox import filled
from benchmarks.processors import below
from benchmarks.verdict import at_most
from fleet_lab.bringup import Tuning, bring_up, clean, start_services
from fleet_lab.classes import Image, lab_light
from fleet_lab.places import LabError, Places
from fleetd.store.engine import open_engine, session_factory
from fleetd.store.machines import MachineRow
from fleetd.store.outbox import ReportRow

MACHINES = 10_000
PATIENCE = 900.0


def pss(roots: Sequence[int]) -> float:
    """Return the proportional set size of the processes and of all that they started, megabytes."""
    total = 0
    for pid, _ in below(roots):
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024 / 1e6


def unfinished(sessions: sessionmaker[Session]) -> int:
    """Return how many machines were not read yet, or wait to be looked at or reported."""
    with sessions() as session:
        known = session.scalar(select(func.count()).select_from(MachineRow)) or 0
        due = session.scalar(select(func.count()).where(MachineRow.next_look_at <= func.now())) or 0
        unsent = session.scalar(select(func.count(ReportRow.machine_id.distinct()))) or 0
    return MACHINES - known + due + unsent


def main() -> None:
    """Print one line a measurement."""
    with ExitStack() as stack:
        places = Places(f"bench-memory-{os.getpid()}")
        stack.callback(clean, places)
        services = start_services(places, stack)
        made = lab_light(Image("none", "00" * 32, 1 << 20), "http://127.0.0.1:1", name="lab-light")
        lab = bring_up(services, [made], action_image="lab/none@sha256:" + "0" * 64, tuning=Tuning(intervals={}))
        stack.callback(lab.stop)
        engine = open_engine(lab.postgres.url("fleetd"))
        stack.callback(engine.dispose)
        sessions = session_factory(engine)
        roots = [child.process.pid for child in lab.fleetd.children.values() if child.process]
        at_most("memory-all-processes-idle", pss(roots), "MB", 450)
        filled(lab.netbox, MACHINES, os.urandom(12).hex())
        highest, deadline = 0.0, time.monotonic() + PATIENCE
        while left := unfinished(sessions):
            if time.monotonic() > deadline:
                raise LabError(f"{left} machines or reports are unfinished after {PATIENCE:.0f} s")
            highest = max(highest, pss(roots))
            time.sleep(1)
        at_most("memory-all-processes-10000", max(highest, pss(roots)), "MB", 450)


if __name__ == "__main__":
    main()
