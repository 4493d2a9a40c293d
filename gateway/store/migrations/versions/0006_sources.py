"""Sources: subscriptions that the gateway holds at producers of others."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sources",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, unique=True),
        sa.Column("pending", sa.Text, unique=True),
        sa.Column("registration", sa.Text),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("wanted", sa.Text, nullable=False),
        sa.Column("standing", sa.Text, nullable=False),
        sa.Column("events", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("last_event", sa.Float),
        sa.Column("ended", sa.Text),
        sa.Column("revision", sa.BigInteger, nullable=False, server_default="0"),
    )
