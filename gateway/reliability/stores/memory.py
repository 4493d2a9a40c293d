"""The store in memory: uncommitted changes are lost, and all is when the process ends.

A transaction locks an object when it first looks at it, and has it until its end (two-phase
locking). It changes drafts, which take the place of what is there at its commit, so that it can be
rolled back. Nothing here is left to chance: a simulator that runs on it is repeatable.
"""

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, Generic, TypeAlias, TypeVar

from gateway.reliability.records import (
    IncomingSequence,
    InvokerBuffer,
    InvokerMessage,
    OutgoingMessage,
    OutgoingSequence,
)
from gateway.reliability.storage import (
    Conflict,
    Ended,
    IncomingSequences,
    InvokerBuffers,
    OutgoingSequences,
    StorageUnavailable,
    Taken,
)
from gateway.reliability.stores.committed_state import (
    Committed,
    MemoryLook,
    Record,
    Table,
)
from gateway.reliability.stores.locks import (
    Kind,
    LockOrder,
    Place,
    can_be_key,
    check_key,
    check_ranges,
    check_sequence,
    names_of,
)
from gateway.reliability.stores.savepoints import Part
from gateway.reliability.stores.sequence_messages import SequenceMessages, SequenceMessagesDraft
from mediation.reliable_messaging import Ranges

R = TypeVar("R", IncomingSequence, InvokerBuffer, OutgoingSequence)
Step: TypeAlias = Callable[[str], None]

LOCK_WAIT = 10.0
"""Seconds that a transaction waits for an object that another one has."""


class MemoryStore:
    """Sequences in memory.

    Args:
        lock_wait: Seconds that a transaction waits for an object that another one has.
        step: Is called with ``begin``, ``commit`` (all is done, nothing committed) and
            ``committed``; a simulator raises there what ends the process.

    Attributes:
        commits: How many transactions were committed.
    """

    has_savepoints = True

    def __init__(self, *, lock_wait: float = LOCK_WAIT, step: Step | None = None) -> None:
        self._committed = Committed()
        self._changed = threading.Condition()
        self._holders: dict[Place, MemoryTransaction] = {}
        self._lock_wait = lock_wait
        self._step = step
        self.commits = 0

    def surviving(self) -> "MemoryStore":
        """A store with the committed records, as after a crash; it shares nothing with this one."""
        store = MemoryStore(lock_wait=self._lock_wait, step=self._step)
        with self._changed:
            store._committed = self._committed.copy()
        return store

    def is_empty(self) -> bool:
        """Return whether nothing is kept: no sequence, no buffer, no message."""
        with self._changed:
            held = self._committed
            return not (
                held.incoming.records
                or held.invoker.records
                or held.outgoing.records
                or held.invoker_messages
                or held.outgoing_messages
            )

    @contextlib.contextmanager
    def transaction(self) -> "Iterator[MemoryTransaction]":
        """Begin a transaction: see `gateway.reliability.storage.StorageManager`."""
        self._tell("begin")
        transaction = MemoryTransaction(self)
        try:
            yield transaction
            self._tell("commit")
            transaction._commit()
        finally:
            transaction._end()
        self._tell("committed")

    @contextlib.contextmanager
    def look(self) -> Iterator[MemoryLook]:
        """See what is due."""
        yield MemoryLook(self._changed, self._committed)

    def recover(self) -> int:
        """Do nothing: there are no two phases."""
        return 0

    def close(self) -> None:
        """Do nothing."""

    def _tell(self, what: str) -> None:
        if self._step is not None:
            self._step(what)

    def _lock_all(
        self, places: Sequence[Place], holder: "MemoryTransaction", wait: float
    ) -> list[Place]:
        """Lock places that *holder* does not have, each within *wait* seconds; those that are
        locked now. Where one is waited for in vain, those behind it are not tried."""
        locked: list[Place] = []
        with self._changed:
            for place in places:
                free = place not in self._holders
                if not free and wait:
                    free = self._changed.wait_for(partial(self._is_free, place), wait)
                if free:
                    self._holders[place] = holder
                    locked.append(place)
                elif wait:
                    break
        return locked

    def _is_free(self, place: Place) -> bool:
        return place not in self._holders

    def _unlock(self, holder: "MemoryTransaction", places: Iterable[Place]) -> None:
        with self._changed:
            for place in places:
                if self._holders.get(place) is holder:
                    del self._holders[place]
            self._changed.notify_all()


class MemoryTransaction:
    """One transaction. Its managers lock what they look at."""

    connection: Any = None

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self._order = LockOrder()
        self._ended = False
        self._drafts: dict[Place, Record | None] = {}
        self._invoker_drafts: dict[str, SequenceMessagesDraft[InvokerMessage]] = {}
        self._outgoing_drafts: dict[str, SequenceMessagesDraft[OutgoingMessage]] = {}
        self._part: Part | None = None
        committed = store._committed
        self.incoming: IncomingSequences = MemoryIncoming(self, committed.incoming)
        self.invoker: InvokerBuffers = MemoryInvoker(self, committed.invoker)
        self.outgoing: OutgoingSequences = MemoryOutgoing(self, committed.outgoing)

    def enlist(self, participant: object) -> None:
        """Refuse: memory takes part in no distributed transaction."""
        raise TypeError("the store in memory takes part in no distributed transaction")

    def savepoint(self) -> "_Savepoint":
        """A part of the transaction, of which nothing is left where it raises: what it locked is
        free then."""
        return _Savepoint(self)

    def _hold(self, kind: Kind, key: str, *, wait: bool = True) -> bool:
        """Lock an object; False where another has it, and nobody waits for it."""
        return bool(self._hold_all(kind, (key,), wait=wait))

    def _hold_all(self, kind: Kind, keys: Sequence[str], *, wait: bool) -> list[str]:
        """Lock objects, given in their order; the keys of those that are locked. Those that others
        have are waited for, or left out."""
        if self._ended:
            raise Ended("the transaction has ended")
        places = [(kind, key) for key in keys]
        missing = [place for place in places if not self._order.holds(place)]
        self._order.check(*missing)
        seconds = self._store._lock_wait if wait else 0.0
        locked = self._store._lock_all(missing, self, seconds)
        for place in locked:
            self._order.add(place)
        if wait and len(locked) < len(missing):
            _, key = missing[len(locked)]
            raise StorageUnavailable(f"another transaction has {key!r} for {seconds:g} s")
        return [key for kind, key in places if self._order.holds((kind, key))]

    def _commit(self) -> None:
        store = self._store
        with store._changed:
            held = store._committed
            self._check_names(held)
            for (kind, key), record in self._drafts.items():
                if kind is Kind.INCOMING:
                    assert record is None or isinstance(record, IncomingSequence)
                    held.put_incoming(key, record)
                elif kind is Kind.INVOKER:
                    assert record is None or isinstance(record, InvokerBuffer)
                    held.invoker.put(key, record)
                else:
                    assert record is None or isinstance(record, OutgoingSequence)
                    held.put_outgoing(key, record)
            for key, draft in self._invoker_drafts.items():
                _keep(held.invoker_messages, key, draft.commit())
            for key, outgoing in self._outgoing_drafts.items():
                _keep(held.outgoing_messages, key, outgoing.commit())
            store.commits += 1

    def _check_names(self, held: Committed) -> None:
        """Check that no other transaction gave an outgoing sequence a name of ours meanwhile."""
        for (kind, key), record in self._drafts.items():
            if kind is not Kind.OUTGOING or record is None:
                continue
            now = held.outgoing.records.get(key)
            if now is not None and names_of(now) == names_of(record):
                continue  # Nearly always.
            for name, index in held.names().items():
                value = getattr(record, name)
                other = index.get(value, key) if value is not None else key
                if other != key and (Kind.OUTGOING, other) not in self._drafts:
                    raise Conflict(f"another sequence was given the same {name} meanwhile")

    def _end(self) -> None:
        self._ended = True
        locked, self._order = self._order.places(), LockOrder()
        self._store._unlock(self, locked)


class _Savepoint:
    """`MemoryTransaction.savepoint`."""

    __slots__ = ("_before", "_mark", "_part", "_tx")

    def __init__(self, transaction: MemoryTransaction) -> None:
        self._tx = transaction

    def __enter__(self) -> None:
        tx = self._tx
        if tx._ended:
            raise Ended("the transaction has ended")
        self._before, self._part = tx._part, Part()
        self._mark = tx._order.mark()
        tx._part = self._part

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        tx, before = self._tx, self._before
        tx._part = before
        if error is not None:
            self._part.undo()
            tx._store._unlock(tx, tx._order.back_to(self._mark))
        elif before is not None:
            before.keep(self._part)


class _Manager(Generic[R]):
    """Base of the managers of all kinds."""

    _kind: Kind

    def __init__(self, transaction: MemoryTransaction, committed: Table[R]) -> None:
        self._tx = transaction
        self._records: dict[str, R] = committed.records

    def _find(self, key: str, *, wait: bool = True) -> R | None:
        tx, place = self._tx, (self._kind, key)
        if not tx._order.holds(place) and not (
            can_be_key(key) and tx._hold(self._kind, key, wait=wait)
        ):
            return None
        return self._now(key)

    def _now(self, key: str) -> R | None:
        place = self._kind, key
        if place in self._tx._drafts:
            return self._tx._drafts[place]  # type: ignore[return-value]  # Of this kind.
        return self._records.get(key)

    def take_all(self, keys: Sequence[str]) -> list[str]:
        """Lock those of *keys* that are there and that no other transaction has; their keys."""
        return self._there(self._tx._hold_all(self._kind, self._there(keys), wait=False))

    def find_all(self, keys: Sequence[str]) -> list[str]:
        """Lock those of *keys* that are there; their keys."""
        return self._there(self._tx._hold_all(self._kind, self._there(keys), wait=True))

    def _there(self, keys: Sequence[str]) -> list[str]:
        """The *keys* whose records exist now."""
        if self._tx._drafts:
            return [key for key in keys if self._now(key) is not None]
        return [key for key in keys if key in self._records]

    def _draft(self, key: str, record: R | None) -> None:
        tx, place = self._tx, (self._kind, key)
        if not tx._order.holds(place):
            tx._hold(self._kind, key)
        if tx._part is not None:
            tx._part.will_change(tx._drafts, place)
        tx._drafts[place] = record

    def _drafts(self) -> Iterator[tuple[str, R | None]]:
        for (kind, key), record in self._tx._drafts.items():
            if kind is self._kind:
                yield key, record  # type: ignore[misc]  # Of this kind.

    def _check_open(self) -> None:
        if self._tx._ended:
            raise Ended("the transaction has ended")


class MemoryIncoming(_Manager[IncomingSequence]):
    """`gateway.reliability.storage.IncomingSequences`."""

    _kind = Kind.INCOMING

    def find(self, identifier: str) -> IncomingSequence | None:
        return self._find(identifier)

    def take(self, identifier: str) -> IncomingSequence | None:
        return self._find(identifier, wait=False)

    def find_created(self, create_id: str, owner: str | None) -> IncomingSequence | None:
        self._tx._hold(Kind.CREATED, repr((create_id, owner)))
        for key, record in self._drafts():
            if record and (record.create_id, record.owner) == (create_id, owner):
                return self.find(key)
        known = self._tx._store._committed.created.get((create_id, owner))
        record = self.find(known) if known is not None else None
        matches = record and (record.create_id, record.owner) == (create_id, owner)
        return record if matches else None

    def put(self, sequence: IncomingSequence) -> None:
        check_sequence(sequence)
        self._draft(sequence.identifier, sequence)

    def remove(self, identifier: str) -> None:
        self._draft(identifier, None)

    def count(self, owner: str | None = None, *, peer: str | None = None) -> int:
        self._check_open()
        with self._tx._store._changed:
            held = self._tx._store._committed
            number = held.live_of(owner, peer)
            for key, record in self._drafts():
                before = held.incoming.records.get(key)
                number += _is_live(record, owner, peer) - _is_live(before, owner, peer)
            return number


class MemoryInvoker(_Manager[InvokerBuffer]):
    """`gateway.reliability.storage.InvokerBuffers`."""

    _kind = Kind.INVOKER

    def find(self, identifier: str) -> InvokerBuffer | None:
        return self._find(identifier)

    def take(self, identifier: str) -> InvokerBuffer | None:
        return self._find(identifier, wait=False)

    def put(self, buffer: InvokerBuffer) -> None:
        check_key(buffer.identifier)
        self._draft(buffer.identifier, buffer)

    def remove(self, identifier: str) -> None:
        self._draft(identifier, None)
        self._messages_of(identifier).clear()

    def add_message(self, identifier: str, message: InvokerMessage) -> bool:
        messages = self._messages_of(identifier)
        if messages.get(message.number) is not None:
            return False
        messages.put(message)
        return True

    def messages(self, identifier: str, first: int, limit: int) -> list[InvokerMessage]:
        return list(islice(self._messages_of(identifier).messages(first), limit))

    def remove_message(self, identifier: str, number: int) -> None:
        self._messages_of(identifier).remove(number)

    def _messages_of(self, identifier: str) -> SequenceMessagesDraft[InvokerMessage]:
        tx = self._tx
        return _drafted(
            tx, self._kind, identifier, tx._invoker_drafts, tx._store._committed.invoker_messages
        )


class MemoryOutgoing(_Manager[OutgoingSequence]):
    """`gateway.reliability.storage.OutgoingSequences`."""

    _kind = Kind.OUTGOING

    def find(self, key: str) -> OutgoingSequence | None:
        return self._find(key)

    def take(self, key: str) -> OutgoingSequence | None:
        return self._find(key, wait=False)

    def find_identified(self, identifier: str) -> OutgoingSequence | None:
        return self._find_by("identifier", identifier, self._tx._store._committed.identified)

    def find_creating(self, create_id: str) -> OutgoingSequence | None:
        return self._find_by("create_id", create_id, self._tx._store._committed.creating)

    def put(self, sequence: OutgoingSequence) -> None:
        before = self._find(sequence.key)
        if before is None or names_of(before) != names_of(sequence):
            check_sequence(sequence)
            self._check_names(before, sequence)
        else:  # Nearly always.
            check_ranges(sequence.acknowledged)
        self._draft(sequence.key, sequence)

    def _check_names(self, before: OutgoingSequence | None, sequence: OutgoingSequence) -> None:
        for name, index in self._tx._store._committed.names().items():
            value = getattr(sequence, name)
            if value is None or (before is not None and getattr(before, name) == value):
                continue
            if self._key_by(name, value, index) not in (None, sequence.key):
                raise Taken(f"another sequence has the {name} {value!r}")

    def remove(self, key: str) -> None:
        self._draft(key, None)
        self._messages_of(key).clear()

    def put_message(self, key: str, message: OutgoingMessage) -> None:
        self._messages_of(key).put(message)

    def message(self, key: str, number: int) -> OutgoingMessage | None:
        return self._messages_of(key).get(number)

    def message_identified(self, key: str, message_id: str) -> OutgoingMessage | None:
        return self._messages_of(key).with_id(message_id)

    def message_relating(self, key: str, message_id: str) -> OutgoingMessage | None:
        return self._messages_of(key).relating(message_id)

    def messages(self, key: str, limit: int, due: float | None = None) -> list[OutgoingMessage]:
        found = self._messages_of(key).messages()
        if due is not None:
            found = (one for one in found if one.next_at is None or one.next_at <= due)
        return list(islice(found, limit))

    def next_due(self, key: str, highest: int, after: float) -> float | None:
        found = self._messages_of(key).messages(1, highest)
        times = [one.next_at for one in found if one.next_at is not None and one.next_at > after]
        return min(times, default=None)

    def acknowledge(self, key: str, ranges: Ranges, *, replied: bool = False) -> int:
        messages = self._messages_of(key)
        for lower, upper in ranges.pairs:
            for message in list(messages.messages(lower, upper)):
                if replied or not message.wants_reply:
                    messages.remove(message.number)
        return len(messages)

    def _key_by(self, name: str, value: str, index: dict[str, str]) -> str | None:
        for key, record in self._drafts():
            if record is not None and getattr(record, name) == value:
                return key
        key_now = index.get(value)
        if key_now is None:
            return None
        record = self._now(key_now)
        return key_now if record is not None and getattr(record, name) == value else None

    def _find_by(self, name: str, value: str, index: dict[str, str]) -> OutgoingSequence | None:
        self._check_open()
        key = self._key_by(name, value, index)
        record = self.find(key) if key is not None else None
        # Another transaction may have changed it before it was locked.
        return record if record is not None and getattr(record, name) == value else None

    def _messages_of(self, key: str) -> SequenceMessagesDraft[OutgoingMessage]:
        tx = self._tx
        return _drafted(
            tx, self._kind, key, tx._outgoing_drafts, tx._store._committed.outgoing_messages
        )


M = TypeVar("M", InvokerMessage, OutgoingMessage)


def _drafted(
    tx: MemoryTransaction,
    kind: Kind,
    key: str,
    drafts: dict[str, SequenceMessagesDraft[M]],
    committed: dict[str, SequenceMessages[M]],
) -> SequenceMessagesDraft[M]:
    """The changes of *tx* to the messages of one sequence."""
    if not tx._order.holds((kind, key)):
        tx._hold(kind, key)
    if tx._part is not None:
        tx._part.will_change(drafts, key)
    draft = drafts.get(key)
    if draft is None:
        draft = drafts[key] = SequenceMessagesDraft(committed.get(key))
    return draft


def _keep(by_key: dict[str, SequenceMessages[M]], key: str, messages: SequenceMessages[M]) -> None:
    if len(messages):
        by_key[key] = messages
    else:
        by_key.pop(key, None)


def _is_live(record: IncomingSequence | None, owner: str | None, peer: str | None) -> int:
    if record is None or record.ended_at is not None:
        return 0
    if owner is not None:
        return int(record.owner == owner)
    return int(peer is None or record.peer == peer)


def memory_store(url: str) -> MemoryStore:
    """Make a store for the URL ``memory:``.

    Raises:
        StorageUnavailable: The URL says more than that.
    """
    if url.lower() not in ("memory:", "memory://"):
        raise StorageUnavailable(f"{url[:80]!r}: memory: takes nothing after the colon")
    return MemoryStore()
