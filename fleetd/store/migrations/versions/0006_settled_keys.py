"""A TPM has several keys, and one bound is enough: of the others nobody is asked. Nothing ever wrote `rejected`."""

from alembic import op


revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade():
    op.alter_column("endorsement_key", "rejected", new_column_name="settled")


def downgrade():
    op.execute("UPDATE endorsement_key SET settled = false")
    op.alter_column("endorsement_key", "settled", new_column_name="rejected")
