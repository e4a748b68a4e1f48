"""Alembic's entry: runs the scripts on the connection that it is given."""

from alembic import context

from fleetd.store.migrate import plain_type
from fleetd.store.tables import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    render_item=plain_type,
    compare_type=True,
)
context.run_migrations()
