"""The tables of sequences, made of the records that they keep.

They may live in an application's own database, so each has a prefix. Every field of a record is a
column of its own; what indexes need besides (digests of texts that may be long) stands before them.
Times are seconds since the epoch.

Ranges of numbers are one text in the row of their sequence. Measured on SQLite, to read them, add a
number and write them took 0.1 to 0.2 ms with up to 100 ranges as a text and as rows; with 10,000,
9 to 19 ms as a text, 8 to 24 ms as rows. A sequence has a handful, and a text needs no statement of
its own.
"""

import hashlib
import json
import secrets
from dataclasses import fields
from enum import Enum
from functools import lru_cache
from types import NoneType
from typing import Any, get_args, get_type_hints

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Dialect,
    Double,
    Engine,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    inspect,
    select,
    text,
)
from sqlalchemy.types import TypeEngine

from gateway.reliability.records import (
    IncomingSequence,
    InvokerBuffer,
    InvokerMessage,
    OutgoingMessage,
    OutgoingSequence,
    Wire,
)
from gateway.reliability.storage import StorageUnavailable
from gateway.reliability.stores.engines import committing, writing
from mediation.model.messages import EndpointReference
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import Ranges, Rm

VERSION = 4
"""Of the tables. A program refuses those that a newer one made."""

SHORT = 1024
"""Characters of an endpoint reference that is kept in memory, as it is read and written often."""

_KEY = Text().with_variant(Text(collation="C"), "postgresql")
"""Compared by code points, as `in_key_order` does."""


def digest(*texts: str | None) -> bytes:
    """A short stand-in for texts, of any length, in an index."""
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=16).digest()


class _RangesText(TypeDecorator[Ranges]):
    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Ranges | None, dialect: Dialect) -> str | None:
        return None if value is None else str(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> Ranges | None:
        if value is None:
            return None
        # Ranges that we wrote need no merging, which would take as long as the rest.
        pairs = (part.partition("-") for part in value.split(",") if part)
        return Ranges(tuple((int(low), int(high or low)) for low, _, high in pairs))


class _ReferenceText(TypeDecorator[EndpointReference]):
    """JSON; the elements are texts, whose bytes are UTF-8."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: EndpointReference | None, dialect: Dialect) -> str | None:
        if value is None:
            return None
        plain = not (value.properties or value.parameters or value.metadata)
        short = plain and len(value.address) <= SHORT
        return _short_reference_text(value) if short else _reference_text(value)

    def process_result_value(self, value: str | None, dialect: Dialect) -> EndpointReference | None:
        if value is None:
            return None
        return _short_reference(value) if len(value) <= SHORT else _reference(value)


def _reference_text(value: EndpointReference) -> str:
    members: dict[str, object] = {"address": value.address, "wsa": value.wsa.name}
    for name in ("properties", "parameters", "metadata"):
        members[name] = [element.decode() for element in getattr(value, name)]
    return json.dumps(members)


def _reference(text: str) -> EndpointReference:
    members = json.loads(text)
    properties, parameters, metadata = (
        tuple(element.encode() for element in members[name])
        for name in ("properties", "parameters", "metadata")
    )
    wsa = Wsa[members["wsa"]]
    return EndpointReference(members["address"], wsa, properties, parameters, metadata)


# A sequence has the same in every transaction.
_short_reference_text = lru_cache(1024)(_reference_text)
_short_reference = lru_cache(1024)(_reference)


@lru_cache(64)
def _wire(text: str) -> Wire:
    rm, wsa, soap = text.split()
    return Wire(Rm[rm], Wsa[wsa], Soap[soap])


class _WireText(TypeDecorator[Wire]):
    """The names of the three versions, such as ``V1_1 V2005_08 V1_2``."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Wire | None, dialect: Dialect) -> str | None:
        return None if value is None else f"{value.rm.name} {value.wsa.name} {value.soap.name}"

    def process_result_value(self, value: str | None, dialect: Dialect) -> Wire | None:
        if value is None:
            return None
        return _wire(value)


class _EnumText(TypeDecorator[Enum]):
    """The value of a member: the bits of a state, a name on the wire."""

    impl = Text
    cache_ok = True

    def __init__(self, members: type[Enum]) -> None:
        super().__init__()
        self.members = members
        self._by_value = {member.value: member for member in members}

    def process_bind_param(self, value: Enum | None, dialect: Dialect) -> str | None:
        return None if value is None else value.value

    def process_result_value(self, value: str | None, dialect: Dialect) -> Enum | None:
        return None if value is None else self._by_value[value]


_TYPES: dict[Any, TypeEngine[Any]] = {
    str: Text(),
    int: BigInteger(),
    float: Double(),
    bool: Boolean(),
    bytes: LargeBinary(),
    Ranges: _RangesText(),
    EndpointReference: _ReferenceText(),
    Wire: _WireText(),
}


def _columns(record: type, *keys: str) -> list[Column[Any]]:
    """A column for each field of *record*; *keys* are compared by code points."""
    hints = get_type_hints(record)
    made: list[Column[Any]] = []
    for field in fields(record):
        hint = hints[field.name]
        [plain] = [part for part in get_args(hint) or (hint,) if part is not NoneType]
        if field.name in keys:
            of_type: TypeEngine[Any] = _KEY
        elif plain in _TYPES:
            of_type = _TYPES[plain]
        else:
            of_type = _EnumText(plain)
        made.append(Column(field.name, of_type, nullable=NoneType in get_args(hint)))
    return made


metadata = MetaData()

schema = Table(
    "dragoman_rm_schema",
    metadata,
    Column("version", Integer, primary_key=True),
    Column("node", Text, nullable=False, comment="what begins names of two-phase commits"),
)

incoming = Table(
    "dragoman_rm_incoming",
    metadata,
    Column("created_by", LargeBinary, comment="digest of create_id and owner"),
    Column("address", LargeBinary, nullable=False, comment="digest of the address of acks_to"),
    Column("owned_by", LargeBinary, comment="digest of owner"),
    *_columns(IncomingSequence, "identifier"),
    PrimaryKeyConstraint("identifier", name="dragoman_rm_incoming_key"),
    UniqueConstraint("created_by", name="dragoman_rm_incoming_created"),
)
invoker = Table(
    "dragoman_rm_invoker",
    metadata,
    *_columns(InvokerBuffer, "identifier"),
    PrimaryKeyConstraint("identifier", name="dragoman_rm_invoker_key"),
)
invoker_messages = Table(
    "dragoman_rm_invoker_messages",
    metadata,
    Column("sequence", _KEY, nullable=False),
    *_columns(InvokerMessage),
    PrimaryKeyConstraint("sequence", "number", name="dragoman_rm_invoker_messages_key"),
)
outgoing = Table(
    "dragoman_rm_outgoing",
    metadata,
    Column("address", LargeBinary, nullable=False, comment="digest of the address of target"),
    *_columns(OutgoingSequence, "key", "identifier", "offered", "create_id"),
    PrimaryKeyConstraint("key", name="dragoman_rm_outgoing_key"),
    UniqueConstraint("identifier", name="dragoman_rm_outgoing_identifier"),
    UniqueConstraint("offered", name="dragoman_rm_outgoing_offered"),
    UniqueConstraint("create_id", name="dragoman_rm_outgoing_created"),
)
outgoing_messages = Table(
    "dragoman_rm_outgoing_messages",
    metadata,
    Column("sequence", _KEY, nullable=False),
    Column("named", LargeBinary, nullable=False, comment="digest of message_id"),
    Column("answers", LargeBinary, comment="digest of relates_to"),
    *_columns(OutgoingMessage),
    PrimaryKeyConstraint("sequence", "number", name="dragoman_rm_outgoing_messages_key"),
)
decisions = Table(
    "dragoman_rm_decisions",
    metadata,
    Column("gtrid", _KEY, primary_key=True),
    Column("decision", Text, nullable=False),
    Column("participants", Text, nullable=False, comment="their names, as JSON"),
    Column("decided_at", Double, nullable=False),
)
"""The log of two-phase commits: what stands here as commit is committed everywhere."""

for _table in (incoming, invoker, outgoing):
    _some = _table.c.due_at.is_not(None)
    _own = _table.c.key if "key" in _table.c else _table.c.identifier
    Index(f"{_table.name}_due", _table.c.due_at, _own, postgresql_where=_some, sqlite_where=_some)
for _table in (incoming, outgoing):
    _live = _table.c.ended_at.is_(None)
    Index(f"{_table.name}_to", _table.c.address, postgresql_where=_live, sqlite_where=_live)
_live = incoming.c.ended_at.is_(None)
Index("dragoman_rm_incoming_owner", incoming.c.owned_by, postgresql_where=_live, sqlite_where=_live)
_by_peer = Index(
    "dragoman_rm_incoming_peer", incoming.c.peer, postgresql_where=_live, sqlite_where=_live
)
_sent = outgoing_messages
Index("dragoman_rm_outgoing_messages_named", _sent.c.sequence, _sent.c.named)
_some = _sent.c.answers.is_not(None)  # Most messages answer nothing.
Index(
    "dragoman_rm_outgoing_messages_answers",
    _sent.c.sequence,
    _sent.c.answers,
    postgresql_where=_some,
    sqlite_where=_some,
)

_ADDED: dict[int, tuple[tuple[Column[Any], ...], tuple[Index, ...]]] = {
    2: ((incoming.c.peer,), (_by_peer,)),
    3: ((outgoing_messages.c.answer_by,), ()),
    4: ((), ()),
}
"""What each version added to tables that were there: columns, which may be null, and indexes."""
_FILLED = 50
"""Per cent of each page of PostgreSQL that are used for new rows; since version 4. Each row is
changed soon: where the new one finds a place beside the old one, no index changes (HOT)."""

_CREATING = int.from_bytes(digest("create tables")[:8], "big", signed=True)


def create_tables(engine: Engine) -> None:
    """Make the tables in the database of *engine* where they are missing; add to those of an
    earlier version what they have not.

    Raises:
        StorageUnavailable: A newer program made them.
    """
    with writing(engine).connect() as connection, committing(connection), connection.begin():
        if connection.dialect.name == "postgresql":
            lock = text("SELECT pg_advisory_xact_lock(:number)")
            connection.execute(lock, {"number": _CREATING})
        version = None
        if inspect(connection).has_table(schema.name):
            version = connection.execute(select(schema.c.version)).scalar()
            if version is not None and version > VERSION:
                raise StorageUnavailable(
                    f"the tables of reliable messaging have version {version}, of a newer program "
                    f"(this one knows {VERSION})"
                )
        metadata.create_all(connection)
        if connection.dialect.name == "postgresql" and (version is None or version < 4):
            for table in (incoming, invoker, outgoing, outgoing_messages):
                connection.execute(text(f"ALTER TABLE {table.name} SET (fillfactor = {_FILLED})"))
        if version is None:
            made = schema.insert().values(version=VERSION, node=secrets.token_hex(6))
            connection.execute(made)
        elif version < VERSION:
            _add_later(connection, version)


def _add_later(connection: Connection, version: int) -> None:
    """Add what the tables of *version* have not."""
    for later in range(version + 1, VERSION + 1):
        columns, indexes = _ADDED[later]
        for column in columns:
            of_type = column.type.compile(connection.dialect)
            added = f"ALTER TABLE {column.table.name} ADD COLUMN {column.name} {of_type}"
            connection.execute(text(added))
        for index in indexes:
            index.create(connection)
    connection.execute(schema.update().values(version=VERSION))
