"""The check state of an install, begun by several requests at once."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from threading import Barrier
from uuid import UUID

import pytest

from fleetd.store.checks import CheckRow, begun_state, new_check_row
from fleetd.store.engine import open_engine, session_factory
from fleetd.store.tables import METADATA

DUE = datetime(2026, 6, 1, 13, 0, tzinfo=UTC)
EARLIER, PRESENT = UUID(int=1), UUID(int=2)
AT_ONCE = 4


@pytest.fixture
def database(empty_database):
    engine = open_engine(empty_database)
    METADATA.create_all(engine)
    yield session_factory(engine)
    engine.dispose()


@pytest.mark.parametrize("earlier", [None, EARLIER, PRESENT], ids=["no row", "an earlier install's row", "its own row"])
def test_many_that_begin_the_state_of_one_install_get_one_row(database, earlier):
    if earlier is not None:
        with database.begin() as session:
            row = new_check_row(7, earlier, DUE)
            row.last_ok, row.findings, row.baseline_digest, row.boot = DUE, ["old"], "ab" * 32, {"old": True}
            session.add(row)
    gate = Barrier(AT_ONCE)

    def begin(number):
        with database.begin() as session:
            session.get(CheckRow, 7)  # as a request that has looked at it without a lock
            gate.wait(10)
            row = begun_state(session, 7, PRESENT, DUE)
            row.pins = [*row.pins, number]

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(begin, range(AT_ONCE)))

    with database() as session:
        row = session.get_one(CheckRow, 7)
        assert row.run_id == PRESENT
        assert sorted(row.pins) == list(range(AT_ONCE)), "what one wrote, the next one keeps"
        if earlier == PRESENT:
            assert (row.last_ok, row.findings, row.boot) == (DUE, ["old"], {"old": True})
        else:
            assert (row.last_ok, row.findings, row.baseline_digest, row.boot) == (None, [], "", None)
