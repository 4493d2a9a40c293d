"""The first tables: subscriptions, totals, messages, held deliveries, dead letters."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("soap", sa.Text, nullable=False),
        sa.Column("wsa", sa.Text),
        sa.Column("consumer", sa.Text, nullable=False),
        sa.Column("end_to", sa.Text),
        sa.Column("filter", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("manager", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float),
        sa.Column("as_duration", sa.Boolean, nullable=False),
    )
    op.create_table(
        "totals",
        sa.Column("subscription", sa.Text, primary_key=True),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("matched", "delivered", "dead", "expired", "cancelled", "skipped")
        ),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "messages",
        sa.Column("number", _number, primary_key=True),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("properties", sa.Text, nullable=False),
        sa.Column("octets", sa.Integer, nullable=False),
        sa.UniqueConstraint("source", "id"),
    )
    op.create_table(
        "held",
        sa.Column("subscription", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("message", _number, sa.ForeignKey("messages.number"), nullable=False),
        sa.Column("octets", sa.Integer, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("answered", sa.Integer, nullable=False),
        sa.Column("due", sa.Float, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_index("held_message", "held", ["message", "subscription"], unique=True)
    op.create_table(
        "dead_letters",
        sa.Column("number", _number, primary_key=True),
        sa.Column("subscription", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("message", _number, sa.ForeignKey("messages.number"), nullable=False),
        sa.Column("delivery_id", sa.Text, nullable=False),
        sa.Column("topic", sa.Text),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("failure", sa.Text),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("died", sa.Float, nullable=False),
    )
    op.create_index("dead_by_time", "dead_letters", ["died"])
    op.create_index("dead_message", "dead_letters", ["message", "subscription"], unique=True)
    op.create_index("dead_subscription", "dead_letters", ["subscription", "number"])
