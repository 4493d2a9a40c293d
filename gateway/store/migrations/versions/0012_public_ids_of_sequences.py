"""Public ids of sequences, so that they are listed and found without reading all, and how much
waits in each."""

from hashlib import sha256

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
WAITING = sa.text("octets > 0")

_incoming = sa.table("dragoman_rm_incoming", sa.column("identifier"), sa.column("owner"))
_messages = sa.table("dragoman_rm_invoker_messages", sa.column("sequence"), sa.column("envelope"))


def upgrade() -> None:
    sequences = op.create_table(
        "sequences",
        sa.Column("identifier", KEY, primary_key=True),
        sa.Column("id", KEY, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("octets", sa.BigInteger, nullable=False),
    )
    op.create_index("sequences_by_id", "sequences", ["id", "identifier"])
    op.create_index(
        "sequences_waiting",
        "sequences",
        ["owner", "octets"],
        sqlite_where=WAITING,
        postgresql_where=WAITING,
    )
    connection = op.get_bind()
    size = sa.func.sum(sa.func.length(_messages.c.envelope))
    sizes = sa.select(_messages.c.sequence, size).group_by(_messages.c.sequence)
    waiting = {name: int(octets) for name, octets in connection.execute(sizes)}
    rows = [
        {
            "identifier": identifier,
            "id": sha256(identifier.encode()).hexdigest()[:12],
            "owner": owner or "",
            "octets": waiting.get(identifier, 0),
        }
        for identifier, owner in connection.execute(
            sa.select(_incoming.c.identifier, _incoming.c.owner)
        )
    ]
    if rows:
        connection.execute(sequences.insert(), rows)
