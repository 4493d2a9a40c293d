"""The messages of one sequence in memory: what is committed, and what a transaction changes."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from heapq import merge
from typing import Generic, TypeVar

from gateway.reliability.records import InvokerMessage, OutgoingMessage

M = TypeVar("M", InvokerMessage, OutgoingMessage)


class Shelf(Generic[M]):
    """Messages by number, and by the ids that they have."""

    __slots__ = ("_messages", "_numbers", "_relating", "_with_id")

    def __init__(self) -> None:
        self._messages: dict[int, M] = {}
        self._numbers: list[int] = []
        # Tuples: nearly each has one number, and the garbage collector does not look at them.
        self._with_id: dict[str, tuple[int, ...]] = {}
        self._relating: dict[str, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self._numbers)

    def copy(self) -> "Shelf[M]":
        other: Shelf[M] = Shelf()
        for number in self._numbers:
            other.put(self._messages[number])
        return other

    def get(self, number: int) -> M | None:
        return self._messages.get(number)

    def numbers(self, first: int, last: int | None = None) -> Iterator[int]:
        """The numbers from *first* to *last*, rising."""
        start = bisect_left(self._numbers, first)
        for place in range(start, len(self._numbers)):
            if last is not None and self._numbers[place] > last:
                return
            yield self._numbers[place]

    def with_id(self, message_id: str) -> set[int]:
        return set(self._with_id.get(message_id, ()))

    def relating(self, message_id: str) -> set[int]:
        return set(self._relating.get(message_id, ()))

    def put(self, message: M) -> None:
        self.remove(message.number)
        if not self._numbers or message.number > self._numbers[-1]:
            self._numbers.append(message.number)
        else:
            insort(self._numbers, message.number)
        self._messages[message.number] = message
        if isinstance(message, OutgoingMessage):
            _add(self._with_id, message.message_id, message.number)
            if message.relates_to is not None:
                _add(self._relating, message.relates_to, message.number)

    def remove(self, number: int) -> None:
        message = self._messages.pop(number, None)
        if message is None:
            return
        del self._numbers[bisect_left(self._numbers, number)]
        if isinstance(message, OutgoingMessage):
            _discard(self._with_id, message.message_id, number)
            if message.relates_to is not None:
                _discard(self._relating, message.relates_to, number)


def _add(index: dict[str, tuple[int, ...]], key: str, number: int) -> None:
    index[key] = (*index.get(key, ()), number)


def _discard(index: dict[str, tuple[int, ...]], key: str, number: int) -> None:
    left = tuple(other for other in index[key] if other != number)
    if left:
        index[key] = left
    else:
        del index[key]


class ShelfDraft(Generic[M]):
    """A shelf as one transaction sees it: its changes are kept apart until it is committed."""

    __slots__ = ("_base", "_gone", "_put")

    def __init__(self, base: Shelf[M] | None) -> None:
        self._base: Shelf[M] = base if base is not None else Shelf()
        self._put: Shelf[M] = Shelf()
        self._gone: set[int] = set()
        """Numbers of the base that were removed, or changed."""

    def copy(self) -> "ShelfDraft[M]":
        """Another one, with the same changes so far."""
        other = ShelfDraft(self._base)
        if len(self._put):
            other._put = self._put.copy()
        other._gone = set(self._gone)
        return other

    def __len__(self) -> int:
        return len(self._base) - len(self._gone) + len(self._put)

    def get(self, number: int) -> M | None:
        found = self._put.get(number)
        return found if found is not None or number in self._gone else self._base.get(number)

    def messages(self, first: int = 1, last: int | None = None) -> Iterator[M]:
        """Those with the numbers from *first* to *last*, by number."""
        if not self._gone and not len(self._put):
            for number in self._base.numbers(first, last):
                message = self._base.get(number)
                if message is not None:
                    yield message
            return
        base = (number for number in self._base.numbers(first, last) if number not in self._gone)
        for number in merge(base, self._put.numbers(first, last)):
            message = self.get(number)
            if message is not None:
                yield message

    def with_id(self, message_id: str) -> M | None:
        """The first that has the id."""
        numbers = (self._base.with_id(message_id) - self._gone) | self._put.with_id(message_id)
        return self.get(min(numbers)) if numbers else None

    def relating(self, message_id: str) -> M | None:
        """The first that relates to the id."""
        numbers = (self._base.relating(message_id) - self._gone) | self._put.relating(message_id)
        return self.get(min(numbers)) if numbers else None

    def put(self, message: M) -> None:
        if self._base.get(message.number) is not None:
            self._gone.add(message.number)
        self._put.put(message)

    def remove(self, number: int) -> None:
        if self._base.get(number) is not None:
            self._gone.add(number)
        self._put.remove(number)

    def clear(self) -> None:
        self._gone.update(self._base.numbers(0))
        self._put = Shelf()

    def commit(self) -> Shelf[M]:
        """Change the base; it is what comes back."""
        for number in self._gone:
            self._base.remove(number)
        for number in self._put.numbers(0):
            message = self._put.get(number)
            if message is not None:
                self._base.put(message)
        return self._base
