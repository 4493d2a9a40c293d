"""Inverted indexes: by a key, the numbers of the things that have it.

Numbers only grow, so they are added at the end; most keys have one number, which then stands for
itself.
"""

from array import array
from bisect import bisect_left, insort
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from filters.queries.selector_evaluation import NUMBER, TEXT, kind_of
from filters.queries.selector_syntax import Value

Key = TypeVar("Key", bound=Hashable)

MOST_VALUES = 2000
"""Different texts of one property that a pattern is tried with; beyond, each thing is."""
LONGEST_VALUES = 100_000
"""Characters of all of them together: what is tried without a look at the clock."""


class Postings(Generic[Key]):
    """The numbers by key."""

    __slots__ = ("_held",)

    def __init__(self) -> None:
        self._held: dict[Key, int | array[int]] = {}

    def __len__(self) -> int:
        return len(self._held)

    def __iter__(self) -> Iterator[Key]:
        return iter(self._held)

    def add(self, key: Key, number: int) -> None:
        """Add *number*, which is larger than all that *key* has."""
        held = self._held.get(key)
        if held is None:
            self._held[key] = number
        elif isinstance(held, int):
            self._held[key] = array("Q", (held, number))
        else:
            held.append(number)

    def remove(self, key: Key, number: int) -> None:
        """Remove *number*, which *key* has."""
        held = self._held[key]
        if isinstance(held, int):
            del self._held[key]
            return
        del held[bisect_left(held, number)]
        if len(held) == 1:
            self._held[key] = held[0]

    def get(self, key: Key) -> Sequence[int]:
        """Return the numbers that *key* has, in ascending order."""
        held = self._held.get(key)
        if held is None:
            return ()
        return (held,) if isinstance(held, int) else held


def in_all(postings: Iterable[Sequence[int]]) -> Iterable[int]:
    """Return the numbers that are in all of *postings*, of which there is at least one."""
    first, *others = sorted(postings, key=len)
    found: Iterable[int] = first
    for numbers in others:
        if len(first) * 16 < len(numbers):
            found = [number for number in found if _has(numbers, number)]
        else:
            found = set(found).intersection(numbers)
    return found


def _has(numbers: Sequence[int], number: int) -> bool:
    at = bisect_left(numbers, number)
    return at < len(numbers) and numbers[at] == number


class Property:
    """The values of one property: who has which, and the numbers among them in order."""

    __slots__ = ("_holders", "_ordered", "_values")

    def __init__(self) -> None:
        self._holders: Postings[None] = Postings()
        self._values: Postings[tuple[int, Value]] = Postings()
        self._ordered: list[tuple[int | float, int]] = []

    def add(self, value: Value, number: int) -> None:
        self._holders.add(None, number)
        if value == value:  # What is not a number equals nothing.
            kind = kind_of(value)
            self._values.add((kind, value), number)
            if kind == NUMBER and not isinstance(value, str):
                insort(self._ordered, (value, number))

    def remove(self, value: Value, number: int) -> None:
        self._holders.remove(None, number)
        if value == value:
            kind = kind_of(value)
            self._values.remove((kind, value), number)
            if kind == NUMBER and not isinstance(value, str):
                del self._ordered[bisect_left(self._ordered, (value, number))]

    @property
    def holders(self) -> Sequence[int]:
        return self._holders.get(None)

    def having(self, value: Value) -> Sequence[int]:
        """Return who has *value*."""
        return self._values.get((kind_of(value), value))

    def texts(self) -> Sequence[tuple[str, Sequence[int]]] | None:
        """Return the texts with those who have them; None if there are too many."""
        if len(self._values) > MOST_VALUES:
            return None
        texts = [
            (value, self._values.get((kind, value)))
            for kind, value in self._values
            if kind == TEXT and isinstance(value, str)
        ]
        return texts if sum(len(text) for text, _ in texts) <= LONGEST_VALUES else None

    def between(self, low: float, high: float) -> Sequence[tuple[int | float, int]]:
        """Return the numbers from *low* to *high*, both included, with those who have them."""
        first = bisect_left(self._ordered, (low, -1))
        last = bisect_left(self._ordered, (high, 2**64))
        return _Slice(self._ordered, first, last)


class _Slice(Sequence[tuple[int | float, int]]):
    """A part of a list that is copied only when it is read."""

    def __init__(self, of: list[tuple[int | float, int]], first: int, last: int) -> None:
        self._of, self._first, self._last = of, first, max(first, last)

    def __len__(self) -> int:
        return self._last - self._first

    def __getitem__(self, index: int) -> tuple[int | float, int]:  # type: ignore[override]
        return self._of[self._first : self._last][index]

    def __iter__(self) -> Iterator[tuple[int | float, int]]:
        return iter(self._of[self._first : self._last])


class Properties(Mapping[str, Property]):
    """All properties by name."""

    __slots__ = ("_by_name",)

    def __init__(self) -> None:
        self._by_name: dict[str, Property] = {}

    def add(self, properties: Mapping[str, Value], number: int) -> None:
        for name, value in properties.items():
            found = self._by_name.get(name)
            if found is None:
                found = self._by_name[name] = Property()
            found.add(value, number)

    def remove(self, properties: Mapping[str, Value], number: int) -> None:
        for name, value in properties.items():
            found = self._by_name[name]
            found.remove(value, number)
            if not found.holders:
                del self._by_name[name]

    def __getitem__(self, name: str) -> Property:
        return self._by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def __len__(self) -> int:
        return len(self._by_name)
