"""The spool: what publishers were promised while the broker could not take it."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "spool",
        sa.Column("number", _number, primary_key=True),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("properties", sa.Text, nullable=False),
        sa.Column("octets", sa.Integer, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("refused", sa.Text),
        sa.UniqueConstraint("source", "id"),
    )
    op.create_index("spool_by_topic", "spool", ["topic", "refused", "number"])
    op.create_table(
        "spool_size",
        sa.Column("messages", sa.BigInteger, nullable=False),
        sa.Column("octets", sa.BigInteger, nullable=False),
    )
    op.execute("INSERT INTO spool_size (messages, octets) VALUES (0, 0)")
