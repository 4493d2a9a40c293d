"""Roles that tokens said their users have: what they subscribed to is delivered by them."""

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.create_table(
        "token_roles",
        sa.Column("owner", sa.Text(), primary_key=True),
        sa.Column("issuer", sa.Text(), nullable=False),
        sa.Column("roles", sa.Text(), nullable=False),
        sa.Column("until", sa.Float(), nullable=False),
        sa.Column("written", sa.Float(), nullable=False, index=True),
    )
