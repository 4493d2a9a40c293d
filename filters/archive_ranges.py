"""Reads a range of an archive in the order of time, one slice after the other, in bounded memory.

    day=.../hour=...  --files whose times overlap-->  the first rows behind a position  -->  slice

The files of an hour overlap in time: each topic root and each gateway has its own, and rows are
written when their deliveries are settled, not when they came. So a slice is the smallest rows, by
time and id, of all files that can have them; the next slice reads these files again. Where a reader
is, one `Position` says, which stays true when it is read by another process, later.
"""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from filters.archive import JSON_LINES, PARQUET, DamagedFile, Row, directory, read
from filters.archive_positions import Position
from filters.topics.topics import Step, Topic

SLICE_ROWS, SLICE_OCTETS = 20_000, 16 * 2**20
"""Rows of a slice, and bytes of them, about; twice as much is in memory meanwhile. Each slice reads
whole files, of 50,000 rows at most: small slices read them more often."""
WHOLE = 4
"""Slices of this size that are in memory at a time; where more are, they are smaller."""
SPANS = 20_000
"""Files whose first and last times are remembered; they never change."""
NAMED = 20
"""Damaged files that are named."""


def share_of(readers: int) -> tuple[int, int]:
    """The rows of a slice, and bytes of them, where so many *readers* keep one each."""
    parts = max(WHOLE, readers)
    return SLICE_ROWS * WHOLE // parts, SLICE_OCTETS * WHOLE // parts


@dataclass(frozen=True, slots=True)
class Slice:
    """Rows in the order of time and id, each once, and the position behind them. With *done* the
    range is at its end."""

    rows: list[Row]
    position: Position
    done: bool = False


class ArchiveReader:
    """Reads the archive in *folder*. Its methods take their time: call them in a thread.

    Args:
        roots: The first steps of the topics that are wanted; None: all.

    Attributes:
        damaged: Files that could not be read, or not to their ends, by name: the first `NAMED`.
    """

    def __init__(self, folder: Path, roots: frozenset[Step] | None = None) -> None:
        self._folder = folder
        self._roots = None if roots is None else {_folder_of(root) for root in roots}
        self._spans: OrderedDict[Path, tuple[datetime, datetime] | None] = OrderedDict()
        self.damaged: dict[str, None] = {}

    def next(
        self,
        after: Position,
        until: datetime,
        *,
        rows: int = SLICE_ROWS,
        octets: int = SLICE_OCTETS,
    ) -> Slice:
        """The next rows behind *after* whose time is before *until*: of one hour at most, so that
        a slice may be empty though more come.

        Raises:
            ImportError: A file is Parquet, and pyarrow is not installed.
            OSError: The folder cannot be read.
        """
        for end, folders in _hours(self._folder, after.time, until):
            files = [one for folder in folders for one in self._files(folder)]
            if not files:
                continue
            smallest = self._smallest(files, after, until, _Smallest(rows, octets))
            if smallest.cut:
                found = smallest.rows
                return Slice(found, Position(found[-1].time, found[-1].id))
            behind = max(after, Position(min(end, until)))
            return Slice(smallest.rows, behind, done=behind.time >= until)
        return Slice([], max(after, Position(until)), done=True)

    def _files(self, folder: Path) -> Iterator[Path]:
        """The files below *folder*, of topic roots that are wanted."""
        for path in sorted(folder.iterdir()):
            if path.name.startswith(("_", ".")):
                continue
            if path.is_dir():
                # Archives without folders of hours name roots in another way.
                if self._roots is None or not _is_hour(folder) or path.name in self._roots:
                    yield from self._files(path)
            elif path.name.endswith((PARQUET, JSON_LINES)):
                yield path

    def _smallest(
        self, files: list[Path], after: Position, until: datetime, smallest: "_Smallest"
    ) -> "_Smallest":
        """Give *smallest* the rows of *files* that lie between *after* and *until*."""
        spans = [(span, path) for path in files if (span := self._span(path)) is not None]
        for (first, last), path in sorted(spans):
            if last < after.time or first >= until or smallest.passes(Position(first)):
                continue
            try:
                for row in read(path):
                    if after.time <= row.time < until:  # A place costs more, and most are passed.
                        place = Position(row.time, row.id)
                        if after < place:
                            smallest.add(place, row)
            except (DamagedFile, OSError):
                self._note_damage(path)
        smallest.finish()
        return smallest

    def _span(self, path: Path) -> tuple[datetime, datetime] | None:
        """The first and the last time of the rows of a file; None where it has none."""
        if path not in self._spans:
            while len(self._spans) >= SPANS:
                self._spans.popitem(last=False)
            self._spans[path] = self._read_span(path)
        return self._spans[path]

    def _read_span(self, path: Path) -> tuple[datetime, datetime] | None:
        span = _statistics(path) if path.suffix == PARQUET else None
        if span is not None:
            return span
        try:
            for row in read(path):
                first, last = span or (row.time, row.time)
                span = min(first, row.time), max(last, row.time)
        except (DamagedFile, OSError):
            self._note_damage(path)
        return span

    def _note_damage(self, path: Path) -> None:
        if len(self.damaged) < NAMED:
            self.damaged[str(path.relative_to(self._folder))] = None


class _Smallest:
    """Keeps the smallest of many rows by their places: at most so many *rows*, and *octets*.

    Attributes:
        cut: True if there were more.
    """

    def __init__(self, rows: int, octets: int) -> None:
        self._most, self._most_octets = rows, octets
        self._kept: dict[Position, Row] = {}
        self._octets = 0
        self._last: Position | None = None
        self.cut = False

    @property
    def rows(self) -> list[Row]:
        """The rows, in order; true after `finish`."""
        return list(self._kept.values())

    def passes(self, place: Position) -> bool:
        """True if nothing from *place* on is kept any more."""
        return self._last is not None and place > self._last

    def add(self, place: Position, row: Row) -> None:
        if self.passes(place):
            return
        if place not in self._kept:  # A crash may have written a row twice.
            self._kept[place] = row
            self._octets += row.octets()
        if len(self._kept) > 2 * self._most or self._octets > 2 * self._most_octets:
            self._cut()

    def finish(self) -> None:
        """Order what is kept, and cut it to its bounds."""
        self._cut()

    def _cut(self) -> None:
        kept: dict[Position, Row] = {}
        octets = 0
        for place in sorted(self._kept):
            row = self._kept[place]
            octets += row.octets()
            if kept and (len(kept) >= self._most or octets > self._most_octets):
                self.cut = True
                self._last = next(reversed(kept))
                octets -= row.octets()
                break
            kept[place] = row
        self._kept, self._octets = kept, octets


def _folder_of(root: Step) -> str:
    return directory(Topic((root,)), datetime(2000, 1, 1, tzinfo=UTC)).name


def _hours(
    archive: Path, since: datetime, until: datetime
) -> Iterator[tuple[datetime, list[Path]]]:
    """The folders that can have rows from *since* until *until*, each hour's together, with the end
    of that hour; of a day that has folders without hours, all of that day."""
    for day in sorted(archive.glob("day=*")):
        try:
            begin = datetime.combine(
                date.fromisoformat(day.name[4:]), datetime.min.time(), tzinfo=UTC
            )
        except ValueError:
            continue
        if begin >= until or begin + timedelta(days=1) <= since:
            continue
        hours = {path: _hour(path) for path in sorted(day.iterdir()) if path.is_dir()}
        if None in hours.values():
            yield begin + timedelta(days=1), [day]
            continue
        for path, hour in hours.items():
            start = begin + timedelta(hours=hour or 0)
            end = start + timedelta(hours=1)
            if start < until and end > since:
                yield end, [path]


def _is_hour(path: Path) -> bool:
    return _hour(path) is not None


def _hour(path: Path) -> int | None:
    name, _, value = path.name.partition("=")
    known = name == "hour" and len(value) == 2 and value.isascii() and value.isdigit()
    return int(value) if known and int(value) < 24 else None


def _statistics(path: Path) -> tuple[datetime, datetime] | None:
    """The first and last times that the end of a Parquet file says; None where it does not say.

    Raises:
        ImportError: pyarrow is not installed.
    """
    import pyarrow
    from pyarrow import parquet

    try:
        metadata = parquet.read_metadata(path)
        column = metadata.schema.names.index("time")
        # Columns within others count, too: the path, not the place in the schema, is the name.
        groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
        columns = [group.column(column) for group in groups]
    except (pyarrow.ArrowException, OSError, ValueError):
        return None
    known = [one.statistics for one in columns if one.path_in_schema == "time"]
    if len(known) != len(groups) or not all(one is not None and one.has_min_max for one in known):
        return None
    times = [(one.min, one.max) for one in known]
    aware = all(isinstance(one, datetime) and one.tzinfo for pair in times for one in pair)
    if not times or not aware:
        return None
    return min(first for first, _ in times), max(last for _, last in times)
