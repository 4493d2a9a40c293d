"""The message ids that publishers used lately, in the journal's database.

A publisher's ids lie in *generations* of about 20,000 ids or three minutes. The newest grows; an
older one is a sorted array of 64-bit hashes, eight bytes an id; one that is no longer needed is
forgotten whole. On disk a generation is a row for each commit that added to it, so a commit appends
to a table, in whatever order the ids come. A tree ordered by random ids would write 4 KiB for each
message (measured: 22,000 messages a second instead of 80,000).

That two of a publisher's ids have one hash happens once in 10**14 messages.
"""

import sqlite3
from array import array
from bisect import bisect_left
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b

from mediation.model.messages import Notification

SCHEMA = (
    "CREATE TABLE generation"
    " (number INTEGER PRIMARY KEY, source TEXT NOT NULL, started REAL NOT NULL)",
    "CREATE TABLE used"
    " (generation INTEGER, position INTEGER, ids BLOB NOT NULL, PRIMARY KEY (generation, position))"
    " WITHOUT ROWID",
)

Change = tuple[str, int | str | None, int | str | bytes | None, float | bytes | str | None]
"""A row to be written: its kind, and up to three values."""

GENERATION = "generation"
USED = "used"
FORGOTTEN = "forgotten"

TRIGGERS = {
    GENERATION: "INSERT INTO generation VALUES (new.a, new.b, new.c);",
    USED: "INSERT INTO used VALUES (new.a, new.b, new.c);",
    FORGOTTEN: "DELETE FROM used WHERE generation = new.a;"
    " DELETE FROM generation WHERE number = new.a;",
}
"""The SQL of each kind of change."""

FULL = 5
"""Full generations of a publisher that are kept, beside the one that grows."""


@dataclass(frozen=True, slots=True)
class RepeatLimits:
    """The least time and number of ids that are remembered for a publisher, and the most in all."""

    seconds: float = 600.0
    ids: int = 100_000
    total: int = 1_000_000
    generations: int = 20_000


def hash_id(source: str, id: str) -> int:
    """Hash one id of one publisher, as it is kept."""
    digest = blake2b(f"{source}\0{id}".encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest)


_ALL = b"\xff"


@dataclass(slots=True, eq=False)
class _Generation:
    """The ids of one generation. ``sieve``: a bit is set if an id with these low bits may be here;
    all are set while the generation grows. It spares searching five generations for an id that is
    in none (3.2 us an id)."""

    number: int
    source: str
    started: float
    growing: set[int] = field(default_factory=set)
    done: "array[int]" = field(default_factory=lambda: array("Q"))
    sieve: bytes = _ALL
    mask: int = 0
    """The mask that selects the byte of an id in the sieve."""

    def __len__(self) -> int:
        return len(self.growing) + len(self.done)

    def __contains__(self, id: int) -> bool:
        if id in self.growing:
            return True
        place = bisect_left(self.done, id)
        return place < len(self.done) and self.done[place] == id

    def finish(self) -> None:
        """Pack the ids: nothing is added any more."""
        self.done = array("Q", sorted(self.growing))
        self.growing = set()
        sieve = bytearray(1 << len(self.done).bit_length())
        self.mask = len(sieve) - 1
        for id in self.done:
            sieve[id >> 3 & self.mask] |= 1 << (id & 7)
        self.sieve = bytes(sieve)


class Repeats:
    """The ids that publishers used lately. If the changes that `add` returned cannot be committed,
    the caller calls `load`."""

    def __init__(self, limits: RepeatLimits | None = None) -> None:
        self._limits = limits or RepeatLimits()
        self._size = max(1, self._limits.ids // FULL)
        self._span = self._limits.seconds * 0.3
        self._generations: dict[int, _Generation] = {}
        self._by_source: dict[str, list[_Generation]] = {}
        self._next = 1
        self._total = 0

    def load(self, connection: sqlite3.Connection) -> None:
        """Read the committed ids."""
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
        """Return True if *source* used *id* lately."""
        octet, bit = id >> 3, 1 << (id & 7)
        for generation in self._by_source.get(source, ()):
            if generation.sieve[octet & generation.mask] & bit and id in generation:
                return True
        return False

    def unknown(self, notifications: Sequence[Notification]) -> dict[tuple[str, int], Notification]:
        """Return the *notifications* whose ids are not known, the first of each id, by publisher
        and hash."""
        found: dict[tuple[str, int], Notification] = {}
        for each in notifications:
            used = each.source, hash_id(each.source, each.id)
            if not self.know(*used):
                found.setdefault(used, each)
        return found

    def remember(self, used: Collection[tuple[str, int]], now: float) -> None:
        """Remember ids as `add` does, but only in memory: publishers and hashes, some of which may
        be known."""
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
            The changes that the caller has to commit; until then nothing is remembered for good.
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
        """Forget old generations: a few more than were added, so that no commit has much to
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
