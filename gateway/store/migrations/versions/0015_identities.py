"""Identities of subscriptions of which there is one only, whichever gateway is asked for it."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("subscriptions", sa.Column("identity", sa.Text))
    op.create_index("subscriptions_by_identity", "subscriptions", ["identity"], unique=True)
