"""Which decision about a baseline was applied is told by the baseline itself: nothing ever read the number."""

import sqlalchemy as sa
from alembic import op


revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade():
    op.drop_column("check_state", "decision_seen")


def downgrade():
    zero = sa.Column("decision_seen", sa.BigInteger(), server_default=sa.text("0"), nullable=False)
    op.add_column("check_state", zero)
    op.alter_column("check_state", "decision_seen", server_default=None)
