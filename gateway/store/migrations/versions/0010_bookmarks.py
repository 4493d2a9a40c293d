"""Up to where sinks with bookmarks have acknowledged deliveries; null where that is not known."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("subscriptions", sa.Column("acknowledged", sa.BigInteger))
