"""Roles that tokens said, with the time at which each token was issued."""

import sqlalchemy as sa
from alembic import op

revision = "0038"
down_revision = "0037"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.add_column(
        "token_roles", sa.Column("issued", sa.Float(), nullable=False, server_default="0")
    )
