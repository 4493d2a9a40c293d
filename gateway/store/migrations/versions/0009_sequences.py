"""Sequences of reliable messages: the tables of `gateway.reliability.stores.tables`."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
DUE = sa.text("due_at IS NOT NULL")
LIVE = sa.text("ended_at IS NULL")


def upgrade() -> None:
    op.create_table(
        "dragoman_rm_incoming",
        sa.Column("created_by", sa.LargeBinary),
        sa.Column("address", sa.LargeBinary, nullable=False),
        sa.Column("owned_by", sa.LargeBinary),
        sa.Column("identifier", KEY, nullable=False),
        sa.Column("wire", sa.Text, nullable=False),
        sa.Column("acks_to", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("create_id", sa.Text),
        sa.Column("opposite", sa.Text),
        sa.Column("received", sa.Text, nullable=False),
        sa.Column("last_number", sa.BigInteger),
        sa.Column("closed", sa.Boolean, nullable=False),
        sa.Column("complete", sa.Boolean, nullable=False),
        sa.Column("incomplete", sa.Text, nullable=False),
        sa.Column("unacknowledged", sa.BigInteger, nullable=False),
        sa.Column("ack_at", sa.Double),
        sa.Column("expires_at", sa.Double),
        sa.Column("last_seen", sa.Double, nullable=False),
        sa.Column("ended_at", sa.Double),
        sa.Column("token", sa.LargeBinary),
        sa.Column("lifetime", sa.Double),
        sa.Column("due_at", sa.Double),
        sa.PrimaryKeyConstraint("identifier", name="dragoman_rm_incoming_key"),
        sa.UniqueConstraint("created_by", name="dragoman_rm_incoming_created"),
    )
    op.create_index(
        "dragoman_rm_incoming_due",
        "dragoman_rm_incoming",
        ["due_at", "identifier"],
        sqlite_where=DUE,
        postgresql_where=DUE,
    )
    op.create_index(
        "dragoman_rm_incoming_owner",
        "dragoman_rm_incoming",
        ["owned_by"],
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    )
    op.create_index(
        "dragoman_rm_incoming_to",
        "dragoman_rm_incoming",
        ["address"],
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    )
    op.create_table(
        "dragoman_rm_invoker",
        sa.Column("identifier", KEY, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("delivered", sa.BigInteger, nullable=False),
        sa.Column("last_number", sa.BigInteger),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("attempts", sa.BigInteger, nullable=False),
        sa.Column("service", sa.Text, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("held", sa.Boolean, nullable=False),
        sa.Column("skips", sa.Boolean, nullable=False),
        sa.Column("due_at", sa.Double),
        sa.Column("leased_until", sa.Double),
        sa.PrimaryKeyConstraint("identifier", name="dragoman_rm_invoker_key"),
    )
    op.create_index(
        "dragoman_rm_invoker_due",
        "dragoman_rm_invoker",
        ["due_at", "identifier"],
        sqlite_where=DUE,
        postgresql_where=DUE,
    )
    op.create_table(
        "dragoman_rm_invoker_messages",
        sa.Column("sequence", KEY, nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("envelope", sa.LargeBinary, nullable=False),
        sa.Column("content_type", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("sequence", "number", name="dragoman_rm_invoker_messages_key"),
    )
    op.create_table(
        "dragoman_rm_outgoing",
        sa.Column("address", sa.LargeBinary, nullable=False),
        sa.Column("key", KEY, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("wire", sa.Text, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("identifier", KEY),
        sa.Column("offered", KEY),
        sa.Column("callback", sa.Text),
        sa.Column("acks_to", sa.Text),
        sa.Column("next_number", sa.BigInteger, nullable=False),
        sa.Column("last_number", sa.BigInteger),
        sa.Column("acknowledged", sa.Text, nullable=False),
        sa.Column("count", sa.BigInteger, nullable=False),
        sa.Column("create_id", KEY),
        sa.Column("tries", sa.BigInteger, nullable=False),
        sa.Column("next_at", sa.Double),
        sa.Column("closed", sa.Boolean, nullable=False),
        sa.Column("answered", sa.Boolean, nullable=False),
        sa.Column("failure", sa.Text),
        sa.Column("window", sa.BigInteger),
        sa.Column("expires_at", sa.Double),
        sa.Column("last_acked_at", sa.Double),
        sa.Column("ended_at", sa.Double),
        sa.Column("owner", sa.Text),
        sa.Column("created_at", sa.Double, nullable=False),
        sa.Column("poll_at", sa.Double),
        sa.Column("due_at", sa.Double),
        sa.PrimaryKeyConstraint("key", name="dragoman_rm_outgoing_key"),
        sa.UniqueConstraint("create_id", name="dragoman_rm_outgoing_created"),
        sa.UniqueConstraint("identifier", name="dragoman_rm_outgoing_identifier"),
        sa.UniqueConstraint("offered", name="dragoman_rm_outgoing_offered"),
    )
    op.create_index(
        "dragoman_rm_outgoing_due",
        "dragoman_rm_outgoing",
        ["due_at", "key"],
        sqlite_where=DUE,
        postgresql_where=DUE,
    )
    op.create_index(
        "dragoman_rm_outgoing_to",
        "dragoman_rm_outgoing",
        ["address"],
        sqlite_where=LIVE,
        postgresql_where=LIVE,
    )
    op.create_table(
        "dragoman_rm_outgoing_messages",
        sa.Column("sequence", KEY, nullable=False),
        sa.Column("named", sa.LargeBinary, nullable=False),
        sa.Column("answers", sa.LargeBinary),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("message_id", sa.Text, nullable=False),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("envelope", sa.LargeBinary, nullable=False),
        sa.Column("relates_to", sa.Text),
        sa.Column("wants_reply", sa.Boolean, nullable=False),
        sa.Column("tries", sa.BigInteger, nullable=False),
        sa.Column("next_at", sa.Double),
        sa.PrimaryKeyConstraint("sequence", "number", name="dragoman_rm_outgoing_messages_key"),
    )
    op.create_index(
        "dragoman_rm_outgoing_messages_answers",
        "dragoman_rm_outgoing_messages",
        ["sequence", "answers"],
    )
    op.create_index(
        "dragoman_rm_outgoing_messages_named",
        "dragoman_rm_outgoing_messages",
        ["sequence", "named"],
    )
