"""A large fleet in fleetd's own PostgreSQL: what 100,000 idle machines cost to sweep, to expose and to keep.

Rows are copies of those of an installed and checked machine, made by SQL; PostgreSQL keeps fsync on. The time is that of the
fastest of some calls: the others had to share the host.
"""

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from benchmarks.exchange import install
from benchmarks.plain_fleetd import plain_fleetd
from benchmarks.verdict import at_most
from fleetd.app.sweep import sweep
from fleetd.metrics.exporter import Exporter
from fleetd.store.checks import CheckDayRow, new_check_row
from fleetd.store.engine import session_factory
from fleetd.store.machines import MachineRow
from tests.integration.http.machines import PretendEk, PretendMachine
from tests.worlds import Stage

MACHINES = 100_000
_COPY = """
    INSERT INTO {table} SELECT (made.row).* FROM (
        SELECT jsonb_populate_record(one.sample, jsonb_build_object({changes})) AS row
        FROM (SELECT {table} AS sample FROM {table}) AS one, generate_series(2, :last) AS n
    ) AS made
"""
_TABLES = {
    "machines": "'id', n, 'node_name', 'node-' || n",
    "install": "'machine_id', n, 'enrollment_id', gen_random_uuid()",
    "check_state": "'machine_id', n",
    "check_day": "'machine_id', n",
    "certificate": "'machine_id', n, 'serial', left((one.sample).kind, 2) || n, 'enrollment_id', gen_random_uuid()",
}


def sample(session: Session, now: datetime) -> None:
    """Write the rows of one installed and checked machine, idle until tomorrow."""
    nobody: Any = None
    install(session, PretendMachine(nobody, nobody, 1, PretendEk()), "f1", now)
    session.flush()
    row = session.get_one(MachineRow, 1)
    row.standing = row.phase = "active"
    row.check_state, row.next_look_at = "ok", now + timedelta(days=1)
    check = new_check_row(1, None, now + timedelta(hours=1))
    check.last_at = check.last_ok = now
    check.pcrs = {"sha256": {str(pcr): "ab" * 32 for pcr in range(14)}}
    check.baseline = {"pcrs": check.pcrs}
    session.add_all([check, CheckDayRow(machine_id=1, day=now.date(), hours=1)])


def grow(engine: Engine) -> float:
    """Copy the rows for all machines; return the bytes that one takes, indexes included."""
    before = size_of(engine)
    with engine.begin() as connection:
        for table, changes in _TABLES.items():
            connection.execute(text(_COPY.format(table=table, changes=changes)), {"last": MACHINES})
    return (size_of(engine) - before) / MACHINES


def size_of(engine: Engine) -> int:
    """Return the bytes of the database after a VACUUM."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("VACUUM ANALYZE"))
        return int(connection.execute(text("SELECT pg_database_size(current_database())")).scalar_one())


def fastest(work: Callable[[], object], times: int = 5) -> float:
    """Return the seconds of the fastest call."""
    best = float("inf")
    for _ in range(times):
        begun = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begun)
    return best


def main() -> None:
    """Print one line a measurement."""
    with ExitStack() as stack:
        _, engine = plain_fleetd("fleet", stack)
        sessions = session_factory(engine)
        now = datetime.now(UTC)
        with sessions.begin() as session:
            sample(session, now)
        at_most("database-per-machine", grow(engine) / 1024, "KiB", 16)
        stage = Stage(sessions)
        stage.clock.at = now
        woken = sweep(stage.world())
        assert not woken, "nothing is due"
        at_most("sweep-100000-idle", fastest(lambda: sweep(stage.world())), "s", 1)
        at_most("metrics-100000", fastest(lambda: Exporter(sessions, stage.clock, "0").exposition(), 3), "s", 2)


if __name__ == "__main__":
    main()
