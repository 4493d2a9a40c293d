"""Nonces of tokens of WS-Security that were used: each counts once."""

import sqlalchemy as sa
from alembic import op

revision = "0028"
down_revision = "0027"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.create_table(
        "used_nonces",
        sa.Column("user", sa.Text(), primary_key=True),
        sa.Column("nonce", sa.Text(), primary_key=True),
        sa.Column("until", sa.Float(), nullable=False, index=True),
    )
