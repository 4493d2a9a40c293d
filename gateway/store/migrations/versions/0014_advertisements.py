"""Advertisements of topics, and messages that a topic discovery node answered."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None

Key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "advertisements",
        sa.Column("topic_id", Key, primary_key=True),
        sa.Column("creator", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
        sa.Column("issued", sa.Float, nullable=False),
        sa.Column("claim", sa.LargeBinary, nullable=False),
        sa.Column("topic", sa.Text),
        sa.Column("described", sa.Text, nullable=False),
        sa.Column("octets", sa.LargeBinary),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.create_index("advertisements_by_revision", "advertisements", ["revision"])
    op.create_index("advertisements_by_end", "advertisements", ["expires"])
    op.create_table(
        "advertisers",
        sa.Column("creator", Key, primary_key=True),
        sa.Column("living", sa.BigInteger, nullable=False),
        sa.Column("gone", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "discovery_messages",
        sa.Column("sender", Key, primary_key=True),
        sa.Column("message", Key, primary_key=True),
        sa.Column("notification", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
    )
    op.create_index("discovery_messages_by_end", "discovery_messages", ["expires"])
