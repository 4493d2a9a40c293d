"""The spool: when a message was set aside, and whether an operator had it tried again."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.add_column("spool", sa.Column("refused_at", sa.Float()))
    op.add_column(
        "spool", sa.Column("retried", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    op.execute("UPDATE spool SET refused_at = since WHERE refused IS NOT NULL")
