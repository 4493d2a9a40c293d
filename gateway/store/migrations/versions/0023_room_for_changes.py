"""Sequences of reliable messages: room beside rows that change soon, on PostgreSQL."""

from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_CHANGED = ("incoming", "invoker", "outgoing", "outgoing_messages")


def upgrade() -> None:
    if op.get_bind().dialect.name == "postgresql":
        for name in _CHANGED:
            op.execute(f"ALTER TABLE dragoman_rm_{name} SET (fillfactor = 50)")
