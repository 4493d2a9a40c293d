"""Signed events that came: each counts once."""

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.create_table(
        "signed_events",
        sa.Column("signer", sa.Text(), primary_key=True),
        sa.Column("event", sa.Text(), primary_key=True),
        sa.Column("stage", sa.Text(), primary_key=True),
        sa.Column("carried", sa.Text(), nullable=False),
        sa.Column("until", sa.Float(), nullable=False, index=True),
    )
