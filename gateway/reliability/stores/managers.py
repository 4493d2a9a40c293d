"""The three managers of a database, in SQLAlchemy Core: SQLite and PostgreSQL.

An object that is there is locked by its row (``SELECT ... FOR UPDATE``), one that is not by an
advisory lock of PostgreSQL. A transaction on SQLite has the whole database.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from sqlalchemy import or_, select

from gateway.reliability.records import (
    IncomingSequence,
    InvokerBuffer,
    InvokerMessage,
    OutgoingMessage,
    OutgoingSequence,
    made,
)
from gateway.reliability.storage import Taken
from gateway.reliability.stores import reading_ahead, tables
from gateway.reliability.stores.database_transaction import Values, Work
from gateway.reliability.stores.locks import (
    NAMES,
    Kind,
    can_be_key,
    check_key,
    check_sequence,
    names_of,
)
from gateway.reliability.stores.rows import Manager, values_of
from gateway.reliability.stores.statements import (
    ACKNOWLEDGE,
    ACKNOWLEDGE_ALL,
    ADD,
    DUE,
    ENDS,
    FIRST,
    NEXT_DUE,
    SENDING,
    WAITING,
    delete_by,
    how_many,
    key_by,
)
from gateway.reliability.stores.tables import digest
from mediation.reliable_messaging import Ranges

_MANY_RANGES = 8
"""From so many ranges on, those without any message are left out."""
_AHEAD, _SHORT = 16, 16 * 1024
"""Messages that are read at a time where one after the other is asked for, each of at most so many
bytes."""


class DatabaseIncoming(Manager[IncomingSequence]):
    """`gateway.reliability.storage.IncomingSequences`."""

    _kind, _table, _key = Kind.INCOMING, tables.incoming, "identifier"
    _record = IncomingSequence
    _derived = frozenset({"create_id", "owner", "acks_to"})

    def find(self, identifier: str) -> IncomingSequence | None:
        return self._find(identifier)

    def take(self, identifier: str) -> IncomingSequence | None:
        return self._find(identifier, wait=False)

    def find_created(self, create_id: str, owner: str | None) -> IncomingSequence | None:
        self._work.check_open()
        name = digest(create_id, owner)
        place = Kind.CREATED, name.hex()
        if not self._work.order.holds(place):
            self._work.order.check(place)
            self._work.lock_absent(*place)
            self._work.order.add(place)
        self.flush()
        statement = key_by(self._table, "identifier", "created_by")
        found = self._work.execute(statement, {"own_created_by": name}).scalar()
        record = self._find(found) if found is not None else None
        matches = record and (record.create_id, record.owner) == (create_id, owner)
        return record if matches else None

    def put(self, sequence: IncomingSequence) -> None:
        check_sequence(sequence)
        self._write(sequence.identifier, sequence)

    def _derive(self, record: IncomingSequence) -> Values:
        created = record.create_id is not None
        return {
            "created_by": digest(record.create_id, record.owner) if created else None,
            "owned_by": None if record.owner is None else digest(record.owner),
            "address": digest(record.acks_to.address),
        }

    def remove(self, identifier: str) -> None:
        self._delete(identifier)

    def count(self, owner: str | None = None, *, peer: str | None = None) -> int:
        self.flush()
        if owner is not None:
            return self._count("owned_by", digest(owner))
        if peer is not None:
            return self._count("peer", peer)
        return int(self._work.execute(how_many(self._table, live=True)).scalar_one())

    def _count(self, column: str, value: object) -> int:
        statement = how_many(self._table, column, live=True)
        return int(self._work.execute(statement, {f"own_{column}": value}).scalar_one())


class DatabaseInvoker(Manager[InvokerBuffer]):
    """`gateway.reliability.storage.InvokerBuffers`."""

    _kind, _table, _key = Kind.INVOKER, tables.invoker, "identifier"
    _record = InvokerBuffer
    _derived = frozenset()
    _messages = tables.invoker_messages

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._removed: dict[tuple[str, int], None] = {}
        """Messages whose rows are still there."""
        self._added: dict[tuple[str, int], InvokerMessage] = {}
        """Messages whose rows are not there yet."""
        self._ahead: dict[str, tuple[InvokerMessage, ...]] = {}
        """Messages that follow one that was asked for, with their numbers, by sequence."""

    def find(self, identifier: str) -> InvokerBuffer | None:
        return self._find(identifier)

    def take(self, identifier: str) -> InvokerBuffer | None:
        return self._find(identifier, wait=False)

    def put(self, buffer: InvokerBuffer) -> None:
        check_key(buffer.identifier)
        self._write(buffer.identifier, buffer)

    def remove(self, identifier: str) -> None:
        self.flush()
        self._delete(identifier)
        self._work.drop(self._ahead, identifier)
        self._work.execute(delete_by(self._messages, "sequence"), {"own_sequence": identifier})

    def add_message(self, identifier: str, message: InvokerMessage) -> bool:
        self._hold(identifier)
        self._write_messages()
        self._work.drop(self._ahead, identifier)
        values = {**values_of(message), "sequence": identifier}
        return bool(self._work.write(ADD[self._work.sqlite], values))

    def add_new_message(self, identifier: str, message: InvokerMessage) -> None:
        """Add a message whose number does not wait, as the caller knows of the sequence.

        Raises:
            Conflict: It does; at the end of the transaction, at the latest.
        """
        self._hold(identifier)
        self._work.drop(self._ahead, identifier)
        self._work.set(self._added, (identifier, message.number), message)

    def messages(self, identifier: str, first: int, limit: int) -> list[InvokerMessage]:
        self._hold(identifier)
        known = self._ahead.get(identifier, ())
        if limit == 1 and known and known[0].number == first:
            self._work.set(self._ahead, identifier, known[1:])
            return [known[0]]
        unwritten = (*self._removed, *self._added)
        if any(key == identifier and number >= first for key, number in unwritten):
            self._write_messages()
        follows = limit == 1 and identifier in self._ahead
        values = {
            "own_sequence": identifier,
            "first": first,
            "most": _AHEAD if follows else limit,
        }
        found = [made(InvokerMessage, row) for row in self._work.read(WAITING, values)]
        if limit != 1:
            return found
        short = bool(found) and len(found[0].envelope) <= _SHORT
        if short:  # The next one is asked for next, probably.
            self._work.set(self._ahead, identifier, tuple(found[1:]))
        else:
            self._work.drop(self._ahead, identifier)
        return found[:1]

    def read_ahead(self, identifiers: Sequence[str]) -> None:
        """Read the messages that are given to applications next, of several buffers that are
        locked, with one statement; long ones are left out."""
        if self._work.sqlite:
            return
        self._write_messages()
        firsts = {
            key: record.delivered + 1
            for key in identifiers
            if (record := self._records.get(key)) is not None and record.count
        }
        if len(firsts) < 2:
            return
        found = self._work.at_once(
            partial(reading_ahead.waiting, firsts=firsts, most=_AHEAD, short=_SHORT)
        )
        for key, messages in found.items():
            self._work.set(self._ahead, key, messages)

    def remove_message(self, identifier: str, number: int) -> None:
        self._hold(identifier)
        known = self._ahead.get(identifier)
        if known and known[0].number <= number:
            self._work.drop(self._ahead, identifier)
        self._work.set(self._removed, (identifier, number), None)

    def flush(self) -> None:
        super().flush()
        self._write_messages()

    def _write_messages(self) -> None:
        work = self._work
        if self._removed:
            rows = [{"sequence": key, "number": number} for key, number in self._removed]
            for place in list(self._removed):
                work.drop(self._removed, place)
            work.delete_many(self._messages, ("sequence", "number"), rows)
        if self._added:
            added = [
                {**values_of(message), "sequence": key} for (key, _), message in self._added.items()
            ]
            for place in list(self._added):
                work.drop(self._added, place)
            work.insert_many(self._messages, added)


class DatabaseOutgoing(Manager[OutgoingSequence]):
    """`gateway.reliability.storage.OutgoingSequences`."""

    _kind, _table, _key = Kind.OUTGOING, tables.outgoing, "key"
    _record = OutgoingSequence
    _derived = frozenset({"target"})
    _messages = tables.outgoing_messages

    def __init__(self, work: Work) -> None:
        super().__init__(work)
        self._put: dict[tuple[str, int], OutgoingMessage] = {}
        """Messages that are not written yet."""
        self._tried: dict[tuple[str, int], OutgoingMessage] = {}
        """Messages of which only the tries are not written yet."""
        self._unwritten: dict[str, bool] = {}
        """The sequences that have some of these."""
        self._seen: dict[str, dict[int, OutgoingMessage]] = {}
        """Messages as their rows were when they were read, by sequence."""
        self._due: dict[str, reading_ahead.Due] = {}
        """Due messages that were read of several sequences at once."""

    def find(self, key: str) -> OutgoingSequence | None:
        return self._find(key)

    def take(self, key: str) -> OutgoingSequence | None:
        return self._find(key, wait=False)

    def find_identified(self, identifier: str) -> OutgoingSequence | None:
        return self._find_by("identifier", identifier)

    def find_creating(self, create_id: str) -> OutgoingSequence | None:
        return self._find_by("create_id", create_id)

    def put(self, sequence: OutgoingSequence) -> None:
        check_sequence(sequence)
        self._hold(sequence.key)
        before = self._records[sequence.key]
        if before is None or names_of(before) != names_of(sequence):
            self._check_names(before, sequence)
        self._write(sequence.key, sequence)

    def _check_names(self, before: OutgoingSequence | None, after: OutgoingSequence) -> None:
        """Check that no other sequence has a name that this one is given.

        Raises:
            Taken: One has.
        """
        had = names_of(before) if before is not None else (None, None, None)
        changed = {
            name: value
            for name, value, old in zip(NAMES, names_of(after), had, strict=True)
            if value is not None and value != old
        }
        if changed:
            self.flush()
            others = select(self._table.c.key).where(
                self._table.c.key != after.key,
                or_(*(self._table.c[name] == value for name, value in changed.items())),
            )
            if self._work.execute(others.limit(1)).first() is not None:
                raise Taken(f"another sequence has one of the names {changed}")

    def _derive(self, record: OutgoingSequence) -> Values:
        return {"address": digest(record.target.address)}

    def remove(self, key: str) -> None:
        self._write_messages()
        self._delete(key)
        self._forget_messages(key)
        self._work.execute(delete_by(self._messages, "sequence"), {"own_sequence": key})

    def put_message(self, key: str, message: OutgoingMessage) -> None:
        self._hold(key)
        self._work.drop(self._due, key)
        seen = self._seen.get(key, {}).get(message.number)
        if seen is not None and _differs_in_tries(seen, message):
            self._work.set(self._tried, (key, message.number), message)
        else:
            self._work.set(self._put, (key, message.number), message)
        self._work.set(self._unwritten, key, True)

    def flush(self) -> None:
        super().flush()
        self._write_messages()

    def _write_messages(self) -> None:
        work = self._work
        # A message in both is written as it was put.
        tried = [
            {"sequence": key, "number": number, "tries": each.tries, "next_at": each.next_at}
            for (key, number), each in self._tried.items()
            if (key, number) not in self._put
        ]
        put = [_row_of(key, each) for (key, _), each in self._put.items()]
        for key, number in list(self._put):
            work.drop(self._put, (key, number))
            work.drop(self._seen, key)
        for place in list(self._tried):
            work.drop(self._tried, place)
        for key in list(self._unwritten):
            work.drop(self._unwritten, key)
        if tried:
            keys, names = ("sequence", "number"), ("tries", "next_at")
            work.update_many(self._messages, keys, names, tried)
        if put:
            work.insert_many(self._messages, put, put=True)

    def _write_messages_of(self, key: str) -> None:
        if key in self._unwritten:
            self._write_messages()

    def message(self, key: str, number: int) -> OutgoingMessage | None:
        return self._first(key, "number", number)

    def message_identified(self, key: str, message_id: str) -> OutgoingMessage | None:
        return self._first(key, "named", digest(message_id))

    def message_relating(self, key: str, message_id: str) -> OutgoingMessage | None:
        return self._first(key, "answers", digest(message_id))

    def messages(self, key: str, limit: int, due: float | None = None) -> list[OutgoingMessage]:
        self._hold(key)
        known = self._due.get(key)
        if known is not None and known.now == due and limit <= known.most:
            found = list(known.messages[:limit])
        else:
            self._write_messages_of(key)
            values = {"own_sequence": key, "most": limit}
            if due is not None:
                values["due"] = due
            rows = self._work.read(SENDING if due is None else DUE, values)
            found = [made(OutgoingMessage, row) for row in rows]
        seen = {**self._seen.get(key, {}), **{message.number: message for message in found}}
        self._work.set(self._seen, key, seen)
        return found

    def next_due(self, key: str, highest: int, after: float) -> float | None:
        """The earliest time after *after* at which one of the messages up to number *highest* is
        due; None: never."""
        self._hold(key)
        known = self._due.get(key)
        if known is not None and (known.highest, known.now) == (highest, after):
            return known.next_due
        self._write_messages_of(key)
        values = {"own_sequence": key, "highest": highest, "after": after}
        [[found]] = self._work.read(NEXT_DUE, values)
        return None if found is None else float(found)

    def read_due(self, wanted: Mapping[str, tuple[int, int]], now: float) -> None:
        """Read what `next_due` and `messages` are asked for next, of several sequences that are
        locked, with one statement.

        Args:
            wanted: The highest number and the most messages, by key.
        """
        if self._work.sqlite or len(wanted) < 2:
            return
        self._write_messages()
        found = self._work.at_once(partial(reading_ahead.due, wanted=wanted, now=now))
        for key, due in found.items():
            self._work.set(self._due, key, due)

    def remove_all(self, known: Mapping[str, Ranges]) -> dict[str, int]:
        """Remove messages of several sequences that are locked, as `remove_acknowledged` does.

        Returns:
            How many were removed, by key.
        """
        if self._work.sqlite or len(known) < 2:
            return {key: self.remove_acknowledged(key, ranges) for key, ranges in known.items()}
        self._write_messages()
        for key in known:
            self._hold(key)
            self._forget_messages(key)
        removed = self._work.at_once(
            partial(reading_ahead.remove, known=known.items()), writes=True
        )
        return {key: removed[key] for key in known}

    def _forget_messages(self, key: str) -> None:
        self._work.drop(self._seen, key)
        self._work.drop(self._due, key)

    def acknowledge(self, key: str, ranges: Ranges, *, replied: bool = False) -> int:
        self._hold(key)
        self._write_messages_of(key)
        self._forget_messages(key)
        own = {"own_sequence": key}
        pairs = ranges.pairs
        if len(pairs) > _MANY_RANGES:
            [(low, high)] = self._work.read(ENDS, own)
            pairs = tuple(
                pair for pair in pairs if low is not None and pair[1] >= low and pair[0] <= high
            )
        if pairs:
            statement = ACKNOWLEDGE_ALL if replied else ACKNOWLEDGE
            rows = [{**own, "low": low, "high": high} for low, high in pairs]
            self._work.write_each(statement, rows)
        [[left]] = self._work.read(how_many(self._messages, "sequence"), own)
        return int(left)

    def remove_acknowledged(self, key: str, ranges: Ranges) -> int:
        """Do as `acknowledge` does.

        Returns:
            How many messages were removed; those that are left are not counted.
        """
        self._hold(key)
        self._write_messages_of(key)
        self._forget_messages(key)
        return sum(
            self._work.count(ACKNOWLEDGE, {"own_sequence": key, "low": low, "high": high})
            for low, high in ranges.pairs
        )

    def _find_by(self, name: str, value: str) -> OutgoingSequence | None:
        self._work.check_open()
        if not can_be_key(value):
            return None
        for held in self._records.values():
            if held is not None and getattr(held, name) == value:
                return held
        self.flush()
        statement = key_by(self._table, "key", name)
        found = self._work.execute(statement, {f"own_{name}": value}).scalar()
        record = self._find(found) if found is not None else None
        # Another transaction may have changed it before it was locked.
        return record if record is not None and getattr(record, name) == value else None

    def _first(self, key: str, by: str, value: object) -> OutgoingMessage | None:
        self._hold(key)
        self._write_messages_of(key)
        rows = self._work.read(FIRST[by], {"own_sequence": key, f"own_{by}": value})
        return made(OutgoingMessage, rows[0]) if rows else None


def _differs_in_tries(seen: OutgoingMessage, message: OutgoingMessage) -> bool:
    """Return whether at most the number and times of its attempts differ."""
    return (
        message.envelope is seen.envelope
        and message.message_id == seen.message_id
        and message.action == seen.action
        and message.relates_to == seen.relates_to
        and message.wants_reply == seen.wants_reply
        and message.answer_by == seen.answer_by
    )


def _row_of(key: str, message: OutgoingMessage) -> Values:
    relates = message.relates_to
    return {
        **values_of(message),
        "sequence": key,
        "named": digest(message.message_id),
        "answers": None if relates is None else digest(relates),
    }
