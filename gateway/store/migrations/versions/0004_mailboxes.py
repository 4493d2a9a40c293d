"""Mailboxes: messages that their readers fetch."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "mailboxes",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, unique=True),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("used", sa.Float, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("messages", sa.Integer, nullable=False),
        sa.Column("octets", sa.BigInteger, nullable=False),
        sa.Column("dropped", sa.BigInteger, nullable=False),
    )
    op.create_index("mailboxes_by_owner", "mailboxes", ["owner"])
    op.create_table(
        "mailbox_messages",
        sa.Column("mailbox", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text),
        sa.Column("envelope", sa.LargeBinary, nullable=False),
        sa.Column("octets", sa.Integer, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("lease", sa.Text),
        sa.Column("until", sa.Float),
        sa.Column("takes", sa.Integer, nullable=False),
        sa.Column("handed", sa.Float),
        sa.UniqueConstraint("mailbox", "id"),
    )
    op.create_index("mailbox_messages_by_age", "mailbox_messages", ["since"])
    op.create_index("mailbox_messages_handed", "mailbox_messages", ["handed"])
    op.create_index(
        "mailbox_messages_waiting",
        "mailbox_messages",
        ["mailbox", "handed", "position", "until", "octets"],
    )
    op.create_index("mailbox_messages_leased", "mailbox_messages", ["mailbox", "lease"])
