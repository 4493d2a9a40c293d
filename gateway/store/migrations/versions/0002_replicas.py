"""What several gateways share: replicas, leases of partitions, changes of subscriptions.

Totals get a row for each replica, so that none waits for another's; deliveries know the partition
that they came through.
"""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_TOTALS = ("matched", "delivered", "dead", "expired", "cancelled", "skipped")


def upgrade() -> None:
    op.rename_table("totals", "totals_0001")
    op.create_table(
        "totals",
        sa.Column("subscription", sa.Text, nullable=False),
        sa.Column("replica", sa.Integer, nullable=False),
        *(sa.Column(name, sa.BigInteger, nullable=False) for name in _TOTALS),
        sa.PrimaryKeyConstraint("subscription", "replica", name="totals_by_replica"),
        sqlite_with_rowid=False,
    )
    op.execute(
        "INSERT INTO totals (subscription, replica, matched, delivered, dead, expired, cancelled,"
        " skipped) SELECT subscription, 0, matched, delivered, dead, expired, cancelled, skipped"
        " FROM totals_0001"
    )
    op.drop_table("totals_0001")
    for table in ("held", "dead_letters"):
        op.add_column(table, sa.Column("partition", sa.Integer, nullable=False, server_default="0"))
    op.create_table(
        "replicas",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("heartbeat", sa.Float, nullable=False),
    )
    op.create_table(
        "partitions",
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("holder", sa.Text),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("until", sa.Float, nullable=False),
    )
    op.create_table(
        "versions",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.execute("INSERT INTO versions (name, version) VALUES ('subscriptions', 0)")
    op.create_table(
        "changes",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("octets", sa.BigInteger, nullable=False),
    )
