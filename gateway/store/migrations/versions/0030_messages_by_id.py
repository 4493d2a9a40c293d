"""Messages: found by the id that their publisher gave them."""

from alembic import op

revision = "0030"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("messages_by_id", "messages", ["id"])
