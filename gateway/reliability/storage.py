"""The storage API: a `StorageManager` gives transactions, and a transaction three managers.

As Mercury's (S. Suriarachchi, University of Moratuwa, 2010, chapter 4): nothing of a sequence is in
memory between transactions, so a process may die between any two. Each transaction sees the objects
that it looks at as if it were alone: what it finds stays locked until it ends.

**Lock order: incoming sequences, then invoker buffers, then outgoing sequences.** A transaction may
leave one out, and never goes back; it looks at several objects of one kind in the order of their
keys. Where it goes back, `OutOfOrder` is raised: two such transactions would wait for one another.

A store may have more, which is used where it is there, and done without where it is not:

- a manager of sequences, ``take_all(keys)`` and ``find_all(keys)``: lock those that are there in
  one go, in the order of their keys; the first leaves out what another transaction has. Both
  return their keys;
- `InvokerBuffers`, ``add_new_message(identifier, message)``: add one whose number does not wait, as
  the caller knows; `Conflict`, if it does, at the end of the transaction at the latest; and
  ``read_ahead(identifiers)``: read what `InvokerBuffers.messages` is asked for next, of several
  buffers that are locked;
- `OutgoingSequences`, ``next_due(key, highest, after)``: the earliest time after *after* at which
  one of the messages up to number *highest* is due, or None; ``read_due(wanted, now)``: read what
  that and `OutgoingSequences.messages` are asked for next, of several sequences that are locked,
  *wanted* having the highest number and the most messages of each key;
  ``remove_acknowledged(key, ranges)``: as ``acknowledge``, but that it returns how many messages
  were removed; and ``remove_all(known)``: the same of several sequences, by key;
- `Look`, ``all_due(now, limit)``: what `Look.invoker_due`, `Look.outgoing_due` and
  `Look.incoming_due` return, as a tuple;
- a store, ``has_savepoints``, and its transactions ``savepoint()``: a part that is undone where it
  raises.

Everything here is synchronous: transactions are short, no message is sent inside one, and whoever
has an event loop runs them on a thread.
"""

import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

from gateway.reliability.records import (
    IncomingSequence,
    InvokerBuffer,
    InvokerMessage,
    OutgoingMessage,
    OutgoingSequence,
)
from mediation.reliable_messaging import Ranges

T = TypeVar("T")

MAX_KEY = 2000
"""Bytes of an identifier or a key, in UTF-8: what an index of every database takes."""
MAX_KEPT_RANGES = 16_384
"""Ranges of numbers that one sequence may have."""


class StorageUnavailable(Exception):
    """The store cannot do it now; nothing was changed."""


class Conflict(StorageUnavailable):
    """Two transactions were in each other's way; nothing was changed, and the same again may
    succeed: see `run`."""


class OutOfOrder(RuntimeError):
    """A transaction went back in the lock order: a programming error."""


class Ended(RuntimeError):
    """A transaction was used after its end: a programming error."""


class Taken(ValueError):
    """Another sequence has that identifier: a destination, or an offer, named one twice."""


class InDoubt(StorageUnavailable):
    """A commit whose outcome nobody knows yet (the connection broke in it): look again later."""


class IncomingSequences(Protocol):
    """RMDSequenceManager: the destinations. *find* and what follows lock the row, also one that is
    not there yet: nobody else adds it meanwhile."""

    def find(self, identifier: str) -> IncomingSequence | None: ...

    def take(self, identifier: str) -> IncomingSequence | None:
        """As *find*, but None where another transaction has it: several processes' workers pass by
        what one of them works on."""
        ...

    def find_created(self, create_id: str, owner: str | None) -> IncomingSequence | None:
        """Find the sequence that a CreateSequence with this MessageID, of this owner, made before.

        Whoever else asks for the same waits, so that a request that came twice makes one sequence.
        It comes before every *find* of the transaction.
        """
        ...

    def put(self, sequence: IncomingSequence) -> None:
        """Add it, or change it.

        Raises:
            ValueError: No store can keep it (its key, or its ranges).
        """
        ...

    def remove(self, identifier: str) -> None: ...

    def count(self, owner: str | None = None, *, peer: str | None = None) -> int:
        """Count the sequences that have not ended: all, those of *owner*, or those that *peer*
        created and nobody owns."""
        ...


class InvokerBuffers(Protocol):
    """InvokerBufferManager."""

    def find(self, identifier: str) -> InvokerBuffer | None: ...

    def take(self, identifier: str) -> InvokerBuffer | None:
        """As *find*, but None where another transaction has it."""
        ...

    def put(self, buffer: InvokerBuffer) -> None: ...

    def remove(self, identifier: str) -> None:
        """Also its messages."""
        ...

    def add_message(self, identifier: str, message: InvokerMessage) -> bool:
        """False where that number waits already; nothing is changed then."""
        ...

    def messages(self, identifier: str, first: int, limit: int) -> list[InvokerMessage]:
        """The messages from number *first* on, by number, at most *limit*; gaps are left out."""
        ...

    def remove_message(self, identifier: str, number: int) -> None: ...


class OutgoingSequences(Protocol):
    """RMSSequenceManager."""

    def find(self, key: str) -> OutgoingSequence | None: ...

    def take(self, key: str) -> OutgoingSequence | None:
        """As *find*, but None where another transaction has it."""
        ...

    def find_identified(self, identifier: str) -> OutgoingSequence | None:
        """By ``wsrm:Identifier``."""
        ...

    def find_creating(self, create_id: str) -> OutgoingSequence | None:
        """By the MessageID of its CreateSequence."""
        ...

    def put(self, sequence: OutgoingSequence) -> None:
        """Add it, or change it.

        Raises:
            Taken: Another sequence has its identifier, or that which it offered.
            ValueError: No store can keep it (its key, or its ranges).
        """
        ...

    def remove(self, key: str) -> None:
        """Also its messages."""
        ...

    def put_message(self, key: str, message: OutgoingMessage) -> None:
        """Add it, or change it."""
        ...

    def message(self, key: str, number: int) -> OutgoingMessage | None: ...

    def message_identified(self, key: str, message_id: str) -> OutgoingMessage | None: ...

    def message_relating(self, key: str, message_id: str) -> OutgoingMessage | None:
        """The reply to the message with that id."""
        ...

    def messages(self, key: str, limit: int, due: float | None = None) -> list[OutgoingMessage]:
        """By number, at most *limit*; only those due by then, where *due* is given."""
        ...

    def acknowledge(self, key: str, ranges: Ranges, *, replied: bool = False) -> int:
        """Remove the messages with these numbers, but for those that wait for replies, unless
        *replied*.

        Returns:
            How many messages are left.
        """
        ...


class Transaction(Protocol):
    """One transaction. Its managers are usable until it has ended; then they raise `Ended`."""

    incoming: IncomingSequences
    invoker: InvokerBuffers
    outgoing: OutgoingSequences

    @property
    def connection(self) -> Any:
        """The store's own connection, for what an application changes together with it: an
        SQLAlchemy ``Connection``; None in memory."""
        ...

    def enlist(self, participant: Any) -> Any:
        """Let another database take part (distributed transactions only).

        Returns:
            Its connection, for what an application changes there.
        """
        ...


class Look(Protocol):
    """A view of the store by which workers find work: it locks nothing, and may be old."""

    def incoming_due(self, now: float, limit: int) -> list[str]:
        """Identifiers of those whose ``due_at`` is not after *now*, the longest due first."""
        ...

    def invoker_due(self, now: float, limit: int) -> list[str]: ...

    def outgoing_due(self, now: float, limit: int) -> list[str]: ...

    def next_due(self) -> float | None:
        """The earliest ``due_at`` of all; None: nothing is due, ever."""
        ...

    def incoming_to(self, address: str, limit: int) -> list[str]:
        """Identifiers of those that have not ended and whose acknowledgements go to *address*; by
        identifier, at most *limit*."""
        ...

    def outgoing_to(self, address: str, limit: int) -> list[str]:
        """Keys of those that have not ended and whose target has *address*; by key, at most
        *limit*."""
        ...

    def incoming_page(self, after: str, limit: int) -> list[IncomingSequence]:
        """By identifier, for lists that people look at."""
        ...

    def outgoing_page(self, after: str, limit: int) -> list[OutgoingSequence]: ...

    def waiting(self) -> int:
        """Count the messages that are not acknowledged, or wait for their replies, of sequences
        that clients made and that have not ended."""
        ...


class StorageManager(Protocol):
    """A store."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Begin one; committed where the block ends, rolled back where it raises.

        Raises:
            StorageUnavailable: Nothing was changed.
            InDoubt: The outcome of the commit is not known.
        """
        ...

    def look(self) -> AbstractContextManager[Look]: ...

    def recover(self) -> int:
        """End what a crash left between two phases (distributed transactions only). To be called
        at the start, and every minute.

        Returns:
            How many transactions it ended.
        """
        ...

    def close(self) -> None: ...


def in_key_order(keys: Iterable[str]) -> list[str]:
    """The order in which several objects of one kind are looked at."""
    return sorted(set(keys))


def retried(
    work: Callable[[], T], attempts: int = 5, pause: Callable[[float], None] = time.sleep
) -> T:
    """Run *work*, which begins its own transactions; again, where another was in its way.

    Args:
        pause: Is given the seconds to wait before each further attempt.

    Raises:
        Conflict: Also the last attempt met another.
    """
    for attempt in range(1, attempts):
        try:
            return work()
        except Conflict:
            pause(0.01 * 2**attempt)
    return work()


def run(
    store: StorageManager,
    work: Callable[[Transaction], T],
    attempts: int = 5,
    pause: Callable[[float], None] = time.sleep,
) -> T:
    """Run *work* in a transaction of its own; again, where another was in its way.

    Args:
        work: It may run several times, so it changes nothing but what the transaction holds.
        pause: As of `retried`.

    Raises:
        Conflict: As `retried`.
        StorageUnavailable: As of `StorageManager.transaction`.
    """

    def once() -> T:
        with store.transaction() as transaction:
            return work(transaction)

    return retried(once, attempts, pause)
