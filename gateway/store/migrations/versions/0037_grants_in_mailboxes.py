"""Messages in mailboxes, each with the right by which its subscriber got it."""

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0036"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.add_column("mailbox_messages", sa.Column("granted", sa.Text()))
