"""Bringing a database to the tables of this version."""

from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.script import Script
from sqlalchemy import JSON, text

from fleetd.store.engine import open_engine
from fleetd.store.revision import NEEDED, revision, revision_problem
from fleetd.store.schema import UtcDateTime

_LOCK = 0x666C656574
"""Key of the advisory lock: two that migrate at once do it one after the other."""


class NewerTablesError(Exception):
    """A newer fleetd made the tables: this version changes nothing in them."""


def upgrade(address: str) -> str:
    """Create or change the tables; return the revision that the database is at now. Raises NewerTablesError."""
    engine = open_engine(address, pool_size=1)
    try:
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK})
            at = revision(connection)
            problem = revision_problem(at)
            if problem and at > NEEDED:
                raise NewerTablesError(" ".join(problem))
            command.upgrade(configuration(connection), "head")
            return revision(connection)
    finally:
        engine.dispose()


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
