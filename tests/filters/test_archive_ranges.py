"""Ranges of an archive, slice by slice."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path, PurePath
from random import Random

import pytest

from filters import Step, parse_clark
from filters.archive import JSON_LINES, PARQUET, FileWriter, Row, directory
from filters.archive_positions import Position, parse_position
from filters.archive_ranges import WHOLE, ArchiveReader, share_of

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture(params=[PARQUET, JSON_LINES])
def suffix(request: pytest.FixtureRequest) -> str:
    if request.param == PARQUET:
        pytest.importorskip("pyarrow")
    return str(request.param)


def row(seconds: float, id_: str = "", topic: str = "storms") -> Row:
    time = NOON + timedelta(seconds=seconds)
    return Row(id_ or f"urn:{seconds}", time, "<a/>", topic)


def write(archive: Path, name: str, rows: list[Row], *, hours: bool = True) -> Path:
    scratch = archive / "_unfinished"
    scratch.mkdir(parents=True, exist_ok=True)
    place = directory(parse_clark(rows[0].topic or ""), rows[0].time)
    if not hours:
        place = PurePath(place.parts[0], "root=1a2b3c4d")
    writer = FileWriter(archive, place / name, scratch)
    for one in rows:
        writer.append(one)
    writer.close()
    return archive / place / name


def slices(
    reader: ArchiveReader, after: Position, until: datetime, rows: int = 100
) -> Iterator[list[Row]]:
    done = False
    while not done:
        found = reader.next(after, until, rows=rows)
        assert found.position >= after and len(found.rows) <= rows
        after, done = found.position, found.done
        yield found.rows


def read(archive: Path, since: float = 0, until: float = 86_400, **asked: int) -> list[str]:
    after = Position(NOON + timedelta(seconds=since))
    end = NOON + timedelta(seconds=until)
    found = slices(ArchiveReader(archive), after, end, **asked)
    return [one.id for part in found for one in part]


def test_files_that_overlap_are_one_stream(tmp_path: Path, suffix: str) -> None:
    """Rows of many files, over hours and topics, in any order; each once, whatever the slices."""
    random = Random(5)
    rows = [row(random.randrange(3 * 3600) + number / 1e4) for number in range(500)]
    expected = [one.id for one in sorted(rows, key=lambda one: (one.time, one.id))]
    places: dict[PurePath, list[Row]] = {}
    for one in rows:
        topic = "storms/a" if random.random() < 0.5 else "calms"
        placed = Row(one.id, one.time, one.payload, topic)
        places.setdefault(directory(parse_clark(topic), one.time), []).append(placed)
    for there in places.values():
        for number in range(3):
            if there[number::3]:
                write(tmp_path, f"{number}{suffix}", there[number::3])
    for size in (1000, 100, 7):
        assert read(tmp_path, rows=size) == expected
    middle = [one.id for one in sorted(rows, key=lambda one: one.time)]
    chosen = read(tmp_path, since=3000, until=5000)
    assert chosen == [id_ for id_ in middle if 3000 <= float(id_[4:]) < 5000]


def test_rows_of_one_time_and_rows_that_are_there_twice(tmp_path: Path, suffix: str) -> None:
    same = [row(5, f"urn:{letter}") for letter in "dbca"]
    write(tmp_path, f"1{suffix}", same)
    write(tmp_path, f"2{suffix}", [*same[:2], row(6, "urn:z")])
    expected = ["urn:a", "urn:b", "urn:c", "urn:d", "urn:z"]
    assert read(tmp_path, rows=2) == read(tmp_path) == expected
    reader = ArchiveReader(tmp_path)
    found = reader.next(parse_position("2026-11-21T12:00:05Z/urn:b"), NOON + DAY)
    assert [one.id for one in found.rows] == expected[2:]


def test_bytes_bound_a_slice(tmp_path: Path) -> None:
    write(tmp_path, f"1{JSON_LINES}", [row(number) for number in range(20)])
    found = ArchiveReader(tmp_path).next(Position(NOON), NOON + DAY, octets=2000)
    assert 1 <= len(found.rows) < 5 and not found.done
    found = ArchiveReader(tmp_path).next(Position(NOON), NOON + DAY, octets=1)
    assert len(found.rows) == 1


def test_folders_that_are_passed_over(tmp_path: Path) -> None:
    """Of topic roots that nobody wants, but for archives that name them in another way."""
    write(tmp_path, f"1{JSON_LINES}", [row(1)])
    write(tmp_path, f"1{JSON_LINES}", [row(2, topic="calms")])
    write(tmp_path, f"2{JSON_LINES}", [row(86_401)], hours=False)
    reader = ArchiveReader(tmp_path, frozenset({Step(None, "calms")}))
    found = [one.id for part in slices(reader, Position(NOON), NOON + 2 * DAY) for one in part]
    assert found == ["urn:2", "urn:86401"]


def test_damaged_files_are_named_and_read_as_far_as_they_can_be(tmp_path: Path) -> None:
    path = write(tmp_path, f"1{JSON_LINES}", [row(1)])
    path.write_bytes(path.read_bytes() + b"rubbish")
    write(tmp_path, f"2{JSON_LINES}", [row(2)])
    (path.parent / f"3{JSON_LINES}").write_bytes(b"rubbish")
    (path.parent / "notes.txt").write_bytes(b"rubbish")
    reader = ArchiveReader(tmp_path)
    found = reader.next(Position(NOON), NOON + DAY)
    assert [one.id for one in found.rows] == ["urn:1", "urn:2"]
    assert [name.rpartition("/")[2] for name in reader.damaged] == ["1.jsonl.gz", "3.jsonl.gz"]


def test_nothing_is_there(tmp_path: Path) -> None:
    found = ArchiveReader(tmp_path).next(Position(NOON), NOON + DAY)
    assert (found.rows, found.position, found.done) == ([], Position(NOON + DAY), True)


def test_positions() -> None:
    for position in (Position(NOON), Position(NOON + timedelta(microseconds=7), "urn:a/b")):
        assert parse_position(str(position)) == position
    assert str(Position(NOON)) == "2026-11-21T12:00:00.000000Z"
    for text in ("", "noon", "2026-11-21T12:00:00", "urn:a/b"):
        with pytest.raises(ValueError, match=r"."):
            parse_position(text)


def test_however_many_read_slices_take_no_more_memory() -> None:
    alone = share_of(1)
    assert alone == share_of(WHOLE)
    for readers in (WHOLE, 10, 100):
        for one, all_ in zip(share_of(readers), alone, strict=True):
            assert 0 < one * readers <= all_ * WHOLE
