"""Messages: found by the id that their publisher gave them."""

from alembic import op

revision = "0026"
down_revision = "0025"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.create_index("messages_by_id", "messages", ["id"])
