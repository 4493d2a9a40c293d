"""The tables of the store. Times are POSIX seconds, XML and JSON are text or octets.

Changes to what stands here come with a migration in ``migrations/versions``.
"""

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    false,
    text,
)

metadata = MetaData()

Number = BigInteger().with_variant(Integer, "sqlite")
"""Numbers that grow for ever; SQLite numbers rows by itself only in an INTEGER."""

Key = Text().with_variant(Text(collation="C"), "postgresql")
"""Texts in the order of their code points."""

subscriptions = Table(
    "subscriptions",
    metadata,
    Column("key", Text, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("owner", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("soap", Text, nullable=False),
    Column("wsa", Text),
    Column("consumer", Text, nullable=False),
    Column("end_to", Text),
    Column("filter", Text, nullable=False),
    Column("policy", Text, nullable=False),
    Column("manager", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float),
    Column("as_duration", Boolean, nullable=False),
    Column("acknowledged", BigInteger),
    Column("identity", Text),
    Index("subscriptions_by_identity", "identity", unique=True),
)

totals = Table(
    "totals",
    metadata,
    Column("subscription", Text, primary_key=True),
    Column("replica", Integer, primary_key=True, autoincrement=False),
    Column("matched", BigInteger, nullable=False, default=0),
    Column("delivered", BigInteger, nullable=False, default=0),
    Column("dead", BigInteger, nullable=False, default=0),
    Column("expired", BigInteger, nullable=False, default=0),
    Column("cancelled", BigInteger, nullable=False, default=0),
    Column("skipped", BigInteger, nullable=False, default=0),
    sqlite_with_rowid=False,
)
"""Per subscription, by its public id, and per replica that counted; those of ended ones are added
up under ``""``."""

messages = Table(
    "messages",
    metadata,
    Column("number", Number, primary_key=True),
    Column("source", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("topic", Text),
    Column("octets", Integer, nullable=False),
    Column("properties", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("source", "id"),
    Index("messages_by_id", "id"),
)
"""Notifications that somebody waits for, or that lie in the dead letters: each once. The body comes
last, for SQLite reads through a large one to reach the columns behind it."""

_with_key = text("order_key IS NOT NULL")
held = Table(
    "held",
    metadata,
    Column("subscription", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("message", Number, ForeignKey("messages.number"), nullable=False),
    Column("octets", Integer, nullable=False),
    Column("since", Float, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("answered", Integer, nullable=False),
    Column("due", Float, nullable=False),
    Column("partition", Integer, nullable=False, server_default="0"),
    Column("order_key", Text),
    Index("held_message", "message", "subscription", unique=True),
    Index(
        "held_by_key",
        "subscription",
        "order_key",
        "position",
        "partition",
        sqlite_where=_with_key,
        postgresql_where=_with_key,
    ),
    sqlite_with_rowid=False,
)
"""Deliveries that wait in the store, in the order of ``position`` for each subscription; those with
an ``order_key`` in the order of ``position`` for each key."""

dead_letters = Table(
    "dead_letters",
    metadata,
    Column("number", Number, primary_key=True),
    Column("subscription", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("message", Number, ForeignKey("messages.number"), nullable=False),
    Column("delivery_id", Text, nullable=False),
    Column("topic", Text),
    Column("reason", Text, nullable=False),
    Column("status", Integer),
    Column("failure", Text),
    Column("answer", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("since", Float, nullable=False),
    Column("died", Float, nullable=False),
    Column("partition", Integer, nullable=False, server_default="0"),
    Column("octets", Integer, nullable=False, server_default="0"),
    Column("charged", Integer, nullable=False, server_default="0"),
    Column("consumer", Text),
    Index("dead_by_time", "died"),
    Index("dead_by_owner", "owner", "number"),
    Index("dead_message", "message", "subscription", unique=True),
    Index("dead_subscription", "subscription", "number"),
)
"""Dead letters. ``delivery_id`` is empty where it follows from the message and the
subscription; ``octets`` are the bytes of the message, ``charged`` those that count for the
bounds: a message is stored once, and charged to one of its letters."""

dead_letter_totals = Table(
    "dead_letter_totals",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("replica", Integer, primary_key=True, autoincrement=False),
    Column("buried", BigInteger, nullable=False),
    Column("purged", BigInteger, nullable=False),
    Column("octets", BigInteger, nullable=False),
    sqlite_with_rowid=False,
)
"""Dead letters per owner and per replica that counted: how many were laid there and not redriven,
how many of these were forgotten, and the bytes charged for those that are there."""

replicas = Table(
    "replicas",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("id", Text, nullable=False, unique=True),
    Column("heartbeat", Float, nullable=False),
    Column("schema", Text),
)
"""The gateways that share this store; ``heartbeat`` is the database's time, ``schema`` what their
programs were written for."""

replica_rates = Table(
    "replica_rates",
    metadata,
    Column("replica", Text, primary_key=True),
    Column("written", Float, nullable=False),
    Column("rates", Text, nullable=False),
)
"""The rates of the last hour of each gateway that uses the store; ``written`` is the database's
time."""

replica_failures = Table(
    "replica_failures",
    metadata,
    Column("replica", Text, primary_key=True),
    Column("written", Float, nullable=False),
    Column("failures", Text, nullable=False),
)
"""Which subscriptions fail at each gateway that uses the store; ``written`` is the database's
time."""

used_nonces = Table(
    "used_nonces",
    metadata,
    Column("user", Text, primary_key=True),
    Column("nonce", Text, primary_key=True),
    Column("until", Float, nullable=False, index=True),
    Column("uses", BigInteger, nullable=False, server_default="0"),
)
"""Nonces of tokens of WS-Security and of HTTP Digest that were used, in hexadecimal digits;
``until`` is the gateways' time, ``uses`` how often one of HTTP Digest was used."""

partitions = Table(
    "partitions",
    metadata,
    Column("partition", Integer, primary_key=True, autoincrement=False),
    Column("holder", Text),
    Column("fence", BigInteger, nullable=False),
    Column("until", Float, nullable=False),
)
"""The holder of each partition of the messaging system, until when by the database's time;
``fence`` grows with every change of hands."""

versions = Table(
    "versions",
    metadata,
    Column("name", Text, primary_key=True),
    Column("version", BigInteger, nullable=False),
)
changes = Table(
    "changes",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("key", Text, nullable=False),
    Column("partition", Integer),
    Column("count", Integer, nullable=False),
    Column("octets", BigInteger, nullable=False),
)
"""The changes that other replicas must learn, in order: that the subscription ``key`` was made,
changed or ended; or, with a partition, that rows were added to what waits for it there."""

spool = Table(
    "spool",
    metadata,
    Column("number", Number, primary_key=True),
    Column("topic", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("properties", Text, nullable=False),
    Column("octets", Integer, nullable=False),
    Column("since", Float, nullable=False),
    Column("refused", Text),
    Column("refused_at", Float),
    Column("retried", Boolean, nullable=False, server_default=false()),
    UniqueConstraint("source", "id"),
    Index("spool_by_topic", "topic", "refused", "number"),
)
"""Messages that the messaging system could not take when they were published, in the order of
``number``; ``refused`` says why it never will, and ``refused_at`` since when that is known.
``retried``: an operator has had it tried again."""

spool_size = Table(
    "spool_size",
    metadata,
    Column("messages", BigInteger, nullable=False),
    Column("octets", BigInteger, nullable=False),
)
"""One row: how much lies in the spool."""

mailboxes = Table(
    "mailboxes",
    metadata,
    Column("key", Text, primary_key=True),
    Column("id", Text, nullable=False, unique=True),
    Column("owner", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("name", Text, unique=True),
    Column("created", Float, nullable=False),
    Column("used", Float, nullable=False),
    Column("position", BigInteger, nullable=False, default=0),
    Column("messages", Integer, nullable=False, default=0),
    Column("octets", BigInteger, nullable=False, default=0),
    Column("dropped", BigInteger, nullable=False, default=0),
    Index("mailboxes_by_owner", "owner"),
)
"""Mailboxes of messages that are fetched. ``name`` is the address of a consumer that fetches by it;
``used`` is when somebody last did; ``messages`` and ``octets`` are what waits, ``dropped`` how many
went to the dead letters instead."""

mailbox_messages = Table(
    "mailbox_messages",
    metadata,
    Column("mailbox", Text, primary_key=True),
    Column("position", BigInteger, primary_key=True, autoincrement=False),
    Column("id", Text),
    Column("envelope", LargeBinary, nullable=False),
    Column("octets", Integer, nullable=False),
    Column("since", Float, nullable=False),
    Column("lease", Text),
    Column("until", Float),
    Column("takes", Integer, nullable=False, default=0),
    Column("handed", Float),
    Column("expires", Float),
    Column("granted", Text),
    UniqueConstraint("mailbox", "id"),
    Index("mailbox_messages_by_age", "since"),
    Index("mailbox_messages_handed", "handed"),
    Index("mailbox_messages_expiring", "expires"),
    Index("mailbox_messages_waiting", "mailbox", "handed", "position", "until", "octets"),
    Index("mailbox_messages_leased", "mailbox", "lease"),
)
"""Messages in mailboxes. A ``lease`` hides a message ``until`` then; one that was ``handed`` over
a stream is kept for a while, should the stream have broken. One that ``expires`` is handed to
nobody from then on. One that a subscription put in says by which right it was ``granted``
(`SubscriberGrant`). The last indexes spare who looks into a
full mailbox to read through all of its envelopes."""

channels = Table(
    "channels",
    metadata,
    Column("name", Text, primary_key=True),
    Column("definition", Text, nullable=False),
)

relays = Table(
    "relays",
    metadata,
    Column("id", Text, primary_key=True),
    Column("digest", Text, nullable=False),
    Column("location", Text, nullable=False),
)

sources = Table(
    "sources",
    metadata,
    Column("id", Text, primary_key=True),
    Column("key", Text, unique=True),
    Column("pending", Text, unique=True),
    Column("registration", Text),
    Column("definition", Text, nullable=False),
    Column("wanted", Text, nullable=False),
    Column("standing", Text, nullable=False),
    Column("events", BigInteger, nullable=False, server_default="0"),
    Column("last_event", Float),
    Column("ended", Text),
    Column("revision", BigInteger, nullable=False, server_default="0"),
    Column("owner", Text, nullable=False, server_default=""),
    Index("sources_by_owner", "owner"),
)
"""Subscriptions that the gateway holds at producers. ``key`` is the capability of what a producer
sends, ``pending`` that of a subscription that is being made; ``revision`` grows with every change
of what is wanted and of how a source stands."""

source_bookmarks = Table(
    "source_bookmarks",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("machine", Text, primary_key=True),
    Column("subscription", Text, primary_key=True),
    Column("bookmark", LargeBinary, nullable=False),
    Column("noted", Float, nullable=False),
    sqlite_with_rowid=False,
)
"""What sources that subscribe themselves said last of where they are, by who they are, and by the
name of what is wanted of them."""

registrations = Table(
    "registrations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("key", Text, nullable=False, unique=True),
    Column("owner", Text, nullable=False),
    Column("definition", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float),
    Column("publisher", Text),
    Index("registrations_by_owner", "owner"),
)
"""Publishers that registered, with what they asked for; ``publisher`` is the address of one that
named its own."""

_waiting = text("octets > 0")
sequences = Table(
    "sequences",
    metadata,
    Column("identifier", Key, primary_key=True),
    Column("id", Key, nullable=False),
    Column("owner", Text, nullable=False),
    Column("octets", BigInteger, nullable=False),
    Index("sequences_by_id", "id", "identifier"),
    Index(
        "sequences_waiting",
        "owner",
        "octets",
        sqlite_where=_waiting,
        postgresql_where=_waiting,
    ),
)
"""The sequences of publishers by their public ids, and the bytes of what waits in each; all else of
them is in the tables of `gateway.reliability.stores.tables`, which applications have, too."""

sequence_deliveries = Table(
    "sequence_deliveries",
    metadata,
    Column("subscription", Text, primary_key=True),
    Column("delivery", LargeBinary, primary_key=True),
    Column("ordinal", BigInteger, nullable=False),
    Index("sequence_deliveries_by_age", "subscription", "ordinal"),
)
"""Deliveries that consumers acknowledged in sequences, by the digests that their message ids are;
the newest of a subscription has the highest ``ordinal``."""

advertisements = Table(
    "advertisements",
    metadata,
    Column("topic_id", Key, primary_key=True),
    Column("creator", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("expires", Float, nullable=False),
    Column("issued", Float, nullable=False),
    Column("claim", LargeBinary, nullable=False),
    Column("topic", Text),
    Column("described", Text, nullable=False),
    Column("octets", LargeBinary),
    Column("revision", BigInteger, nullable=False),
    Index("advertisements_by_revision", "revision"),
    Index("advertisements_by_end", "expires"),
)
"""Advertisements of topics; without ``octets`` it is withdrawn. Replicas learn by ``revision``."""

revocations = Table(
    "revocations",
    metadata,
    Column("topic_id", Text, primary_key=True),
    Column("delegation", Text, primary_key=True),
    Column("creator", Text, nullable=False, index=True),
    Column("until", Float, nullable=False, index=True),
    Column("revision", BigInteger, nullable=False, index=True),
)
"""Delegations that the creators of topics have taken back, until they would have ended. Replicas
learn by ``revision``."""

advertisers = Table(
    "advertisers",
    metadata,
    Column("creator", Key, primary_key=True),
    Column("living", BigInteger, nullable=False),
    Column("gone", BigInteger, nullable=False),
)
"""How many advertisements each creator has, and has withdrawn; of all together under the empty
name. The row ``revisions`` counts changes."""

discovery_messages = Table(
    "discovery_messages",
    metadata,
    Column("sender", Key, primary_key=True),
    Column("message", Key, primary_key=True),
    Column("notification", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("at", Float, nullable=False),
    Column("expires", Float, nullable=False),
    Index("discovery_messages_by_end", "expires"),
)
"""Messages that were answered, and proofs of possession that were used, until they expire."""

discovery_claims = Table(
    "discovery_claims",
    metadata,
    Column("sender", Key, primary_key=True),
    Column("proofs", BigInteger, nullable=False),
    Column("requests", BigInteger, nullable=False),
)
"""How many of those there are of each sender; of all together under the empty name."""

secrets = Table(
    "secrets",
    metadata,
    Column("name", Key, primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
"""Secrets of the gateways that share the store, made at the first start that needs them."""

seal_blocks = Table(
    "seal_blocks",
    metadata,
    Column("block", BigInteger, primary_key=True, autoincrement=False),
    Column("delivered", LargeBinary, nullable=False),
)
"""Blocks of numbers of seals that are not done with, and a bit for each that was delivered."""

replays = Table(
    "replays",
    metadata,
    Column("subscription", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("until", BigInteger),
    Column("selection", Text, nullable=False),
    Column("rate", Float),
    Column("state", Text, nullable=False),
    Column("detail", Text, nullable=False),
    Column("reached", BigInteger, nullable=False),
    Column("reached_id", Text, nullable=False),
    Column("read", BigInteger, nullable=False),
    Column("replayed", BigInteger, nullable=False),
    Column("known", BigInteger, nullable=False),
    Column("unevaluated", BigInteger, nullable=False),
    Column("begun", Float, nullable=False),
    Column("changed", Float, nullable=False),
)
"""The last replay of an archive into each subscription that had one. ``since``, ``until`` and
``reached`` are microseconds of POSIX time, which a row of an archive has; with ``reached_id`` that
is the position behind the last row that was looked at."""

signed_events = Table(
    "signed_events",
    metadata,
    Column("signer", Text, primary_key=True),
    Column("event", Text, primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("carried", Text, nullable=False),
    Column("until", Float, nullable=False, index=True),
)
"""Signed events that came, by the identifier of the signer's key and the id that it signed;
``stage`` is of `gateway.store.signed_events`, ``carried`` the digest of what it came in."""

host_decisions = Table(
    "host_decisions",
    metadata,
    Column("host", Key, primary_key=True),
    Column("decision", Text, nullable=False),
    Column("decided_by", Text, nullable=False),
    Column("decided", Float, nullable=False),
)
"""What operators have decided about hosts that messages are sent to."""

identities = Table(
    "identities",
    metadata,
    Column("kind", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("user", Text, nullable=False),
    Column("born", Text, nullable=False),
    Column("row", Text, nullable=False),
    Column("kept_by", Text, nullable=False),
    Column("kept", Float, nullable=False),
)
"""Users, keys and rules that operators keep beside the file of identities."""

token_roles = Table(
    "token_roles",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("issuer", Text, nullable=False),
    Column("roles", Text, nullable=False),
    Column("until", Float, nullable=False),
    Column("written", Float, nullable=False, index=True),
    Column("issued", Float, nullable=False, server_default="0"),
)
"""Roles that tokens said their users have: until then they count for what these subscribed to."""

shown_certificates = Table(
    "shown_certificates",
    metadata,
    Column("owner", Text, primary_key=True),
    Column("numbers", Text, nullable=False),
    Column("shown", Float, nullable=False),
    Column("revoked", Boolean, nullable=False),
    Column("written", Float, nullable=False, index=True),
)
"""Certificates that owners showed last, and whether these are revoked."""
