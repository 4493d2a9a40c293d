"""Things in the order of their creation, in chunks that are searched one after the other."""

from bisect import bisect_left
from collections.abc import Iterator
from datetime import datetime
from typing import Generic, TypeVar

from filters.matching.fallback.cost import DocumentSize
from filters.queries.descriptions import Described
from filters.queries.regular import as_lines

Key = TypeVar("Key")

LARGEST = 512
"""Things of a chunk."""


class Row(Generic[Key]):
    """A thing: its place in the order (when it was created, and a number, which grows), its key,
    what is said of it, its weight in bytes, and signature and size of its documents."""

    __slots__ = (
        "_lines",
        "at",
        "described",
        "key",
        "number",
        "signature",
        "size",
        "weight",
    )

    def __init__(
        self,
        number: int,
        key: Key,
        described: Described,
        weight: int,
        signature: int,
        size: DocumentSize | None,
    ) -> None:
        self.at: tuple[datetime, int] = (described.created, number)
        self.number = number
        self.key = key
        self.described = described
        self.weight = weight
        self.signature = signature
        self.size = size
        self._lines: bytes | None = None

    def lines(self) -> bytes:
        """Return the texts that a regular expression is tried with; kept once they were made."""
        if self._lines is None:
            self._lines = as_lines(tuple(self.described.searched_texts()))
        return self._lines


class Chunk(Generic[Key]):
    """Rows in order."""

    __slots__ = ("places", "rows")

    def __init__(self, rows: list[Row[Key]]) -> None:
        self.rows = rows
        self.places = [row.at for row in rows]

    def add(self, row: Row[Key]) -> None:
        at = bisect_left(self.places, row.at)
        self.places.insert(at, row.at)
        self.rows.insert(at, row)

    def remove(self, row: Row[Key]) -> None:
        at = bisect_left(self.places, row.at)
        del self.places[at], self.rows[at]


class Timeline(Generic[Key]):
    """All rows, in chunks."""

    def __init__(self) -> None:
        self._chunks: list[Chunk[Key]] = []
        self._lasts: list[tuple[datetime, int]] = []
        """The place of the last row of each chunk."""

    def add(self, row: Row[Key]) -> None:
        if not self._chunks:
            self._chunks.append(Chunk([row]))
            self._lasts.append(row.at)
            return
        at = min(bisect_left(self._lasts, row.at), len(self._chunks) - 1)
        chunk = self._chunks[at]
        if at == len(self._chunks) - 1 and len(chunk.rows) >= LARGEST and row.at > self._lasts[at]:
            # In order, as most come: the chunk stays as it is.
            self._chunks.append(Chunk([row]))
            self._lasts.append(row.at)
            return
        chunk.add(row)
        if len(chunk.rows) > LARGEST:
            half = len(chunk.rows) // 2
            parts = [Chunk(chunk.rows[:half]), Chunk(chunk.rows[half:])]
            self._chunks[at : at + 1] = parts
            self._lasts[at : at + 1] = [part.places[-1] for part in parts]
        else:
            self._lasts[at] = chunk.places[-1]

    def remove(self, row: Row[Key]) -> None:
        at = bisect_left(self._lasts, row.at)
        chunk = self._chunks[at]
        chunk.remove(row)
        if chunk.rows:
            self._lasts[at] = chunk.places[-1]
        else:
            del self._chunks[at], self._lasts[at]

    def newest_first(self) -> Iterator[Chunk[Key]]:
        """Return the chunks, the newest first; their rows are in order, the oldest first."""
        return reversed(self._chunks)
