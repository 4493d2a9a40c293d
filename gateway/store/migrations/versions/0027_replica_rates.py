"""Rates of the last hour of each gateway that uses the store, for an overview of them all."""

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.create_table(
        "replica_rates",
        sa.Column("replica", sa.Text(), primary_key=True),
        sa.Column("written", sa.Float(), nullable=False),
        sa.Column("rates", sa.Text(), nullable=False),
    )
