"""Deliveries that consumers acknowledged in sequences of reliable messages."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sequence_deliveries",
        sa.Column("subscription", sa.Text, primary_key=True),
        sa.Column("delivery", sa.LargeBinary, primary_key=True),
        sa.Column("ordinal", sa.BigInteger, nullable=False),
    )
    op.create_index(
        "sequence_deliveries_by_age", "sequence_deliveries", ["subscription", "ordinal"]
    )
