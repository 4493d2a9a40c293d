"""Blocks of numbers of seals, and which of them were delivered."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "seal_blocks",
        sa.Column("block", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("delivered", sa.LargeBinary, nullable=False),
    )
