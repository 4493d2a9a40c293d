"""Which subscriptions fail at each gateway that uses the store, for an overview of them all."""

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.create_table(
        "replica_failures",
        sa.Column("replica", sa.Text(), primary_key=True),
        sa.Column("written", sa.Float(), nullable=False),
        sa.Column("failures", sa.Text(), nullable=False),
    )
