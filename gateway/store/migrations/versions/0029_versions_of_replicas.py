"""Replicas: which schema the program of each was written for.

Not backward compatible, as the last that is none by need: a program of before it refuses any schema
that it does not know, so it could not be started again.
"""

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None
backward_compatible = False


def upgrade() -> None:
    op.add_column("replicas", sa.Column("schema", sa.Text()))
