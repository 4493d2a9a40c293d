"""Many described things, and the answers to queries about them.

Words and properties have inverted indexes (`filters.queries.postings`), documents have signatures
(`filters.queries.trees`), texts are searched many at once (`filters.queries.regular`). All of them
only leave things out that a query cannot be true of: the query decides about the others, the newest
first, until there are enough of them or the time is over.
"""

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter
from time import monotonic
from typing import Generic, TypeVar

from filters.matching.fallback.cost import DocumentSize
from filters.queries.described import ANYTHING, Conditions, Described
from filters.queries.postings import Postings, Properties, in_all
from filters.queries.query import Query
from filters.queries.regular import RegularQuery
from filters.queries.selector_candidates import candidates
from filters.queries.selectors import Selector
from filters.queries.tapes import DOUBTFUL, TRUE, Tape
from filters.queries.timeline import Chunk, Row, Timeline
from filters.queries.trees import TreeQuery, tell
from filters.queries.words import WordQuery, words_in
from filters.queries.xquery import XQuery
from filters.reasons import FilterError, Reason

Key = TypeVar("Key")
Same = TypeVar("Same", DocumentSize, bytes)

MAX_THINGS = 100_000
MAX_BYTES = 2**30
LIMIT = 100
"""Keys of an answer, where nobody asks for more or fewer."""
BATCH = 32
"""Things that XQuery decides about in one request; and things between two looks at the clock."""
MAX_SIZES = 4096
"""Different sizes of documents that are remembered, and different vocabularies."""
LONGEST_VOCABULARY = 4096
"""Bytes of a vocabulary that is."""
ASKED = 64
"""Tapes that are asked at once."""
_WORD = 64
"""Bytes that a word takes in the index."""

SecondsLeft = Callable[[], float]
"""Says how many seconds are left: from zero on, what was found so far is the answer."""


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


def seconds(number: float) -> SecondsLeft:
    """Return a budget of *number* seconds from now on."""
    end = monotonic() + number
    return lambda: end - monotonic()


def unlimited() -> float:
    """A budget that has no end."""
    return inf


class Catalogue(Generic[Key]):
    """Described things by key. Not for several threads at a time.

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
        self._vocabularies: dict[bytes, bytes] = {}

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
        signature, size, tape = tell(described.documents)
        weight = described.weight() + _WORD * len(words) + sum(map(len, tape or ()))
        former = self._numbers.get(key)
        others = len(self._rows) - (former is not None)
        left = self.max_bytes - self.weight
        if former is not None:
            left += self._rows[former].weight
        if others >= self._max_things or weight > left:
            raise FilterError(Reason.QUOTA, "the catalogue is full")
        if size is not None:
            size = _same(size, self._sizes)
        if tape is not None and len(tape[0]) <= LONGEST_VOCABULARY:
            tape = (_same(tape[0], self._vocabularies), tape[1])
        if former is not None:
            self.remove(key)
        number = self._next
        self._next += 1
        row = Row(number, key, described, weight, signature, size, tape)
        self._numbers[key] = number
        self._rows[number] = row
        self.weight += weight
        self._timeline.add(row)
        self._creators.add(described.creator, number)
        self._properties.add(described.properties, number)
        for word in words:
            self._words.add(word, number)

    def remove(self, key: Key) -> None:
        """Forget *key*.

        Raises:
            KeyError: It is not here.
        """
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
        keys: list[Key] = []
        complete = True
        clock = _Clock(seconds_left)
        try:
            rows = self._possible(query, conditions, clock)
            for row, verdict in _decided(query, rows, clock):
                if verdict is None:
                    complete = False
                elif verdict and len(keys) == limit:
                    return Found(tuple(keys), more=True, complete=complete)
                elif verdict:
                    keys.append(row.key)
        except _TimeIsOver:
            complete = False
        return Found(tuple(keys), complete=complete)

    def _possible(
        self, query: Query, conditions: Conditions, clock: "_Clock"
    ) -> Iterator[Row[Key]]:
        """Return the things that *conditions* hold of, and *query* may be true of; the newest
        first."""
        rows = self._ordered(query, conditions, clock)
        if conditions == ANYTHING:
            yield from rows
            return
        for row in rows:
            if conditions.hold(row.described):
                yield row
            clock.tick()

    def _ordered(self, query: Query, conditions: Conditions, clock: "_Clock") -> Iterator[Row[Key]]:
        numbers = self._by_index(query, conditions)
        if numbers is None:
            for chunk in self._chunks(conditions, clock):
                yield from _searched(chunk, query, clock)
        elif len(numbers) * 16 < len(self._rows):
            rows = [self._rows[number] for number in numbers]
            yield from sorted(rows, key=attrgetter("at"), reverse=True)
        else:
            wanted = numbers if isinstance(numbers, set | frozenset) else set(numbers)
            for chunk in self._chunks(conditions, clock):
                for row in reversed(chunk.rows):
                    if row.number in wanted:
                        yield row

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

    def _chunks(self, conditions: Conditions, clock: "_Clock") -> Iterator[Chunk[Key]]:
        """Return the chunks with things created when *conditions* ask for, the newest first."""
        after, before = conditions.created_after, conditions.created_before
        for chunk in self._timeline.newest_first():
            if after is not None and chunk.places[-1][0] <= after:
                return
            if before is None or chunk.places[0][0] < before:
                yield chunk
            clock.check()


def _searched(chunk: Chunk[Key], query: Query, clock: "_Clock") -> Iterator[Row[Key]]:
    """Return the rows of *chunk* that *query* may be true of, the newest first."""
    match query.compiled:
        case TreeQuery() as tree:
            if len(tree.masks) == 1:
                mask = tree.masks[0]
                return reversed([row for row in chunk.rows if row.signature & mask == mask])
            return reversed([row for row in chunk.rows if tree.may_hold(row.signature)])
        case RegularQuery() as regular if regular.finds_lines():
            return _with_lines(chunk, regular, clock)
        case _:
            return reversed(chunk.rows)


def _with_lines(chunk: Chunk[Key], regular: RegularQuery, clock: "_Clock") -> Iterator[Row[Key]]:
    for lines in chunk.lines():
        clock.check()
        rows: list[Row[Key]] = []
        start, end = 0, len(lines.octets)
        while start < end:
            at = regular.next_line(lines.octets, start)
            if not 0 <= at < end:
                break
            row = bisect_right(lines.ends, at)
            rows.append(chunk.rows[lines.first + row])
            start = lines.ends[row]
            clock.tick()
        yield from reversed(rows)


def _decided(
    query: Query, rows: Iterable[Row[Key]], clock: "_Clock"
) -> Iterator[tuple[Row[Key], bool | None]]:
    """Return whether *query* is true of each of *rows*."""
    match query.compiled:
        case XQuery() as xquery:
            yield from _decided_together(xquery, rows, clock)
        case WordQuery() as words:
            for row in rows:
                clock.tick()
                yield row, words.has_phrases(row.described)
        case TreeQuery() as tree:
            yield from _asked(tree, rows, clock)
        case _:
            for row in rows:
                clock.check()
                yield row, query.decide(row.described)


def _decided_together(
    xquery: XQuery, rows: Iterable[Row[Key]], clock: "_Clock"
) -> Iterator[tuple[Row[Key], bool | None]]:
    for some in _batches(rows):
        clock.check()
        verdicts = xquery.decide([row.described.documents for row in some], clock.left())
        yield from zip(some, verdicts, strict=True)


def _asked(
    tree: TreeQuery, rows: Iterable[Row[Key]], clock: "_Clock"
) -> Iterator[tuple[Row[Key], bool | None]]:
    """Return what *tree* is of each of *rows*: by its tape, or by libxml2."""
    for some in _batches(rows, ASKED):
        verdicts = dict(_told(tree, some, clock))
        for row in some:
            verdict = verdicts.get(row.number, DOUBTFUL)
            if verdict == DOUBTFUL:
                clock.check()
                yield row, tree.holds(row.described.documents, row.size)
            else:
                yield row, verdict == TRUE


def _told(tree: TreeQuery, rows: Sequence[Row[Key]], clock: "_Clock") -> Iterator[tuple[int, int]]:
    """Return what the tapes of *rows* say, by the number of each."""
    if tree.asking is None:
        return
    numbers: list[int] = []
    tapes: list[Tape] = []
    for row in rows:
        if row.tape is not None:
            numbers.append(row.number)
            tapes.append(row.tape)
    while tapes:
        clock.check()
        said = tree.asking.decide(tapes)
        yield from zip(numbers, said, strict=False)
        del numbers[: len(said)], tapes[: len(said)]


def _batches(rows: Iterable[Row[Key]], most: int = BATCH) -> Iterator[list[Row[Key]]]:
    batch: list[Row[Key]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == most:
            yield batch
            batch = []
    if batch:
        yield batch


def _same(one: Same, known: dict[Same, Same]) -> Same:
    """Return the first that was equal to *one*, so that there is one object of each."""
    if len(known) >= MAX_SIZES:
        known.clear()
    return known.setdefault(one, one)


def _collected(numbers: Iterable[int]) -> Collection[int]:
    return numbers if isinstance(numbers, Collection) else list(numbers)


class _TimeIsOver(Exception):
    """No seconds are left."""


class _Clock:
    """Looks at the time, at each check or at some ticks."""

    __slots__ = ("_ticks", "left")

    def __init__(self, left: SecondsLeft) -> None:
        self.left = left
        self._ticks = 0

    def check(self) -> None:
        if self.left() <= 0:
            raise _TimeIsOver

    def tick(self) -> None:
        self._ticks += 1
        if self._ticks % BATCH == 0:
            self.check()
