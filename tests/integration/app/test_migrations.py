"""The migrations lead to exactly the tables that the store declares."""

import warnings
from datetime import UTC, datetime

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text

from fleetd.store.checks import check_state, new_check_row
from fleetd.store.engine import open_engine, session_factory
from fleetd.store.migrate import configuration, newest, revision, upgrade
from fleetd.store.tables import METADATA


def test_a_migrated_database_has_exactly_the_declared_tables(empty_database: str) -> None:
    assert upgrade(empty_database) == newest()

    engine = open_engine(empty_database)
    with engine.connect() as connection, warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        differences = compare_metadata(MigrationContext.configure(connection), METADATA)
    engine.dispose()

    assert differences == [], (
        "draft the next migration: fleetd.store.migrate.draft(ADDRESS_OF_A_MIGRATED_DATABASE, MESSAGE, REVISION)"
    )


def test_migrating_again_changes_nothing(empty_database: str) -> None:
    upgrade(empty_database)

    assert upgrade(empty_database) == newest()


def test_the_last_migration_can_be_taken_back_and_keeps_what_is_there(empty_database: str) -> None:
    upgrade(empty_database)
    engine = open_engine(empty_database)
    sessions = session_factory(engine)
    with sessions.begin() as session:
        session.add(new_check_row(7, None, datetime(2026, 3, 1, tzinfo=UTC)))

    with engine.begin() as connection:
        command.downgrade(configuration(connection), "0002")
        assert revision(connection) == "0002"
        assert connection.execute(text("SELECT decision_seen FROM check_state")).scalar_one() == 0
    assert upgrade(empty_database) == newest()

    with sessions() as session:
        row = check_state(session, 7)
        assert row is not None
        assert row.result == "awaited"
    engine.dispose()


def test_serials_of_before_are_counted_in_the_order_in_which_they_were_taken(empty_database: str) -> None:
    upgrade(empty_database)
    engine = open_engine(empty_database)
    taken = text("""
        INSERT INTO certificate (serial, kind, issuer, machine_id, enrollment_id, key_hash, state, taken_at, reason)
        VALUES (:serial, 'lak', 'ca', 7, gen_random_uuid(), :serial, 'issued', :at, '')
    """)
    with engine.begin() as connection:
        command.downgrade(configuration(connection), "0004")
        for serial, day in (("b", 3), ("c", 1), ("a", 2)):
            connection.execute(taken, {"serial": serial, "at": datetime(2026, 3, day, tzinfo=UTC)})

    upgrade(empty_database)

    with engine.begin() as connection:
        connection.execute(taken, {"serial": "0", "at": datetime(2026, 2, 1, tzinfo=UTC)})
        counted = connection.execute(text("SELECT serial FROM certificate ORDER BY number")).scalars().all()
    assert counted == ["c", "a", "b", "0"]
    engine.dispose()
