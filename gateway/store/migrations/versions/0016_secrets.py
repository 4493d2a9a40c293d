"""Secrets that the gateways share, which have the store."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

Key = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    op.create_table(
        "secrets",
        sa.Column("name", Key, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )
