"""The migrations lead to exactly the tables that the store declares."""

import secrets
import warnings
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import text
from typer.testing import CliRunner

from fleetd.cli import program
from fleetd.store.checks import check_state, new_check_row
from fleetd.store.engine import open_engine, session_factory
from fleetd.store.migrate import NewerTablesError, configuration, upgrade
from fleetd.store.revision import NEEDED, revision, revision_problem
from fleetd.store.tables import METADATA


def test_a_migrated_database_has_exactly_the_declared_tables(empty_database: str) -> None:
    assert upgrade(empty_database) == NEEDED

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

    assert upgrade(empty_database) == NEEDED


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
    assert upgrade(empty_database) == NEEDED

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


def test_tables_of_a_newer_fleetd_are_left_as_they_are(newer: str) -> None:
    with pytest.raises(NewerTablesError, match="9999"):
        upgrade(newer)


@pytest.mark.parametrize("process", ["serve", "worker", "beat", "watch"])
def test_no_process_works_on_tables_of_another_version(newer: str, empty_database: str, process: str) -> None:
    for address, why in ((newer, "a newer fleetd made its tables"), (empty_database, "Run `fleetd migrate`")):
        done = CliRunner().invoke(program(), [process], env={"FLEETD_DATABASE__URL": address})

        assert done.exit_code == 1
        assert f"fleetd {process}: the database " in done.stderr
        assert why in done.stderr


@pytest.mark.parametrize("process", ["serve", "worker"])
def test_a_password_file_that_cannot_be_used_is_told_in_words(process: str) -> None:
    named = {"FLEETD_DATABASE__PASSWORD_FILE": "/nonexistent/password"}

    done = CliRunner().invoke(program(), [process], env=named)

    assert done.exit_code == 1
    assert f"fleetd {process}: " in done.stderr
    assert "/nonexistent/password" in done.stderr


@pytest.fixture
def newer(postgres: Any) -> Iterator[str]:
    """A database whose tables a newer fleetd made."""
    name = f"newer_{secrets.token_hex(4)}"
    postgres.create(name)
    upgrade(postgres.url(name))
    engine = open_engine(postgres.url(name))
    with engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    yield postgres.url(name)
    postgres.drop(name)


def test_what_is_wrong_with_tables_is_said_with_what_to_do() -> None:
    assert revision_problem(NEEDED) is None
    assert "no tables" in " ".join(revision_problem("") or ())
    assert "this version needs" in " ".join(revision_problem("0001") or ())
