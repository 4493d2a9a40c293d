"""How many messages and proofs are remembered of each sender, and of all under the empty name."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None

Key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_COUNT = (
    "INSERT INTO discovery_claims (sender, proofs, requests) SELECT {name}, "
    "SUM(CASE WHEN kind = 'proof' THEN 1 ELSE 0 END), "
    "SUM(CASE WHEN kind = 'proof' THEN 0 ELSE 1 END) FROM discovery_messages {group}"
)


def upgrade() -> None:
    op.create_table(
        "discovery_claims",
        sa.Column("sender", Key, primary_key=True),
        sa.Column("proofs", sa.BigInteger, nullable=False),
        sa.Column("requests", sa.BigInteger, nullable=False),
    )
    op.execute(_COUNT.format(name="sender", group="GROUP BY sender"))
    op.execute(_COUNT.format(name="''", group="HAVING COUNT(*) > 0"))
