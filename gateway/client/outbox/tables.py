"""The tables of outbox, inbox and sagas, in the database of an application.

A digest stands for texts of any length in a unique index: MySQL compares texts without regard to
case and blanks at their end, and bounds the bytes of an index.
"""

import hashlib
import json
import secrets
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    select,
)
from sqlalchemy.dialects import mysql

from gateway.client.outbox.transactions import Transaction

LANES = 16
"""Parts of an inbox that are delivered at the same time: a key belongs to one of them."""

_POSITION = BigInteger().with_variant(Integer(), "sqlite")
_NAME = String(255).with_variant(String(255, collation="utf8mb4_bin"), "mysql", "mariadb")
_TEXT = Text().with_variant(mysql.LONGTEXT(collation="utf8mb4_bin"), "mysql", "mariadb")
_BODY = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
_DIGEST = LargeBinary(16).with_variant(mysql.VARBINARY(16), "mysql", "mariadb")
_STATE = String(12)

WAITING, DONE, DEAD = "waiting", "done", "dead"
RUNNING, COMPENSATING, COMPENSATED = "running", "compensating", "compensated"
"""States of messages and sagas. An outbox forgets what is sent; an inbox keeps what is done for a
while, so that it knows what comes twice."""

metadata = MetaData()


def _message_columns() -> list[Column[Any]]:
    return [
        Column("position", _POSITION, primary_key=True, autoincrement=True),
        Column("digest", _DIGEST, nullable=False, comment="of source and id"),
        Column("id", _TEXT, nullable=False),
        Column("topic", _NAME, nullable=False),
        Column("key", _NAME, nullable=False, comment="messages of one key keep their order"),
        Column("state", _STATE, nullable=False),
        Column("attributes", _TEXT, nullable=False, comment="of CloudEvents, as JSON"),
        Column("content_type", _NAME, nullable=False),
        Column("body", _BODY, nullable=False),
        Column("created_at", Double, nullable=False, comment="seconds since the epoch, as all"),
        Column("due_at", Double, nullable=False),
        Column("expires_at", Double),
        Column("attempts", Integer, nullable=False),
        Column("error", _TEXT),
    ]


outbox = Table(
    "dragoman_outbox",
    metadata,
    *_message_columns(),
    UniqueConstraint("digest", name="dragoman_outbox_id"),
)
Index("dragoman_outbox_waiting", outbox.c.state, outbox.c.position)

inbox = Table(
    "dragoman_inbox",
    metadata,
    *_message_columns(),
    Column("lane", Integer, nullable=False),
    Column("done_at", Double),
    UniqueConstraint("digest", name="dragoman_inbox_id"),
)
Index("dragoman_inbox_waiting", inbox.c.state, inbox.c.lane, inbox.c.position)
Index("dragoman_inbox_done", inbox.c.done_at)

lanes = Table("dragoman_inbox_lanes", metadata, Column("lane", Integer, primary_key=True))
"""A row is locked by who delivers the messages of its lane."""

requests = Table(
    "dragoman_outbox_requests",
    metadata,
    Column("digest", _DIGEST, primary_key=True, comment="of the id"),
    Column("id", _TEXT, nullable=False),
    Column("on_reply", _NAME, nullable=False),
    Column("on_fault", _NAME, nullable=False),
    Column("created_at", Double, nullable=False),
)
"""Requests whose replies are awaited, with the names of the functions that get them."""

states = Table(
    "dragoman_outbox_state",
    metadata,
    Column("name", _NAME, primary_key=True),
    Column("value", _TEXT, nullable=False),
    Column("until", Double, nullable=False),
)
"""The name of this database as a source, who sends, and subscriptions at gateways."""

sagas = Table(
    "dragoman_sagas",
    metadata,
    Column("position", _POSITION, primary_key=True, autoincrement=True),
    Column("digest", _DIGEST, nullable=False, comment="of name and id"),
    Column("id", _TEXT, nullable=False),
    Column("name", _NAME, nullable=False),
    Column("state", _STATE, nullable=False),
    Column("step", _NAME, nullable=False, comment="the name of the one that is next"),
    Column("data", _TEXT, nullable=False, comment="JSON"),
    Column("created_at", Double, nullable=False),
    Column("due_at", Double, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("error", _TEXT),
    UniqueConstraint("digest", name="dragoman_sagas_id"),
)
Index("dragoman_sagas_waiting", sagas.c.state, sagas.c.due_at)

SOURCE = "source"


def digest(*texts: str) -> bytes:
    """A short stand-in for texts, in a unique index."""
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=16).digest()


def lane_of(topic: str, key: str) -> int:
    """The lane of a key."""
    return digest(topic, key)[0] % LANES


def fill(transaction: Transaction) -> str:
    """Fill the tables that were just made, or were there.

    Returns:
        The name of this database as a source of messages.
    """
    own = select(states.c.value).where(states.c.name == SOURCE)
    for [source] in transaction.rows(
        own
    ):  # A database that another program writes to is only read.
        return str(source)
    transaction.insert_new(lanes, [{"lane": lane} for lane in range(LANES)])
    made = {"name": SOURCE, "value": f"urn:dragoman:outbox:{secrets.token_hex(8)}", "until": 0.0}
    transaction.insert_new(states, [made])
    [[source]] = transaction.rows(own)
    return str(source)
