"""Owners of sources, so that they are counted without reading what each source is, and publishers
of registrations, so that one that registers again is found."""

import json

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_sources = sa.table("sources", sa.column("id"), sa.column("definition"), sa.column("owner"))
_registrations = sa.table(
    "registrations", sa.column("id"), sa.column("definition"), sa.column("publisher")
)


def upgrade() -> None:
    op.add_column("sources", sa.Column("owner", sa.Text, nullable=False, server_default=""))
    op.create_index("sources_by_owner", "sources", ["owner"])
    op.add_column("registrations", sa.Column("publisher", sa.Text))
    connection = op.get_bind()
    for id_, definition in connection.execute(
        sa.select(_sources.c.id, _sources.c.definition)
    ).all():
        owner = json.loads(definition)["owner"]
        connection.execute(_sources.update().where(_sources.c.id == id_).values(owner=owner))
    query = sa.select(_registrations.c.id, _registrations.c.definition)
    for id_, definition in connection.execute(query).all():
        reference = json.loads(definition)["publisher"]
        if reference:
            publisher = json.loads(reference)["address"]
            change = _registrations.update().where(_registrations.c.id == id_)
            connection.execute(change.values(publisher=publisher))
