"""A catalogue of many described things, which answers queries.

Words and properties have inverted indexes (`filters.queries.postings`), documents have signatures
(`filters.queries.trees`), texts are searched many at once (`filters.queries.regular`). All of them
only leave things out that a query cannot be true of: the query decides about the others, the newest
first, until there are enough of them or the time is over.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import compress
from operator import attrgetter
from threading import Lock
from typing import Generic, TypeVar

from filters.matching.fallback.cost import DocumentSize
from filters.queries.budget import SecondsLeft, unlimited
from filters.queries.deciding import Clock, Decided, TimeIsOver, decided, in_parts, searched
from filters.queries.descriptions import ANYTHING, Conditions, Described
from filters.queries.postings import Postings, Properties, in_all
from filters.queries.query import Query
from filters.queries.selector_candidates import candidates
from filters.queries.selectors import Selector
from filters.queries.timeline import LARGEST, Chunk, Row, Timeline
from filters.queries.trees import read_summary
from filters.queries.words import WordQuery, words_in
from filters.reasons import FilterError, Reason

Key = TypeVar("Key")

MAX_THINGS = 100_000
MAX_BYTES = 2**30
LIMIT = 100
"""Keys of an answer, where nobody asks for more or fewer."""
MAX_SIZES = 4096
"""Different sizes of documents that are remembered."""
_WORD = 64
"""Bytes that a word takes in the index."""


@dataclass(frozen=True, slots=True)
class Found(Generic[Key]):
    """The answer to a query."""

    keys: tuple[Key, ...]
    """The newest first."""
    more: bool = False
    """There are others: the limit cut them off."""
    complete: bool = True
    """False if the time was over before all were looked at, or a thing costs too much to decide
    about: there may be others."""


class Catalogue(Generic[Key]):
    """Described things by key. Not for several threads at a time, but for searches.

    Args:
        max_things: How many there may be.
        max_bytes: What they and their indexes may take in memory, about; ``weight`` is what is.
    """

    def __init__(self, *, max_things: int = MAX_THINGS, max_bytes: int = MAX_BYTES) -> None:
        self._max_things = max_things
        self.max_bytes = max_bytes
        self.weight = 0
        self._next = 0
        self._numbers: dict[Key, int] = {}
        self._rows: dict[int, Row[Key]] = {}
        self._timeline: Timeline[Key] = Timeline()
        self._words: Postings[str] = Postings()
        self._creators: Postings[str] = Postings()
        self._properties = Properties()
        # Figures of sizes are rounded, so that there are few: one object of each.
        self._sizes: dict[DocumentSize, DocumentSize] = {}
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, key: object) -> bool:
        return key in self._numbers

    def __getitem__(self, key: Key) -> Described:
        return self._rows[self._numbers[key]].described

    def add(self, key: Key, described: Described) -> None:
        """Add what is said of *key*, in place of what may have been said before.

        Raises:
            FilterError: ``QUOTA``: there is no room for it. Nothing has changed then.
        """
        words = words_in(described.described_texts())
        signature, size = read_summary(described.documents)
        weight = described.weight() + _WORD * len(words)
        former = self._numbers.get(key)
        others = len(self._rows) - (former is not None)
        left = self.max_bytes - self.weight
        if former is not None:
            left += self._rows[former].weight
        if others >= self._max_things or weight > left:
            raise FilterError(Reason.QUOTA, "the catalogue is full")
        if size is not None:
            size = self._shared(size)
        row = Row(self._next, key, described, weight, signature, size)
        self._next += 1
        with self._lock:
            if former is not None:
                self._remove(key)
            self._put(row, words)

    def _put(self, row: Row[Key], words: Iterable[str]) -> None:
        number, described = row.number, row.described
        self._numbers[row.key] = number
        self._rows[number] = row
        self.weight += row.weight
        self._timeline.add(row)
        self._creators.add(described.creator, number)
        self._properties.add(described.properties, number)
        for word in words:
            self._words.add(word, number)

    def _shared(self, size: DocumentSize) -> DocumentSize:
        """Return the first size that was equal to *size*, so that there is one object of each."""
        if len(self._sizes) >= MAX_SIZES:
            self._sizes.clear()
        return self._sizes.setdefault(size, size)

    def remove(self, key: Key) -> None:
        """Forget *key*.

        Raises:
            KeyError: It is not here.
        """
        with self._lock:
            self._remove(key)

    def _remove(self, key: Key) -> None:
        number = self._numbers.pop(key)
        row = self._rows.pop(number)
        described = row.described
        self.weight -= row.weight
        self._timeline.remove(row)
        self._creators.remove(described.creator, number)
        self._properties.remove(described.properties, number)
        for word in words_in(described.described_texts()):
            self._words.remove(word, number)

    def find(
        self,
        query: Query,
        *,
        limit: int = LIMIT,
        conditions: Conditions = ANYTHING,
        seconds_left: SecondsLeft = unlimited,
    ) -> Found[Key]:
        """Return the newest *limit* things that *query* is true of, and all *conditions*.

        Raises:
            FilterError: ``UNAVAILABLE``: XQuery cannot be evaluated now.
        """
        search = self.search(query, limit=limit, conditions=conditions, seconds_left=seconds_left)
        search.go_on()
        return search.found

    def search(
        self,
        query: Query,
        *,
        limit: int = LIMIT,
        conditions: Conditions = ANYTHING,
        seconds_left: SecondsLeft = unlimited,
    ) -> "Search[Key]":
        """Begin what `find` does. It can go on in another thread, while things come and go."""
        clock = Clock(seconds_left)
        rows = self._in_turns(self._possible(query, conditions, clock))
        return Search(decided(query, rows, clock), limit)

    def _in_turns(self, parts: Iterator[list[Row[Key]]]) -> Iterator[list[Row[Key]]]:
        """Return *parts*, each found while nobody changes anything."""
        while True:
            with self._lock:
                rows = next(parts, None)
            if rows is None:
                return
            yield rows

    def _possible(
        self, query: Query, conditions: Conditions, clock: Clock
    ) -> Iterator[list[Row[Key]]]:
        """Return the things that *conditions* hold of, and *query* may be true of; the newest
        first. What is returned stays as it is, whatever changes."""
        for rows in self._ordered(query, conditions, clock):
            if conditions != ANYTHING:
                clock.check()
                rows = list(compress(rows, conditions.among([row.described for row in rows])))
            yield rows

    def _ordered(
        self, query: Query, conditions: Conditions, clock: Clock
    ) -> Iterator[list[Row[Key]]]:
        numbers = self._by_index(query, conditions)
        if numbers is None:
            for chunk in self._chunks(conditions, clock):
                yield from searched(chunk, query, clock)
        elif len(numbers) * 16 < len(self._rows):
            rows = [self._rows[number] for number in numbers]
            yield from in_parts(sorted(rows, key=attrgetter("at"), reverse=True), LARGEST)
        else:
            wanted = numbers if isinstance(numbers, set | frozenset) else set(numbers)
            for chunk in self._chunks(conditions, clock):
                yield [row for row in reversed(chunk.rows) if row.number in wanted]

    def _by_index(self, query: Query, conditions: Conditions) -> Collection[int] | None:
        """Return the numbers of the things that *query* may be true of, of words all of which it
        is; None if no index tells."""
        of_creator = None
        if conditions.creator is not None:
            of_creator = self._creators.get(conditions.creator)
        match query.compiled:
            case WordQuery(words):
                postings = [self._words.get(word) for word in words]
                if of_creator is not None:
                    postings.append(of_creator)
                return _collected(in_all(postings))
            case Selector(tree=tree):
                found = candidates(tree, self._properties)
                # Of most things it is quicker to look at one after the other.
                most = len(self._rows) // 2 if of_creator is None else len(of_creator)
                if found is not None and found.number <= most:
                    return _collected(found.find())
        return of_creator

    def _chunks(self, conditions: Conditions, clock: Clock) -> Iterator[Chunk[Key]]:
        """Return the chunks with things created when *conditions* ask for, the newest first."""
        after, before = conditions.created_after, conditions.created_before
        for chunk in list(self._timeline.newest_first()):
            if after is not None and chunk.places[-1][0] <= after:
                return
            if before is None or chunk.places[0][0] < before:
                yield chunk
            clock.check()


class Search(Generic[Key]):
    """A query that is being answered. For one thread at a time."""

    def __init__(self, decided: Iterator[Decided[Key]], limit: int) -> None:
        self._decided = decided
        self._limit = limit
        self._keys: list[Key] = []
        self._more = False
        self._complete = True
        self._is_over = False

    def go_on(self, seconds_left: SecondsLeft = unlimited) -> bool:
        """Go on for at least *seconds_left*, and a little longer; True: everything is found.

        Raises:
            FilterError: ``UNAVAILABLE``: XQuery cannot be evaluated now.
        """
        try:
            for one in () if self._is_over else self._decided:
                if one is None:
                    if seconds_left() <= 0:
                        return False
                elif self._takes(*one):
                    break
        except TimeIsOver:
            self._complete = False
        self._is_over = True
        return True

    def _takes(self, row: Row[Key], verdict: bool | None) -> bool:
        """Take what was decided; True: that is enough."""
        if verdict is None:
            self._complete = False
        elif verdict and len(self._keys) == self._limit:
            self._more = True
        elif verdict:
            self._keys.append(row.key)
        return self._more

    @property
    def found(self) -> Found[Key]:
        """The keys that were found so far."""
        complete = self._complete and self._is_over
        return Found(tuple(self._keys), more=self._more, complete=complete)


def _collected(numbers: Iterable[int]) -> Collection[int]:
    return numbers if isinstance(numbers, Collection) else list(numbers)
