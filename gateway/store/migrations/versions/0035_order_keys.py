"""Deliveries that wait, in the order of keys: those of one key go one after the other."""

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.add_column("held", sa.Column("order_key", sa.Text()))
    with_key = sa.text("order_key IS NOT NULL")
    op.create_index(
        "held_by_key",
        "held",
        ["subscription", "order_key", "position", "partition"],
        sqlite_where=with_key,
        postgresql_where=with_key,
    )
