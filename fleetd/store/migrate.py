"""Bringing a database to the tables of this version."""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import Script, ScriptDirectory
from sqlalchemy import JSON, Connection, text

from fleetd.store.engine import open_engine
from fleetd.store.schema import UtcDateTime

_LOCK = 0x666C656574
"""Key of the advisory lock: two that migrate at once do it one after the other."""


def upgrade(address: str) -> str:
    """Create or change the tables; return the revision that the database is at now."""
    engine = open_engine(address, pool_size=1)
    try:
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            command.upgrade(configuration(connection), "head")
            return revision(connection)
    finally:
        engine.dispose()


def revision(connection: Connection) -> str:
    """Return the revision that the database is at, empty where it has no tables of fleetd."""
    return MigrationContext.configure(connection).get_current_revision() or ""


def newest() -> str:
    """Return the revision that this version needs."""
    return ScriptDirectory.from_config(configuration(None)).get_current_head() or ""


def known() -> frozenset[str]:
    """Return every revision that this version can start from."""
    scripts = ScriptDirectory.from_config(configuration(None))
    return frozenset(script.revision for script in scripts.walk_revisions())


def configuration(connection: Any) -> Config:
    """Return alembic's configuration, without a file: the scripts lie beside this module."""
    found = Config()
    found.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    found.attributes["connection"] = connection
    return found


def draft(address: str, message: str, revision_id: str) -> str:
    """Write the migration that takes a migrated database to the tables as they are now; return its file."""
    engine = open_engine(address, pool_size=1)
    try:
        with engine.connect() as connection:
            made = command.revision(configuration(connection), message, autogenerate=True, rev_id=revision_id)
    finally:
        engine.dispose()
    assert isinstance(made, Script)
    return str(made.path)


def plain_type(kind: str, item: Any, _context: Any) -> str | bool:
    """Render column types in PostgreSQL's terms: a migration must not change when the store's own types do."""
    if kind != "type":
        return False
    if isinstance(item, UtcDateTime):
        return "sa.DateTime(timezone=True)"
    if isinstance(item, JSON):
        return "postgresql.JSONB()"
    return False
