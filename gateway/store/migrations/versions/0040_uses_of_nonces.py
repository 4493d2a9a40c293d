"""How often a nonce of HTTP Digest was used."""

import sqlalchemy as sa
from alembic import op

revision = "0040"
down_revision = "0039"
branch_labels = None
depends_on = None
backward_compatible = True


def upgrade() -> None:
    uses = sa.Column("uses", sa.BigInteger(), nullable=False, server_default="0")
    op.add_column("used_nonces", uses)
