"""Messages in mailboxes: when their life is over."""

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.add_column("mailbox_messages", sa.Column("expires", sa.Float))
    op.create_index("mailbox_messages_expiring", "mailbox_messages", ["expires"])
