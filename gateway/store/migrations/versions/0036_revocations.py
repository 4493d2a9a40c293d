"""Delegations of rights to topics that their creators have taken back."""

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.create_table(
        "revocations",
        sa.Column("topic_id", sa.Text(), primary_key=True),
        sa.Column("delegation", sa.Text(), primary_key=True),
        sa.Column("creator", sa.Text(), nullable=False, index=True),
        sa.Column("until", sa.Float(), nullable=False, index=True),
        sa.Column("revision", sa.BigInteger(), nullable=False, index=True),
    )
