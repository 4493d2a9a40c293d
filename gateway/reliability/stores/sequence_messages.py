"""The messages of one sequence in memory: the committed ones, and the changes of a transaction."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from heapq import merge
from itertools import islice
from operator import attrgetter
from typing import Generic, TypeVar

from gateway.reliability.records import InvokerMessage, OutgoingMessage

M = TypeVar("M", InvokerMessage, OutgoingMessage)


class SequenceMessages(Generic[M]):
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

    def copy(self) -> "SequenceMessages[M]":
        other: SequenceMessages[M] = SequenceMessages()
        for number in self._numbers:
            other.put(self._messages[number])
        return other

    def __contains__(self, number: int) -> bool:
        return number in self._messages

    def get(self, number: int) -> M | None:
        return self._messages.get(number)

    def messages(self, first: int, last: int | None = None) -> Iterator[M]:
        """The messages with the numbers from *first* to *last*, by number."""
        return map(self._messages.__getitem__, self.numbers(first, last))

    def numbers(self, first: int, last: int | None = None) -> Iterator[int]:
        """The numbers from *first* to *last*, rising."""
        numbers = self._numbers
        start = bisect_left(numbers, first) if first > 1 else 0
        end = bisect_right(numbers, last) if last is not None else len(numbers)
        return islice(numbers, start, end)

    def with_id(self, message_id: str) -> set[int]:
        return set(self._with_id.get(message_id, ()))

    def relating(self, message_id: str) -> set[int]:
        return set(self._relating.get(message_id, ()))

    def put(self, message: M) -> None:
        number = message.number
        before = self._messages.get(number)
        if before is not None:
            if _ids_of(before) == _ids_of(message):  # It was sent once more: nearly always so.
                self._messages[number] = message
                return
            self.remove(number)
        if not self._numbers or number > self._numbers[-1]:
            self._numbers.append(number)
        else:
            insort(self._numbers, number)
        self._messages[number] = message
        if isinstance(message, OutgoingMessage):
            _add(self._with_id, message.message_id, number)
            if message.relates_to is not None:
                _add(self._relating, message.relates_to, number)

    def remove(self, number: int) -> None:
        message = self._messages.pop(number, None)
        if message is None:
            return
        del self._numbers[bisect_left(self._numbers, number)]
        if isinstance(message, OutgoingMessage):
            _discard(self._with_id, message.message_id, number)
            if message.relates_to is not None:
                _discard(self._relating, message.relates_to, number)


def _ids_of(message: InvokerMessage | OutgoingMessage) -> tuple[str, str | None] | None:
    if isinstance(message, OutgoingMessage):
        return message.message_id, message.relates_to
    return None


def _add(index: dict[str, tuple[int, ...]], key: str, number: int) -> None:
    others = index.get(key)
    index[key] = (number,) if others is None else (*others, number)


def _discard(index: dict[str, tuple[int, ...]], key: str, number: int) -> None:
    numbers = index.pop(key)
    if len(numbers) > 1:
        index[key] = tuple(other for other in numbers if other != number)


class SequenceMessagesDraft(Generic[M]):
    """The messages of a sequence as one transaction sees them: its changes are apart until its
    commit."""

    __slots__ = ("_base", "_gone", "_put")

    def __init__(self, base: SequenceMessages[M] | None) -> None:
        self._base: SequenceMessages[M] = base if base is not None else SequenceMessages()
        self._put: dict[int, M] = {}
        self._gone: set[int] = set()
        """Numbers of the base that were removed, or changed."""

    def copy(self) -> "SequenceMessagesDraft[M]":
        """Another one, with the same changes so far."""
        other = SequenceMessagesDraft(self._base)
        other._put = dict(self._put)
        other._gone = set(self._gone)
        return other

    def __len__(self) -> int:
        return len(self._base) - len(self._gone) + len(self._put)

    def get(self, number: int) -> M | None:
        found = self._put.get(number)
        return found if found is not None or number in self._gone else self._base.get(number)

    def messages(self, first: int = 1, last: int | None = None) -> Iterator[M]:
        """The messages with the numbers from *first* to *last*, by number."""
        base = self._base.messages(first, last)
        if not self._gone and not self._put:
            return base
        left = (message for message in base if message.number not in self._gone)
        if not self._put:
            return left
        own = sorted(
            number for number in self._put if first <= number and (last is None or number <= last)
        )
        return merge(left, (self._put[number] for number in own), key=_number_of)

    def with_id(self, message_id: str) -> M | None:
        """The first that has the id."""
        return self._first(self._base.with_id(message_id), _message_id, message_id)

    def relating(self, message_id: str) -> M | None:
        """The first that relates to the id."""
        return self._first(self._base.relating(message_id), _relates_to, message_id)

    def _first(self, base: set[int], id_of: Callable[[M], str | None], wanted: str) -> M | None:
        numbers = base - self._gone
        numbers.update(number for number, message in self._put.items() if id_of(message) == wanted)
        return self.get(min(numbers)) if numbers else None

    def put(self, message: M) -> None:
        if message.number in self._base:
            self._gone.add(message.number)
        self._put[message.number] = message

    def remove(self, number: int) -> None:
        if number in self._base:
            self._gone.add(number)
        self._put.pop(number, None)

    def clear(self) -> None:
        self._gone.update(self._base.numbers(0))
        self._put = {}

    def commit(self) -> SequenceMessages[M]:
        """Change the base, and return it."""
        base, put = self._base, self._put
        for number in self._gone:
            if number not in put:
                base.remove(number)
        for message in put.values():
            base.put(message)
        return base


_number_of = attrgetter("number")
_message_id = attrgetter("message_id")
_relates_to = attrgetter("relates_to")
