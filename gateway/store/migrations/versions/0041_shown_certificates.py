"""Certificates that owners showed last: what is revoked of them ends deliveries."""

import sqlalchemy as sa
from alembic import op

revision = "0041"
down_revision = "0040"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    op.create_table(
        "shown_certificates",
        sa.Column("owner", sa.Text(), primary_key=True),
        sa.Column("numbers", sa.Text(), nullable=False),
        sa.Column("shown", sa.Float(), nullable=False),
        sa.Column("revoked", sa.Boolean(), nullable=False),
        sa.Column("written", sa.Float(), nullable=False, index=True),
    )
