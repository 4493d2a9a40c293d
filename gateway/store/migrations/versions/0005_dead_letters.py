"""Dead letters that can be buried, shown and bounded without reading a message's body.

A message names its topic, and its body comes last, for SQLite reads through a large column to reach
those behind it. A dead letter knows its bytes and its consumer; totals of them stand by owner.
"""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

_number = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_TOPIC = {
    "sqlite": "json_extract(properties, '$.ws_topic')",
    "postgresql": "CAST(properties AS json) ->> 'ws_topic'",
}
_NO_TEXT = r"'\\u(0000|[dD][89a-fA-F])'"
"""What PostgreSQL may have no text for, wherever it stands in JSON; such a row keeps no topic."""


def upgrade() -> None:
    dialect = op.get_bind().dialect.name
    if dialect == "sqlite":
        _rebuild_messages()
    else:
        op.add_column("messages", sa.Column("topic", sa.Text))
        op.execute(
            f"UPDATE messages SET topic = {_TOPIC[dialect]} WHERE properties !~ {_NO_TEXT}"  # noqa: S608
        )
    op.add_column(
        "dead_letters", sa.Column("octets", sa.Integer, nullable=False, server_default="0")
    )
    op.add_column(
        "dead_letters", sa.Column("charged", sa.Integer, nullable=False, server_default="0")
    )
    op.add_column("dead_letters", sa.Column("consumer", sa.Text))
    op.execute(
        "UPDATE dead_letters SET octets ="
        " (SELECT octets FROM messages WHERE messages.number = dead_letters.message)"
    )
    op.execute(
        "UPDATE dead_letters SET charged = 512 + CASE WHEN EXISTS (SELECT 1 FROM dead_letters"
        " AS earlier WHERE earlier.message = dead_letters.message"
        " AND earlier.number < dead_letters.number) THEN 0 ELSE octets END"
    )
    op.create_index("dead_by_owner", "dead_letters", ["owner", "number"])
    op.create_table(
        "dead_letter_totals",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("replica", sa.Integer, primary_key=True, autoincrement=False),
        *(
            sa.Column(name, sa.BigInteger, nullable=False)
            for name in ("buried", "purged", "octets")
        ),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO dead_letter_totals (owner, replica, buried, purged, octets)"
        " SELECT owner, 0, count(*), 0, sum(charged) FROM dead_letters GROUP BY owner"
    )


def _rebuild_messages() -> None:
    """SQLite adds columns at the end alone. Foreign keys are off meanwhile: see `upgrade`."""
    op.create_table(
        "messages_0005",
        sa.Column("number", _number, primary_key=True),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("topic", sa.Text),
        sa.Column("octets", sa.Integer, nullable=False),
        sa.Column("properties", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.UniqueConstraint("source", "id"),
    )
    op.execute(
        "INSERT INTO messages_0005 (number, source, id, topic, octets, properties, body)"  # noqa: S608
        f" SELECT number, source, id, {_TOPIC['sqlite']}, octets, properties, body FROM messages"
    )
    op.drop_table("messages")
    op.rename_table("messages_0005", "messages")
