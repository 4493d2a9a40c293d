"""What operators have decided about hosts that messages are sent to."""

import sqlalchemy as sa
from alembic import op

revision = "0030"
down_revision = "0029"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.create_table(
        "host_decisions",
        sa.Column("host", sa.Text(), primary_key=True),
        sa.Column("decision", sa.Text(), nullable=False),
        sa.Column("decided_by", sa.Text(), nullable=False),
        sa.Column("decided", sa.Float(), nullable=False),
    )
