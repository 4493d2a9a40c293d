"""${message}"""

import sqlalchemy as sa
from alembic import op

revision = ${repr(up_revision)}
down_revision = ${repr(down_revision)}
branch_labels = None
depends_on = None
# Whether a program of the schema before goes on with this one: True only for what adds (tables,
# indexes, columns that may be null or have a server default) and takes nothing away.
backward_compatible = ${"False"}


def upgrade() -> None:
    pass
