"""When messages in sequences have to be answered."""

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("dragoman_rm_outgoing_messages", sa.Column("answer_by", sa.Double))
