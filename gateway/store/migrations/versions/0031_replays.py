"""Replays of archives into subscriptions, with how far each is."""

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.create_table(
        "replays",
        sa.Column("subscription", sa.Text(), primary_key=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("since", sa.BigInteger(), nullable=False),
        sa.Column("until", sa.BigInteger()),
        sa.Column("selection", sa.Text(), nullable=False),
        sa.Column("rate", sa.Float()),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("detail", sa.Text(), nullable=False),
        sa.Column("reached", sa.BigInteger(), nullable=False),
        sa.Column("reached_id", sa.Text(), nullable=False),
        sa.Column("read", sa.BigInteger(), nullable=False),
        sa.Column("replayed", sa.BigInteger(), nullable=False),
        sa.Column("known", sa.BigInteger(), nullable=False),
        sa.Column("unevaluated", sa.BigInteger(), nullable=False),
        sa.Column("begun", sa.Float(), nullable=False),
        sa.Column("changed", sa.Float(), nullable=False),
    )
