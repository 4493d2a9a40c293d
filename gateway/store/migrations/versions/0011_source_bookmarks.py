"""Bookmarks of sources that subscribe themselves."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "source_bookmarks",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("machine", sa.Text, primary_key=True),
        sa.Column("subscription", sa.Text, primary_key=True),
        sa.Column("bookmark", sa.LargeBinary, nullable=False),
        sa.Column("noted", sa.Float, nullable=False),
        sqlite_with_rowid=False,
    )
