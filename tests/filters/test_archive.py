import gzip
import importlib.util
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path, PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from filters import DEFAULT_TOPIC, Topic, parse_clark
from filters.archive import (
    GROUP,
    JSON_LINES,
    PARQUET,
    SCHEMA,
    DamagedFile,
    FileWriter,
    Row,
    best_suffix,
    directory,
    read,
    recover,
)

NOON = datetime(2026, 11, 21, 12, 30, 0, 123456, tzinfo=UTC)
ROWS = (
    Row("urn:1", NOON, "<a/>"),
    Row(
        "urn:2", NOON + timedelta(seconds=1), "<b xmlns='urn:x'>é\n𝄞</b>", "{urn:x}Plant/Line",
        "urn:x/act", "http://p.example/", {"one": "1", "two": ""},
    ),
)  # fmt: skip
BIG = Row("urn:3", NOON, "<a/>" * 2**16)
GROUP_ROWS = -(-GROUP // BIG.octets())
"""As many of it make a group."""
HAS_PYARROW = importlib.util.find_spec("pyarrow") is not None
SUFFIXES = [
    pytest.param(
        PARQUET,
        marks=pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed: spark"),
    ),
    JSON_LINES,
]


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    (tmp_path / "_unfinished").mkdir()
    return tmp_path


def writer(archive: Path, suffix: str, name: str = "w-1-1") -> FileWriter:
    target = PurePath("day=2026-11-21", "root=12345678", name + suffix)
    return FileWriter(archive, target, archive / "_unfinished")


def files(archive: Path) -> list[Path]:
    return sorted(path for path in archive.rglob("*") if path.is_file())


@pytest.fixture(params=SUFFIXES)
def suffix(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.param


def test_what_is_written_is_read(archive: Path, suffix: str) -> None:
    file = writer(archive, suffix)
    for row in ROWS:
        file.append(row)
    assert files(archive) == []
    octets = file.close()
    path = archive / "day=2026-11-21" / "root=12345678" / f"w-1-1{suffix}"
    assert files(archive) == [path] and path.stat().st_size == octets
    assert tuple(read(path)) == ROWS


def test_groups_are_written_as_they_fill(archive: Path, suffix: str) -> None:
    file = writer(archive, suffix)
    for _ in range(GROUP_ROWS):
        file.append(BIG)
    assert file.buffered == 0 and file.rows == GROUP_ROWS
    assert [path.parent.name for path in files(archive)] == ["_unfinished"]
    file.append(ROWS[1])
    file.close()
    (path,) = files(archive)
    rows = list(read(path))
    assert len(rows) == GROUP_ROWS + 1 and rows[-1] == ROWS[1]


def test_a_discarded_file_leaves_nothing(archive: Path, suffix: str) -> None:
    file = writer(archive, suffix)
    for _ in range(GROUP_ROWS + 1):
        file.append(BIG)
    file.discard()
    assert files(archive) == []


def test_what_utf_8_cannot_say_is_left_out(archive: Path, suffix: str) -> None:
    file = writer(archive, suffix)
    with pytest.raises(ValueError, match="surrogates"):
        file.append(Row("urn:1", NOON, "<a/>", action="\ud800"))
    file.append(ROWS[0])
    file.close()
    assert list(read(files(archive)[0])) == [ROWS[0]]


def test_json_lines_are_what_they_are_said_to_be(archive: Path) -> None:
    file = writer(archive, JSON_LINES)
    file.append(ROWS[1])
    file.close()
    (line,) = gzip.decompress(files(archive)[0].read_bytes()).splitlines()
    assert json.loads(line) == {
        "id": "urn:2",
        "time": "2026-11-21T12:30:01.123456Z",
        "topic": "{urn:x}Plant/Line",
        "action": "urn:x/act",
        "producer": "http://p.example/",
        "properties": {"one": "1", "two": ""},
        "payload": "<b xmlns='urn:x'>é\n𝄞</b>",
        "source": None,
    }
    assert list(json.loads(line)) == list(SCHEMA)


@pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed: spark")
def test_parquet_has_the_schema(archive: Path) -> None:
    from pyarrow import parquet

    file = writer(archive, PARQUET)
    file.append(ROWS[0])
    file.close()
    schema = parquet.read_schema(files(archive)[0])
    assert schema.names == list(SCHEMA)
    assert str(schema.field("time").type) == "timestamp[us, tz=UTC]"
    assert str(schema.field("properties").type).startswith("map<string, string")
    assert {str(schema.field(name).type) for name in SCHEMA if SCHEMA[name] == "string"} == {
        "string"
    }
    assert best_suffix() == PARQUET


@pytest.mark.parametrize(
    ("topic", "time", "day", "hour", "root"),
    [
        (None, NOON, "2026-11-21", "12", "wseTopic"),
        (DEFAULT_TOPIC, NOON, "2026-11-21", "12", "wseTopic"),
        (parse_clark("{urn:x}Plant/Line"), NOON, "2026-11-21", "12", "%7Burn%3Ax}Plant"),
        (parse_clark("{urn:x}Plant/Other"), NOON, "2026-11-21", "12", "%7Burn%3Ax}Plant"),
        (parse_clark("a, ø b=1/x"), NOON, "2026-11-21", "12", "a, ø b%3D1"),
        (
            None,
            datetime(2026, 11, 22, 0, 30, tzinfo=timezone(timedelta(hours=1))),
            "2026-11-21",
            "23",
            "wseTopic",
        ),
    ],
)
def test_directory(topic: Topic | None, time: datetime, day: str, hour: str, root: str) -> None:
    expected = PurePath(f"day={day}", f"hour={hour}", f"root={root}")
    assert directory(topic, time) == expected


def test_a_root_that_is_too_long_for_a_folder(archive: Path) -> None:
    long, other = (parse_clark(f"{{urn:{'x' * 300}}}{name}/child") for name in "ab")
    folder = directory(long, NOON)
    assert re.fullmatch("root=%23[0-9a-f]{32}", folder.name)
    assert folder != directory(other, NOON)


def test_a_comma_in_a_folder_survives_a_crash(archive: Path) -> None:
    target = directory(parse_clark("{urn:a,b}c, d%2C"), NOON) / "w-1-1.jsonl.gz"
    file = FileWriter(archive, target, archive / "_unfinished")
    for number in range(GROUP_ROWS):
        file.append(replace(BIG, id=f"urn:{number}"))
    (path,) = files(archive)
    assert recover(archive, path)
    assert files(archive) == [archive / target]


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TEXT = st.text(st.characters(codec="utf-8"), max_size=30)


ANY_ROW = st.builds(
    Row,
    id=TEXT,
    time=st.timedeltas(timedelta(), timedelta(days=50_000)).map(lambda passed: EPOCH + passed),
    payload=TEXT,
    topic=st.none() | TEXT,
    action=st.none() | TEXT,
    producer=st.none() | TEXT,
    properties=st.dictionaries(TEXT, TEXT, max_size=3),
)


@given(st.lists(ANY_ROW, min_size=1, max_size=5))
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_any_row(tmp_path_factory: pytest.TempPathFactory, suffix: str, rows: list[Row]) -> None:
    archive = tmp_path_factory.mktemp("archive")
    (archive / "_unfinished").mkdir()
    file = writer(archive, suffix)
    for row in rows:
        file.append(row)
    file.close()
    assert list(read(files(archive)[0])) == rows


# What is damaged.


def left(archive: Path, suffix: str) -> Path:
    """A file as kill -9 leaves it: two groups were written, it was not closed."""
    file = writer(archive, suffix)
    for number in range(2 * GROUP_ROWS):
        file.append(replace(BIG, id=f"urn:{number}"))
    (path,) = files(archive)
    return path


def test_json_lines_that_a_crash_left_are_completed(archive: Path) -> None:
    path = left(archive, JSON_LINES)
    assert recover(archive, path)
    (target,) = files(archive)
    assert target == archive / "day=2026-11-21" / "root=12345678" / "w-1-1.jsonl.gz"
    assert [row.id for row in read(target)] == [f"urn:{n}" for n in range(2 * GROUP_ROWS)]


@pytest.mark.parametrize("cut", [1, 9, 500])
def test_a_group_that_is_not_whole_is_cut_off(archive: Path, cut: int) -> None:
    path = left(archive, JSON_LINES)
    path.write_bytes(path.read_bytes()[:-cut])
    assert recover(archive, path)
    assert [row.id for row in read(files(archive)[0])] == [f"urn:{n}" for n in range(GROUP_ROWS)]


def test_of_parquet_without_an_end_nothing_is_kept(archive: Path) -> None:
    path = archive / "_unfinished" / "day=2026-11-21,root=12345678,w-1-1.parquet"
    path.write_bytes(b"PAR1" + bytes(1000))
    assert not recover(archive, path)
    assert files(archive) == []


@pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed: spark")
def test_parquet_that_lacks_its_name_alone_gets_it(archive: Path) -> None:
    file = writer(archive, PARQUET)
    file.append(ROWS[1])
    file.close()
    path = archive / "_unfinished" / "day=2026-11-21,root=12345678,w-1-1.parquet"
    files(archive)[0].rename(path)
    assert recover(archive, path)
    assert list(read(files(archive)[0])) == [ROWS[1]]


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="nothing in Parquet, and in gzip no member"),
        pytest.param(b"not gzip", id="another format"),
        pytest.param(gzip.compress(b"[]\n"), id="no object"),
        pytest.param(gzip.compress(b"{}\n"), id="no columns"),
        pytest.param(gzip.compress(b'{"id":"\n'), id="half a line"),
        pytest.param(gzip.compress(b"\xff\n"), id="not UTF-8"),
        pytest.param(
            gzip.compress(
                b'{"id":1,"time":"2026-11-21T12:30:01Z","topic":null,"action":null,'
                b'"producer":null,"properties":{},"payload":"<a/>"}\n'
            ),
            id="an id that is no text",
        ),
        pytest.param(
            gzip.compress(
                b'{"id":"1","time":"2026-11-21T12:30:01","topic":null,"action":null,'
                b'"producer":null,"properties":{},"payload":"<a/>"}\n'
            ),
            id="a time without Z",
        ),
        pytest.param(
            gzip.compress(
                b'{"id":"1","time":"2026-11-21T12:30:01Z","topic":null,"action":null,'
                b'"producer":null,"properties":{"\\udc00":""},"payload":"<a/>"}\n'
            ),
            id="half of a surrogate pair",
        ),
    ],
)
def test_damage_is_said(tmp_path: Path, suffix: str, content: bytes) -> None:
    path = tmp_path / f"x{suffix}"
    path.write_bytes(content)
    if content == b"" and suffix == JSON_LINES:
        assert list(read(path)) == []
        return
    with pytest.raises(DamagedFile, match="x" + suffix):
        list(read(path))


NOW = datetime(2026, 11, 21, 12, 30, tzinfo=UTC)
FOREIGN = [
    pytest.param({}, None, id="as ours"),
    pytest.param({"more": [1]}, None, id="a column more"),
    pytest.param(
        {"payload": None},
        "x.parquet: no column payload; `dragoman archive import` makes",
        id="a column less",
    ),
    pytest.param({"payload": [5]}, "payload has the type int64, not string", id="another type"),
    pytest.param(
        {"payload": ["<a/>"], "id": [None]}, "id has the type null, not string", id="null"
    ),
    pytest.param(
        {"time": [NOW.replace(tzinfo=None)]}, "not timestamp with a time zone", id="no time zone"
    ),
    pytest.param(
        {"time": ["now"]}, "the column time has the type string, not timestamp", id="no time"
    ),
    pytest.param({"properties": [["a"]]}, "not map<string,string>", id="no map"),
]


@pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed: spark")
@pytest.mark.parametrize(("columns", "said"), FOREIGN)
def test_parquet_that_others_wrote(
    tmp_path: Path, columns: dict[str, list[object] | None], said: str | None
) -> None:
    import pyarrow
    from pyarrow import parquet

    text, pairs = pyarrow.large_string(), pyarrow.map_(pyarrow.string(), pyarrow.string())
    ours = {
        "id": pyarrow.array(["1"], text),
        "time": pyarrow.array([NOW], pyarrow.timestamp("ms", "UTC")),
        **{name: pyarrow.array([None], text) for name in ("topic", "action", "producer")},
        "properties": pyarrow.array([[("a", "b")]], pairs),
        "payload": pyarrow.array(["<a/>"], text),
    }
    made = {name: values for name, values in (ours | columns).items() if values is not None}
    parquet.write_table(pyarrow.table(made), tmp_path / "x.parquet")
    if said is None:
        assert list(read(tmp_path / "x.parquet")) == [Row("1", NOW, "<a/>", properties={"a": "b"})]
        return
    with pytest.raises(DamagedFile) as raised:
        list(read(tmp_path / "x.parquet"))
    assert said in str(raised.value)


@pytest.mark.skipif(not HAS_PYARROW, reason="pyarrow is not installed: spark")
def test_a_null_where_there_is_none(tmp_path: Path) -> None:
    import pyarrow
    from pyarrow import parquet

    archive = tmp_path / "a"
    (archive / "_unfinished").mkdir(parents=True)
    file = writer(archive, PARQUET)
    file.append(ROWS[1])
    file.close()
    table = parquet.read_table(files(archive)[0], partitioning=None)
    none = pyarrow.array([None], pyarrow.string())
    column = table.schema.get_field_index("payload")
    parquet.write_table(table.set_column(column, "payload", none), tmp_path / "x.parquet")
    with pytest.raises(DamagedFile, match="a row without id or time or properties or payload"):
        list(read(tmp_path / "x.parquet"))


def test_rows_before_the_damage_are_read(archive: Path) -> None:
    path = left(archive, JSON_LINES)
    path.write_bytes(path.read_bytes()[:-9])
    rows = read(path)
    assert [next(rows).id for _ in range(GROUP_ROWS)][-1] == f"urn:{GROUP_ROWS - 1}"
    with pytest.raises(DamagedFile):
        list(rows)
