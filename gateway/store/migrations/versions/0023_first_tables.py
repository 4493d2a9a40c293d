"""All tables of the store of schema 0023, the oldest that is upgraded."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = None
branch_labels = None
depends_on = None
backward_compatible = False

NUMBER = sa.BigInteger().with_variant(sa.Integer, "sqlite")
KEY = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
DUE = sa.text("due_at IS NOT NULL")
LIVE = sa.text("ended_at IS NULL")
WAITING = sa.text("octets > 0")
ROOM_TO_CHANGE = {"fillfactor": 50}
"""Rows that change soon after they are written stay on their page."""


def upgrade() -> None:
    _create_subscriptions()
    _create_deliveries()
    _create_replicas()
    _create_spool()
    _create_mailboxes()
    _create_sources()
    _create_incoming_sequences()
    _create_outgoing_sequences()
    _create_discovery()


def _create_subscriptions() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("version", sa.Text, nullable=False),
        sa.Column("soap", sa.Text, nullable=False),
        sa.Column("wsa", sa.Text),
        sa.Column("consumer", sa.Text, nullable=False),
        sa.Column("end_to", sa.Text),
        sa.Column("filter", sa.Text, nullable=False),
        sa.Column("policy", sa.Text, nullable=False),
        sa.Column("manager", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float),
        sa.Column("as_duration", sa.Boolean, nullable=False),
        sa.Column("acknowledged", sa.BigInteger),
        sa.Column("identity", sa.Text),
    )
    op.create_index("subscriptions_by_identity", "subscriptions", ["identity"], unique=True)
    op.create_table(
        "totals",
        sa.Column("subscription", sa.Text, nullable=False),
        sa.Column("replica", sa.Integer, nullable=False),
        sa.Column("matched", sa.BigInteger, nullable=False),
        sa.Column("delivered", sa.BigInteger, nullable=False),
        sa.Column("dead", sa.BigInteger, nullable=False),
        sa.Column("expired", sa.BigInteger, nullable=False),
        sa.Column("cancelled", sa.BigInteger, nullable=False),
        sa.Column("skipped", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("subscription", "replica", name="totals_by_replica"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "source_bookmarks",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("machine", sa.Text, primary_key=True),
        sa.Column("subscription", sa.Text, primary_key=True),
        sa.Column("bookmark", sa.LargeBinary, nullable=False),
        sa.Column("noted", sa.Float, nullable=False),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "sequence_deliveries",
        sa.Column("subscription", sa.Text, primary_key=True),
        sa.Column("delivery", sa.LargeBinary, primary_key=True),
        sa.Column("ordinal", sa.BigInteger, nullable=False),
    )
    op.create_index(
        "sequence_deliveries_by_age", "sequence_deliveries", ["subscription", "ordinal"]
    )
    op.create_table(
        "seal_blocks",
        sa.Column("block", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("delivered", sa.LargeBinary, nullable=False),
    )


def _create_deliveries() -> None:
    op.create_table(
        "messages",
        sa.Column("number", NUMBER, primary_key=True),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        *_rest_of_a_message(),
        sa.UniqueConstraint("source", "id"),
    )
    op.create_table(
        "held",
        sa.Column("subscription", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("message", NUMBER, sa.ForeignKey("messages.number"), nullable=False),
        sa.Column("octets", sa.Integer, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("answered", sa.Integer, nullable=False),
        sa.Column("due", sa.Float, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False, server_default="0"),
        sqlite_with_rowid=False,
    )
    op.create_index("held_message", "held", ["message", "subscription"], unique=True)
    op.create_table(
        "dead_letters",
        sa.Column("number", NUMBER, primary_key=True),
        sa.Column("subscription", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("message", NUMBER, sa.ForeignKey("messages.number"), nullable=False),
        sa.Column("delivery_id", sa.Text, nullable=False),
        sa.Column("topic", sa.Text),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("status", sa.Integer),
        sa.Column("failure", sa.Text),
        sa.Column("answer", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("died", sa.Float, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False, server_default="0"),
        sa.Column("octets", sa.Integer, nullable=False, server_default="0"),
        sa.Column("charged", sa.Integer, nullable=False, server_default="0"),
        sa.Column("consumer", sa.Text),
    )
    op.create_index("dead_by_time", "dead_letters", ["died"])
    op.create_index("dead_message", "dead_letters", ["message", "subscription"], unique=True)
    op.create_index("dead_subscription", "dead_letters", ["subscription", "number"])
    op.create_index("dead_by_owner", "dead_letters", ["owner", "number"])
    op.create_table(
        "dead_letter_totals",
        sa.Column("owner", sa.Text, primary_key=True),
        sa.Column("replica", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("buried", sa.BigInteger, nullable=False),
        sa.Column("purged", sa.BigInteger, nullable=False),
        sa.Column("octets", sa.BigInteger, nullable=False),
        sqlite_with_rowid=False,
    )


def _rest_of_a_message() -> list[sa.Column[Any]]:
    """The body comes last on SQLite, which reads through a large one to reach the columns behind
    it; PostgreSQL, which does not, has had it in the middle since the first databases."""
    topic = sa.Column("topic", sa.Text)
    octets = sa.Column("octets", sa.Integer, nullable=False)
    properties = sa.Column("properties", sa.Text, nullable=False)
    body = sa.Column("body", sa.LargeBinary, nullable=False)
    if op.get_bind().dialect.name == "sqlite":
        return [topic, octets, properties, body]
    return [body, properties, octets, topic]


def _create_replicas() -> None:
    op.create_table(
        "replicas",
        sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("heartbeat", sa.Float, nullable=False),
    )
    op.create_table(
        "partitions",
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("holder", sa.Text),
        sa.Column("fence", sa.BigInteger, nullable=False),
        sa.Column("until", sa.Float, nullable=False),
    )
    op.create_table(
        "versions",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("version", sa.BigInteger, nullable=False),
    )
    op.execute("INSERT INTO versions (name, version) VALUES ('subscriptions', 0)")
    op.create_table(
        "changes",
        sa.Column("version", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("octets", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "secrets",
        sa.Column("name", KEY, primary_key=True),
        sa.Column("value", sa.LargeBinary, nullable=False),
    )


def _create_spool() -> None:
    op.create_table(
        "spool",
        sa.Column("number", NUMBER, primary_key=True),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("properties", sa.Text, nullable=False),
        sa.Column("octets", sa.Integer, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("refused", sa.Text),
        sa.UniqueConstraint("source", "id"),
    )
    op.create_index("spool_by_topic", "spool", ["topic", "refused", "number"])
    op.create_table(
        "spool_size",
        sa.Column("messages", sa.BigInteger, nullable=False),
        sa.Column("octets", sa.BigInteger, nullable=False),
    )
    op.execute("INSERT INTO spool_size (messages, octets) VALUES (0, 0)")


def _create_mailboxes() -> None:
    op.create_table(
        "mailboxes",
        sa.Column("key", sa.Text, primary_key=True),
        sa.Column("id", sa.Text, nullable=False, unique=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("name", sa.Text, unique=True),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("used", sa.Float, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("messages", sa.Integer, nullable=False),
        sa.Column("octets", sa.BigInteger, nullable=False),
        sa.Column("dropped", sa.BigInteger, nullable=False),
    )
    op.create_index("mailboxes_by_owner", "mailboxes", ["owner"])
    op.create_table(
        "mailbox_messages",
        sa.Column("mailbox", sa.Text, primary_key=True),
        sa.Column("position", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("id", sa.Text),
        sa.Column("envelope", sa.LargeBinary, nullable=False),
        sa.Column("octets", sa.Integer, nullable=False),
        sa.Column("since", sa.Float, nullable=False),
        sa.Column("lease", sa.Text),
        sa.Column("until", sa.Float),
        sa.Column("takes", sa.Integer, nullable=False),
        sa.Column("handed", sa.Float),
        sa.UniqueConstraint("mailbox", "id"),
    )
    op.create_index("mailbox_messages_by_age", "mailbox_messages", ["since"])
    op.create_index("mailbox_messages_handed", "mailbox_messages", ["handed"])
    op.create_index(
        "mailbox_messages_waiting",
        "mailbox_messages",
        ["mailbox", "handed", "position", "until", "octets"],
    )
    op.create_index("mailbox_messages_leased", "mailbox_messages", ["mailbox", "lease"])


def _create_sources() -> None:
    op.create_table(
        "sources",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, unique=True),
        sa.Column("pending", sa.Text, unique=True),
        sa.Column("registration", sa.Text),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("wanted", sa.Text, nullable=False),
        sa.Column("standing", sa.Text, nullable=False),
        sa.Column("events", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("last_event", sa.Float),
        sa.Column("ended", sa.Text),
        sa.Column("revision", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("owner", sa.Text, nullable=False, server_default=""),
    )
    op.create_index("sources_by_owner", "sources", ["owner"])
    op.create_table(
        "registrations",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("key", sa.Text, nullable=False, unique=True),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("definition", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float),
        sa.Column("publisher", sa.Text),
    )
    op.create_index("registrations_by_owner", "registrations", ["owner"])
    op.create_table(
        "channels",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("definition", sa.Text, nullable=False),
    )
    op.create_table(
        "relays",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("location", sa.Text, nullable=False),
    )


def _create_incoming_sequences() -> None:
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
        sa.Column("peer", sa.Text),
        sa.PrimaryKeyConstraint("identifier", name="dragoman_rm_incoming_key"),
        sa.UniqueConstraint("created_by", name="dragoman_rm_incoming_created"),
        postgresql_with=ROOM_TO_CHANGE,
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
    op.create_index(
        "dragoman_rm_incoming_peer",
        "dragoman_rm_incoming",
        ["peer"],
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
        postgresql_with=ROOM_TO_CHANGE,
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
        "sequences",
        sa.Column("identifier", KEY, primary_key=True),
        sa.Column("id", KEY, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("octets", sa.BigInteger, nullable=False),
    )
    op.create_index("sequences_by_id", "sequences", ["id", "identifier"])
    op.create_index(
        "sequences_waiting",
        "sequences",
        ["owner", "octets"],
        sqlite_where=WAITING,
        postgresql_where=WAITING,
    )


def _create_outgoing_sequences() -> None:
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
        postgresql_with=ROOM_TO_CHANGE,
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
        sa.Column("answer_by", sa.Double),
        sa.PrimaryKeyConstraint("sequence", "number", name="dragoman_rm_outgoing_messages_key"),
        postgresql_with=ROOM_TO_CHANGE,
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


def _create_discovery() -> None:
    op.create_table(
        "advertisements",
        sa.Column("topic_id", KEY, primary_key=True),
        sa.Column("creator", sa.Text, nullable=False),
        sa.Column("node", sa.Text, nullable=False),
        sa.Column("created", sa.Float, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
        sa.Column("issued", sa.Float, nullable=False),
        sa.Column("claim", sa.LargeBinary, nullable=False),
        sa.Column("topic", sa.Text),
        sa.Column("described", sa.Text, nullable=False),
        sa.Column("octets", sa.LargeBinary),
        sa.Column("revision", sa.BigInteger, nullable=False),
    )
    op.create_index("advertisements_by_revision", "advertisements", ["revision"])
    op.create_index("advertisements_by_end", "advertisements", ["expires"])
    op.create_table(
        "advertisers",
        sa.Column("creator", KEY, primary_key=True),
        sa.Column("living", sa.BigInteger, nullable=False),
        sa.Column("gone", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "discovery_messages",
        sa.Column("sender", KEY, primary_key=True),
        sa.Column("message", KEY, primary_key=True),
        sa.Column("notification", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("at", sa.Float, nullable=False),
        sa.Column("expires", sa.Float, nullable=False),
    )
    op.create_index("discovery_messages_by_end", "discovery_messages", ["expires"])
    op.create_table(
        "discovery_claims",
        sa.Column("sender", KEY, primary_key=True),
        sa.Column("proofs", sa.BigInteger, nullable=False),
        sa.Column("requests", sa.BigInteger, nullable=False),
    )
