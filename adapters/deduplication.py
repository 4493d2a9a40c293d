"""The message ids that publishers used lately, in the journal's database.

A publisher's ids lie in *generations* of about 20,000 ids or three minutes. The newest grows; an
older one is a sorted array of 64-bit hashes, eight octets an id; one that is no longer needed is
forgotten whole. On disk a generation is a row for each commit that added to it, so a commit adds
to the end of a table whatever the ids look like: a tree ordered by random ids cost 4 KiB of
writing for each message (measured: 22,000 messages a second instead of 80,000).

That two of a publisher's ids have one hash happens once in 10**14 messages.
"""

import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from mediation import Notification

SCHEMA = (
    "CREATE TABLE generation"
    " (number INTEGER PRIMARY KEY, source TEXT NOT NULL, started REAL NOT NULL)",
    "CREATE TABLE used"
    " (generation INTEGER, position INTEGER, ids BLOB NOT NULL, PRIMARY KEY (generation, position))"
    " WITHOUT ROWID",
)

Change = tuple[str, int | str | None, int | str | bytes | None, float | bytes | str | None]
"""One row to be written: what it is, and up to three values."""

GENERATION = "generation"
USED = "used"
FORGOTTEN = "forgotten"

TRIGGERS = {
    GENERATION: "INSERT INTO generation VALUES (new.a, new.b, new.c);",
    USED: "INSERT INTO used VALUES (new.a, new.b, new.c);",
    FORGOTTEN: "DELETE FROM used WHERE generation = new.a;"
    " DELETE FROM generation WHERE number = new.a;",
}
"""What each kind of change does."""

FULL = 5
"""Full generations of a publisher that are kept, beside the one that grows."""


@dataclass(frozen=True, slots=True)
class RepeatLimits:
    """How long and how many ids are remembered, at least; and how many in all, at most."""

    seconds: float = 600.0
    ids: int = 100_000
    total: int = 1_000_000
    generations: int = 20_000


def hash_id(source: str, id: str) -> int:
    """What is kept of one id of one publisher."""
    digest = blake2b(f"{source}\0{id}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest)


_ALL = b"\xff"


@dataclass(slots=True, eq=False)
class _Generation:
    """``sieve``: bits, some of which are those of ids that are here; all while it grows. It spares
    searching five generations for what is in none (3.2 us an id)."""

    number: int
    source: str
    started: float
    growing: set[int] = field(default_factory=set)
    done: "array[int]" = field(default_factory=lambda: array("Q"))
    sieve: bytes = _ALL
    mask: int = 0
    """What selects the octet of an id in the sieve."""

    def __len__(self) -> int:
        return len(self.growing) + len(self.done)

    def __contains__(self, id: int) -> bool:
        if id in self.growing:
            return True
        place = bisect_left(self.done, id)
        return place < len(self.done) and self.done[place] == id

    def finish(self) -> None:
        """Nothing is added any more: take less room."""
        self.done = array("Q", sorted(self.growing))
        self.growing = set()
        sieve = bytearray(1 << len(self.done).bit_length())
        self.mask = len(sieve) - 1
        for id in self.done:
            sieve[id >> 3 & self.mask] |= 1 << (id & 7)
        self.sieve = bytes(sieve)


class Repeats:
    """Which ids were used. When what `add` returned could not be committed, the caller calls
    `load`."""

    def __init__(self, limits: RepeatLimits | None = None) -> None:
        self._limits = limits or RepeatLimits()
        self._size = max(1, self._limits.ids // FULL)
        self._span = self._limits.seconds * 0.3
        self._generations: dict[int, _Generation] = {}
        self._by_source: dict[str, list[_Generation]] = {}
        self._next = 1
        self._total = 0

    def load(self, connection: sqlite3.Connection) -> None:
        """Read what is committed."""
        self._generations.clear()
        self._by_source.clear()
        self._total = 0
        rows = connection.execute("SELECT number, source, started FROM generation ORDER BY number")
        for number, source, started in rows.fetchall():
            generation = self._begin(number, source, started)
            ids = array("Q")
            for (blob,) in connection.execute(
                "SELECT ids FROM used WHERE generation = ?", (number,)
            ):
                ids.frombytes(blob)
            generation.growing.update(ids)
            self._total += len(generation)
        self._next = max(self._generations, default=0) + 1

    def know(self, source: str, id: int) -> bool:
        """Whether *source* used *id* lately."""
        octet, bit = id >> 3, 1 << (id & 7)
        for generation in self._by_source.get(source, ()):
            if generation.sieve[octet & generation.mask] & bit and id in generation:
                return True
        return False

    def unknown(self, notifications: Sequence[Notification]) -> dict[tuple[str, int], Notification]:
        """Those of *notifications* whose ids are not known, the first of each id, by publisher and
        hash."""
        found: dict[tuple[str, int], Notification] = {}
        for each in notifications:
            used = each.source, hash_id(each.source, each.id)
            if not self.know(*used):
                found.setdefault(used, each)
        return found

    def remember(self, used: Collection[tuple[str, int]], now: float) -> None:
        """As `add`, where nothing is written: publishers and hashes, some of which may be known."""
        unwritten: list[Change] = []
        for source, id in used:
            growing = self._growing(source, now, unwritten).growing
            before = len(growing)
            growing.add(id)
            self._total += len(growing) - before
        self._forget(len(used), now, unwritten)

    def add(self, used: Mapping[str, list[int]], now: float) -> list[Change]:
        """Remember ids, by source, and forget what is old. *now* is in seconds since 1970.

        Returns:
            What the caller has to write; before it is committed, none of this is true.
        """
        changes: list[Change] = []
        for source, ids in used.items():
            current = self._growing(source, now, changes)
            changes.append((USED, current.number, len(current), array("Q", ids).tobytes()))
            current.growing.update(ids)
            self._total += len(ids)
        self._forget(len(used), now, changes)
        return changes

    def _forget(self, added: int, now: float, changes: list[Change]) -> None:
        """Forget what is old: a little more than was added, so that no commit has much to
        delete."""
        for _ in range(added + 1):
            oldest = next(iter(self._generations.values()), None)
            if oldest is None or not self._is_needless(oldest, now):
                break
            self._drop(oldest, changes)

    def _growing(self, source: str, now: float, changes: list[Change]) -> _Generation:
        generations = self._by_source.get(source, [])
        if generations:
            newest = generations[-1]
            if len(newest) < self._size and 0 <= now - newest.started < self._span:
                return newest
        fresh = self._begin(self._next, source, now)
        self._next += 1
        changes.append((GENERATION, fresh.number, source, now))
        if len(generations) > FULL + 1:
            self._drop(generations[0], changes)
        return fresh

    def _begin(self, number: int, source: str, started: float) -> _Generation:
        generations = self._by_source.setdefault(source, [])
        if generations:
            generations[-1].finish()
        generation = self._generations[number] = _Generation(number, source, started)
        generations.append(generation)
        return generation

    def _is_needless(self, oldest: _Generation, now: float) -> bool:
        return (
            abs(now - oldest.started) > self._limits.seconds + self._span
            or self._total > self._limits.total
            or len(self._generations) > self._limits.generations
        )

    def _drop(self, generation: _Generation, changes: list[Change]) -> None:
        changes.append((FORGOTTEN, generation.number, None, None))
        del self._generations[generation.number]
        self._total -= len(generation)
        of_source = self._by_source[generation.source]
        of_source.remove(generation)
        if not of_source:
            del self._by_source[generation.source]
