"""A stage on a real PostgreSQL whose tables are emptied between tests."""

from collections.abc import Iterator

import pytest
from sqlalchemy import delete

from fleetd.store.engine import open_engine, session_factory
from fleetd.store.tables import METADATA
from tests.worlds import Stage, a_declaration


@pytest.fixture(scope="module")
def engine(postgres) -> Iterator:
    import uuid

    name = f"app_{uuid.uuid4().hex[:10]}"
    postgres.create(name)
    engine = open_engine(postgres.url(name))
    METADATA.create_all(engine)
    yield engine
    engine.dispose()
    postgres.drop(name)


@pytest.fixture
def stage(engine) -> Stage:
    return fresh_stage(engine)


def fresh_stage(engine) -> Stage:
    """Return a stage on emptied tables, with one machine declared."""
    with engine.begin() as connection:
        for table in reversed(METADATA.sorted_tables):
            connection.execute(delete(table))
    found = Stage(session_factory(engine))
    found.netbox.declare(a_declaration())
    return found
