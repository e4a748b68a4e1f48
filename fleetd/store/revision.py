"""Whether the tables are those of this version; without alembic, since every process asks at its start."""

from typing import Final

from sqlalchemy import Connection, inspect, text

NEEDED: Final = "0006"
"""The last migration. Their names grow: a greater one is of a newer fleetd."""


def revision(connection: Connection) -> str:
    """Return the revision that the database is at, empty where it has no tables of fleetd."""
    if not inspect(connection).has_table("alembic_version"):
        return ""
    return str(connection.scalar(text("SELECT version_num FROM alembic_version")) or "")


def revision_problem(at: str) -> tuple[str, str] | None:
    """Return what is wrong with tables at this revision and what to do, or None."""
    if at == NEEDED:
        return None
    if not at:
        return "the database has no tables of fleetd", "Run `fleetd migrate`."
    if at < NEEDED:
        return f"the database is at revision {at}, this version needs {NEEDED}", "Run `fleetd migrate`."
    return (
        f"the database is at revision {at}, which this version does not know: a newer fleetd made its tables",
        "Install that newer version on every host, or restore a backup from before it (docs/how-to/restore.md).",
    )
