"""Decides about many things, one after the other, within a time.

Between things, whoever asks has turns in which to stop: where `decided` returns None.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, islice
from time import monotonic
from typing import TypeAlias, TypeVar

from filters.queries.budget import SecondsLeft
from filters.queries.query import Query
from filters.queries.regular import RegularQuery
from filters.queries.timeline import Chunk, Row
from filters.queries.trees import TreeQuery
from filters.queries.words import WordQuery
from filters.queries.xquery import XQuery

Key = TypeVar("Key")
Decided: TypeAlias = tuple[Row[Key], bool | None] | None
"""A thing and whether a query is true of it, None where that costs too much; or a turn."""

BATCH = 32
"""Things that XQuery decides about in one request; and things between two looks at the clock."""
LEAST, FIRST, MOST = 1024, 4096, 65536
"""Bytes of text that are searched in one go, if no thing has more: at least, at first, at most. The
worst regular expressions take 5 ms for a kilobyte, most take less for 64."""
LONG = 0.004
"""Seconds of one go after which the next ones are shorter."""


class TimeIsOver(Exception):
    """No seconds are left."""


class Clock:
    """Looks at the time, at each check or at some ticks."""

    __slots__ = ("_ticks", "left")

    def __init__(self, left: SecondsLeft) -> None:
        self.left = left
        self._ticks = 0

    def check(self) -> None:
        if self.left() <= 0:
            raise TimeIsOver

    def tick(self) -> None:
        self._ticks += 1
        if self._ticks % BATCH == 0:
            self.check()


def searched(chunk: Chunk[Key], query: Query, clock: Clock) -> Iterator[list[Row[Key]]]:
    """Return the rows of *chunk* that *query* may be true of, the newest first."""
    match query.compiled:
        case TreeQuery(masks=(mask,)):
            yield [row for row in reversed(chunk.rows) if row.signature & mask == mask]
        case TreeQuery() as tree:
            yield [row for row in reversed(chunk.rows) if tree.may_hold(row.signature)]
        case _:
            yield chunk.rows[::-1]


class Length:
    """The bytes of text that are searched in one go: as many as take some milliseconds. A regular
    expression may need a hundred times as long for a byte as another one."""

    def __init__(self) -> None:
        self.octets = FIRST

    def searched(self, seconds: float) -> None:
        """Note how long the last go took."""
        if seconds > LONG:
            self.octets = max(self.octets // 2, LEAST)
        elif seconds < LONG / 4:
            self.octets = min(self.octets * 2, MOST)


def _matched(
    regular: RegularQuery, rows: list[Row[Key]], length: Length, clock: Clock
) -> Iterator[Decided[Key]]:
    """Return which of *rows* an expression matches, with a turn after each go."""
    if not regular.finds_lines():
        for row in rows:
            clock.check()
            yield row, regular.holds(row.described)
            yield None
        return
    lines = [row.lines() for row in rows]
    ends = list(accumulate(map(len, lines)))
    at = base = 0
    while at < len(rows):
        clock.check()
        after = max(at + 1, bisect_right(ends, base + length.octets))
        began = monotonic()
        for found in _with_lines(regular, b"".join(lines[at:after]), ends, at, base):
            yield rows[found], regular.holds(rows[found].described)
        length.searched(monotonic() - began)
        at, base = after, ends[after - 1]
        yield None


def _with_lines(
    regular: RegularQuery, octets: bytes, ends: list[int], first: int, base: int
) -> Iterator[int]:
    """Return the places of rows in whose texts an expression may match. *octets* are those of the
    rows from the *first* one on, behind *base* octets of others."""
    start = 0
    while start < len(octets):
        at = regular.next_line(octets, start)
        if not 0 <= at < len(octets):
            return
        found = bisect_right(ends, base + at, first)
        yield found
        start = ends[found] - base


def decided(query: Query, parts: Iterator[list[Row[Key]]], clock: Clock) -> Iterator[Decided[Key]]:
    """Return whether *query* is true of each thing in *parts*, with turns between them; it is false
    of those that are left out."""
    if isinstance(query.compiled, XQuery):
        yield from _decided_together(query.compiled, parts, clock)
        return
    length = Length()
    for rows in parts:
        match query.compiled:
            case WordQuery() as words:
                for row in rows:
                    clock.tick()
                    yield row, words.has_phrases(row.described)
            case TreeQuery() as tree:
                for row in rows:
                    # A turn after each: the dearest expression that is evaluated takes
                    # `VISITS` steps of libxml2 on one document, some milliseconds.
                    clock.check()
                    yield row, tree.holds(row.described.documents, row.size)
                    yield None
            case RegularQuery() as regular:
                yield from _matched(regular, rows, length, clock)
            case _:
                for number, row in enumerate(rows):
                    clock.check()
                    yield row, query.decide(row.described)
                    if number % BATCH == BATCH - 1:
                        yield None
        yield None


def _decided_together(
    xquery: XQuery, parts: Iterator[list[Row[Key]]], clock: Clock
) -> Iterator[Decided[Key]]:
    for some in _batches(row for rows in parts for row in rows):
        clock.check()
        verdicts = xquery.decide([row.described.documents for row in some], clock.left())
        yield from zip(some, verdicts, strict=True)
        yield None


def in_parts(rows: list[Row[Key]], most: int) -> Iterator[list[Row[Key]]]:
    """Return *rows* in parts of at most so many."""
    for first in range(0, len(rows), most):
        yield rows[first : first + most]


def _batches(rows: Iterable[Row[Key]]) -> Iterator[list[Row[Key]]]:
    rows = iter(rows)
    while batch := list(islice(rows, BATCH)):
        yield batch
