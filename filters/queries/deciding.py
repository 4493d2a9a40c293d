"""Decides about many things, one after the other, within a time.

Between things, whoever asks has turns in which to stop: where `decided` returns None.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias, TypeVar

from filters.queries.budget import SecondsLeft
from filters.queries.query import Query
from filters.queries.regular import RegularQuery
from filters.queries.tapes import DOUBTFUL, FALSE, TRUE, Tape
from filters.queries.timeline import Chunk, Row
from filters.queries.trees import TreeQuery
from filters.queries.words import WordQuery
from filters.queries.xquery import XQuery

Key = TypeVar("Key")
Decided: TypeAlias = tuple[Row[Key], bool | None] | None
"""A thing and whether a query is true of it, None where that costs too much; or a turn."""

BATCH = 32
"""Things that XQuery decides about in one request, tapes that are asked at once; and things between
two looks at the clock."""
_DOUBT = bytes((DOUBTFUL,))


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
        case RegularQuery() as regular if regular.finds_lines():
            yield from _with_lines(chunk, regular, clock)
        case _:
            yield chunk.rows[::-1]


def _with_lines(chunk: Chunk[Key], regular: RegularQuery, clock: Clock) -> Iterator[list[Row[Key]]]:
    of_chunk = chunk.rows[:]  # Both may change.
    for lines in chunk.lines():
        clock.check()
        rows: list[Row[Key]] = []
        start, end = 0, len(lines.octets)
        while start < end:
            at = regular.next_line(lines.octets, start)
            if not 0 <= at < end:
                break
            row = bisect_right(lines.ends, at)
            rows.append(of_chunk[lines.first + row])
            start = lines.ends[row]
            clock.tick()
        rows.reverse()
        yield rows


def decided(query: Query, parts: Iterator[list[Row[Key]]], clock: Clock) -> Iterator[Decided[Key]]:
    """Return whether *query* is true of each thing in *parts*, with turns between them; it is false
    of those that are left out."""
    if isinstance(query.compiled, XQuery):
        yield from _decided_together(query.compiled, parts, clock)
        return
    for rows in parts:
        match query.compiled:
            case WordQuery() as words:
                for row in rows:
                    clock.tick()
                    yield row, words.has_phrases(row.described)
            case TreeQuery() as tree:
                for some in in_parts(rows, BATCH):
                    yield from _asked(tree, some, clock)
            case _:
                for row in rows:
                    clock.check()
                    yield row, query.decide(row.described)
        yield None


def _decided_together(
    xquery: XQuery, parts: Iterator[list[Row[Key]]], clock: Clock
) -> Iterator[Decided[Key]]:
    for some in _batches(row for rows in parts for row in rows):
        clock.check()
        verdicts = xquery.decide([row.described.documents for row in some], clock.left())
        yield from zip(some, verdicts, strict=True)
        yield None


def _asked(tree: TreeQuery, rows: list[Row[Key]], clock: Clock) -> Iterator[Decided[Key]]:
    """Return what *tree* is of those of *rows* that their tapes do not say it is false of."""
    at = 0
    while at < len(rows):
        clock.check()
        said = _said(tree, rows[at:])
        if said.count(FALSE) < len(said):
            for row, verdict in zip(rows[at:], said, strict=False):
                if verdict == TRUE:
                    yield row, True
                elif verdict == DOUBTFUL:
                    clock.check()
                    yield row, tree.holds(row.described.documents, row.size)
                    yield None
        at += len(said)
        yield None


def _said(tree: TreeQuery, rows: list[Row[Key]]) -> bytes:
    """Return what the tapes of the first of *rows* say."""
    if tree.asking is None:
        return _DOUBT * len(rows)
    tapes: list[Tape] = []
    for row in rows:
        if row.tape is None:
            break
        tapes.append(row.tape)
    return tree.asking.decide(tapes) if tapes else _DOUBT


def in_parts(rows: list[Row[Key]], most: int) -> Iterator[list[Row[Key]]]:
    """Return *rows* in parts of at most so many."""
    for first in range(0, len(rows), most):
        yield rows[first : first + most]


def _batches(rows: Iterable[Row[Key]]) -> Iterator[list[Row[Key]]]:
    rows = iter(rows)
    while batch := list(islice(rows, BATCH)):
        yield batch
