"""The network addresses of who created sequences without an owner."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None

LIVE = sa.text("ended_at IS NULL")


def upgrade() -> None:
    op.add_column("dragoman_rm_incoming", sa.Column("peer", sa.Text))
    op.create_index(
        "dragoman_rm_incoming_peer",
        "dragoman_rm_incoming",
        ["peer"],
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    )
