"""Service keys that machines pin, and certificates that an owner wants to be replaced."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql


revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade():
    op.add_column("check_state", sa.Column("pins", postgresql.JSONB(), server_default="[]", nullable=False))
    op.add_column("certificate", sa.Column("reissue", sa.Boolean(), server_default=sa.text("false"), nullable=False))


def downgrade():
    op.drop_column("certificate", "reissue")
    op.drop_column("check_state", "pins")
