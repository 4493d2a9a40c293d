"""The committed state in memory, with its indexes."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Any, Generic, TypeAlias, TypeVar

from gateway.reliability.records import (
    IncomingSequence,
    InvokerBuffer,
    InvokerMessage,
    OutgoingMessage,
    OutgoingSequence,
)
from gateway.reliability.stores.locks import names_of
from gateway.reliability.stores.sequence_messages import SequenceMessages

R = TypeVar("R", IncomingSequence, InvokerBuffer, OutgoingSequence)
Record: TypeAlias = IncomingSequence | InvokerBuffer | OutgoingSequence


@dataclass(slots=True)
class Table(Generic[R]):
    """The committed objects of one kind, and those that are due, the longest due first."""

    records: dict[str, R] = field(default_factory=dict)
    due: list[tuple[float, str]] = field(default_factory=list)
    addressed: dict[str, set[str]] = field(default_factory=dict)
    """The keys of sequences that have not ended, by the address that they send to."""
    where: Callable[[R], object] | None = field(default=None, compare=False)
    """Returns the fields that decide on that address."""

    def copy(self) -> "Table[R]":
        addressed = {address: set(keys) for address, keys in self.addressed.items()}
        return Table(dict(self.records), list(self.due), addressed, self.where)

    def put(self, key: str, record: R | None) -> None:
        old = self.records.get(key)
        if record is None:
            self.records.pop(key, None)
        else:
            self.records[key] = record
        due_at = None if record is None else record.due_at
        if old is not None and old.due_at is not None and old.due_at != due_at:
            del self.due[bisect_left(self.due, (old.due_at, key))]
        if due_at is not None and (old is None or old.due_at != due_at):
            insort(self.due, (due_at, key))
        where = self.where
        if where is None or (
            old is not None and record is not None and where(old) == where(record)
        ):
            return  # Nearly always.
        before, address = _address(old), _address(record)
        if before is not None:
            self.addressed[before].discard(key)
            if not self.addressed[before]:
                del self.addressed[before]
        if address is not None:
            self.addressed.setdefault(address, set()).add(key)

    def due_by(self, now: float, limit: int) -> list[str]:
        return [key for due_at, key in islice(self.due, limit) if due_at <= now]

    def sending_to(self, address: str, limit: int) -> list[str]:
        return sorted(self.addressed.get(address, ()))[:limit]

    def page(self, after: str, limit: int) -> list[R]:
        keys = sorted(key for key in self.records if key > after)
        return [self.records[key] for key in keys[:limit]]


def _address(record: Record | None) -> str | None:
    """The address to which a sequence sends, until it has ended."""
    if isinstance(record, IncomingSequence):
        return record.acks_to.address if record.ended_at is None else None
    if isinstance(record, OutgoingSequence):
        return record.target.address if record.ended_at is None else None
    return None


def _counted(record: IncomingSequence) -> tuple[tuple[str, str | None], ...]:
    owner = ("owner", record.owner)
    return (owner,) if record.peer is None else (owner, ("peer", record.peer))


@dataclass(slots=True)
class Committed:
    """All committed records."""

    incoming: Table[IncomingSequence] = field(
        default_factory=lambda: Table(where=attrgetter("ended_at", "acks_to"))
    )
    invoker: Table[InvokerBuffer] = field(default_factory=Table)
    outgoing: Table[OutgoingSequence] = field(
        default_factory=lambda: Table(where=attrgetter("ended_at", "target"))
    )
    invoker_messages: dict[str, SequenceMessages[InvokerMessage]] = field(default_factory=dict)
    outgoing_messages: dict[str, SequenceMessages[OutgoingMessage]] = field(default_factory=dict)
    created: dict[tuple[str, str | None], str] = field(default_factory=dict)
    identified: dict[str, str] = field(default_factory=dict)
    offered: dict[str, str] = field(default_factory=dict)
    creating: dict[str, str] = field(default_factory=dict)
    live: Counter[tuple[str, str | None]] = field(default_factory=Counter)
    """Incoming sequences that have not ended, by owner and by peer."""

    def copy(self) -> "Committed":
        return Committed(
            self.incoming.copy(),
            self.invoker.copy(),
            self.outgoing.copy(),
            {key: messages.copy() for key, messages in self.invoker_messages.items()},
            {key: messages.copy() for key, messages in self.outgoing_messages.items()},
            dict(self.created),
            dict(self.identified),
            dict(self.offered),
            dict(self.creating),
            Counter(self.live),
        )

    def put_incoming(self, key: str, record: IncomingSequence | None) -> None:
        old = self.incoming.records.get(key)
        if old is not None:
            if old.create_id is not None and self.created[old.create_id, old.owner] == key:
                del self.created[old.create_id, old.owner]
            if old.ended_at is None:
                for counted in _counted(old):
                    self.live[counted] -= 1
                    if not self.live[counted]:
                        del self.live[counted]
        if record is not None:
            if record.create_id is not None:
                self.created[record.create_id, record.owner] = key
            if record.ended_at is None:
                self.live.update(_counted(record))
        self.incoming.put(key, record)

    def live_of(self, owner: str | None, peer: str | None) -> int:
        """Count the incoming sequences of *owner*, else of *peer*, else of all, that have not
        ended."""
        if owner is None and peer is None:
            return sum(number for (kind, _), number in self.live.items() if kind == "owner")
        return self.live["owner", owner] if owner is not None else self.live["peer", peer]

    def put_outgoing(self, key: str, record: OutgoingSequence | None) -> None:
        old = self.outgoing.records.get(key)
        if old is None or record is None or names_of(old) != names_of(record):
            self._put_names(key, old, record)
        self.outgoing.put(key, record)

    def _put_names(
        self, key: str, old: OutgoingSequence | None, record: OutgoingSequence | None
    ) -> None:
        for name, index in self.names().items():
            value = getattr(old, name, None)
            if value is not None and index.get(value) == key:
                del index[value]
            value = getattr(record, name, None)
            if value is not None:
                index[value] = key

    def names(self) -> dict[str, dict[str, str]]:
        """The fields that tell an outgoing sequence from all others, with their indexes."""
        return {
            "identifier": self.identified,
            "offered": self.offered,
            "create_id": self.creating,
        }


class MemoryLook:
    """`gateway.reliability.storage.Look`."""

    def __init__(self, lock: AbstractContextManager[Any], held: Committed) -> None:
        self._lock = lock
        self._held = held

    def incoming_due(self, now: float, limit: int) -> list[str]:
        with self._lock:
            return self._held.incoming.due_by(now, limit)

    def invoker_due(self, now: float, limit: int) -> list[str]:
        with self._lock:
            return self._held.invoker.due_by(now, limit)

    def outgoing_due(self, now: float, limit: int) -> list[str]:
        with self._lock:
            return self._held.outgoing.due_by(now, limit)

    def next_due(self) -> float | None:
        with self._lock:
            held = self._held
            firsts = [
                due[0][0] for due in (held.incoming.due, held.invoker.due, held.outgoing.due) if due
            ]
        return min(firsts, default=None)

    def incoming_to(self, address: str, limit: int) -> list[str]:
        with self._lock:
            return self._held.incoming.sending_to(address, limit)

    def outgoing_to(self, address: str, limit: int) -> list[str]:
        with self._lock:
            return self._held.outgoing.sending_to(address, limit)

    def incoming_page(self, after: str, limit: int) -> list[IncomingSequence]:
        with self._lock:
            return self._held.incoming.page(after, limit)

    def outgoing_page(self, after: str, limit: int) -> list[OutgoingSequence]:
        with self._lock:
            return self._held.outgoing.page(after, limit)

    def waiting(self) -> int:
        with self._lock:
            found = self._held.outgoing.records.values()
            live = (each for each in found if each.ended_at is None and each.create_id is not None)
            return sum(each.count for each in live)
