"""Archives matched on Spark say what plain Python says, one event after the other."""

import os
import runpy
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from filters.archive import Row, read
from filters.events import Event
from filters.spark.backtest import BacktestError, backtest, require_files
from filters.spark.backtest_report import html
from filters.spark.definitions import Definitions, build, builds, filter_set, make_definition
from filters.spark.following import follow
from filters.spark.paths import local_path
from filters.spark.subscription_overlap import overlaps
from filters.topics import parse_clark
from tests.filters.spark.conftest import check_report, storm, write

FILTERS = Definitions(
    tuple(
        make_definition(id, xpath=xpath, topic=topic, namespaces={})
        for id, xpath, topic in [
            ("fast", "/storm[speed > 12]", None),
            ("coast", None, "storms//."),
            ("both", "/storm[speed mod 2 = 0]", "{urn:t}tides"),
            ("none", "/calm", None),
        ]
    )
)


def plainly(archive: Path, definitions: Definitions) -> dict[str, list[str]]:
    """The ids of filters by message: without Spark."""
    filters = build(definitions)
    return {row.id: sorted(filters.match(event(row))) for row in rows_of(archive)}


def rows_of(archive: Path) -> Iterator[Row]:
    for path in archive.rglob("w-*"):
        yield from read(path)


def event(row: Row) -> Event:
    return Event(row.payload.encode(), topic=parse_clark(row.topic) if row.topic else None)


def test_a_backtest_is_what_plain_matching_says(spark: Any, archive: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = backtest(spark, archive, FILTERS, out=str(out))
    expected = {id: found for id, found in plainly(archive, FILTERS).items() if found}
    totals = Counter(one for found in expected.values() for one in found)
    assert (result.files, result.rows, result.damaged, result.damage) == (4, 40, 0, ())
    assert {one.id: one.messages for one in result.totals} == totals | {"none": 0}
    assert [one.id for one in result.totals] == ["fast", "coast", "both", "none"]
    assert result.messages == len(expected)

    rows = {row.id: row for row in rows_of(archive)}
    hours = Counter(rows[id].time.replace(minute=0) for id in expected)
    assert [(hour.start, hour.messages) for hour in result.hours] == sorted(hours.items())
    assert result.octets == sum(len(rows[id].payload.encode()) for id in expected)
    first = sorted(expected, key=lambda id: rows[id].time)[:3]
    assert [sample.id for sample in result.samples] == first
    for sample in result.samples:
        row = rows[sample.id]
        assert (sample.time, sample.topic, sample.payload) == (row.time, row.topic, row.payload)
        assert sorted(sample.filters) == expected[sample.id]

    written = spark.read.parquet(str(out / "matches")).collect()
    assert {row["id"]: sorted(row["filters"]) for row in written} == expected
    counts = spark.read.parquet(str(out / "counts")).collect()
    assert sum(row["messages"] for row in counts) == totals.total()

    report = html(result, [("archive", str(archive))])
    check_report(report)
    assert "coast" in report


def test_damage_is_named_counted_and_passed_over(spark: Any, archive: Path) -> None:
    parquet = next(archive.rglob("w-1-1.parquet"))
    parquet.write_bytes(parquet.read_bytes()[:-40])
    lines = next(archive.rglob("w-2-2.jsonl.gz"))
    lines.write_bytes(lines.read_bytes()[:-12])
    (archive / "_unfinished" / "w-9-9.parquet").write_bytes(b"no matter")
    result = backtest(spark, archive, FILTERS)
    assert (result.files, result.damaged) == (4, 2)
    named = {Path(file).name: rows for file, rows, _ in result.damage}
    assert named.keys() == {"w-1-1.parquet", "w-2-2.jsonl.gz"}
    assert named["w-1-1.parquet"] == 0
    assert result.rows == 21 + named["w-2-2.jsonl.gz"]
    assert {one.id: one.messages for one in result.totals}["coast"] == 11
    assert "w-1-1.parquet" in html(result, [])


def test_only_the_folders_of_the_topics_are_read(spark: Any, archive: Path) -> None:
    coast = Definitions(FILTERS.rows[1:2])
    result = backtest(spark, archive, coast)
    assert (result.files, result.rows, result.messages) == (2, 19, 19)


@pytest.mark.nightly
def test_a_worker_builds_the_filters_once(spark: Any) -> None:
    """Two jobs of many tasks: as many builds as there are worker processes, not tasks."""
    definitions = Definitions((make_definition("once", xpath="/x", topic=None, namespaces={}),))
    digest = definitions.digest
    shared = spark.sparkContext.broadcast(definitions)

    def count(batches: Iterable[Any]) -> Iterator[Any]:
        import pyarrow

        for _ in batches:
            before = builds()
            filter_set(digest, lambda: shared.value)
            row = {"process": os.getpid(), "built": builds() - before}
            yield pyarrow.RecordBatch.from_pylist([row])

    tasks = spark.range(0, 20, 1, numPartitions=20).mapInArrow(count, "process long, built long")
    seen = tasks.collect() + tasks.collect()
    assert len(seen) == 40
    processes = {row["process"] for row in seen}
    assert os.getpid() not in processes
    assert sum(row["built"] for row in seen) == len(processes) < 20


def test_following_writes_each_match_once(spark: Any, archive: Path, tmp_path: Path) -> None:
    """Over a restart, and with files that appear between and during runs."""
    out = str(tmp_path / "out")

    def run() -> None:
        query = follow(spark, archive, FILTERS, out, until_read=True)
        assert query.awaitTermination(60)

    run()
    run()
    write(archive, [storm(n) for n in range(50, 55)], "w-3-1.parquet")
    write(archive, [storm(n, None) for n in range(70, 75)], "w-0-1.jsonl.gz")
    run()
    rows = spark.read.parquet(f"{out}/matches").collect()
    matches = Counter(row["id"] for row in rows if row["kind"] == "match")
    assert matches == {id: 1 for id, found in plainly(archive, FILTERS).items() if found}
    reports = [(Path(row["file"]).name, row["rows"]) for row in rows if row["kind"] == "file"]
    assert len(reports) == 6 and sum(count for _, count in reports) == 50


@pytest.mark.nightly
def test_which_filters_match_the_same(spark: Any, archive: Path) -> None:
    plain = plainly(archive, FILTERS)
    proposed = make_definition("coast", xpath="/storm[speed < 30]", topic=None, namespaces={})
    own = {id for id in plain if int(id.removeprefix("n-")) < 30}
    expected = {
        (one.id, len(own & ids), len(ids))
        for one in FILTERS.rows
        if own & (ids := {id for id, found in plain.items() if one.id in found})
    }
    found = overlaps(spark, archive, proposed, FILTERS)
    assert {(one.id, one.common, one.messages) for one in found} == expected
    assert [one.common for one in found] == sorted((one.common for one in found), reverse=True)
    assert {one.id for one in found} == {"fast", "coast"}


@pytest.mark.nightly
def test_the_name_of_an_archive_is_no_pattern(spark: Any, tmp_path: Path) -> None:
    """Beside it lies what it would mean, and a name that Hadoop cannot list."""
    names = ("plant[1]", "{a}?*", "a\\b", "x:y %20#")
    for count, name in enumerate(("plant1", "abc", "ab", "out:x #2", *names), start=1):
        (tmp_path / name).mkdir()
        write(tmp_path / name, [storm(n) for n in range(count)], "w-1-1.parquet")
    for count, name in enumerate(names, start=5):
        result = backtest(spark, tmp_path / name, FILTERS)
        assert (result.files, result.rows, result.damage) == (1, count, ()), name
    out = str(tmp_path / "out")
    assert follow(spark, tmp_path / names[0], FILTERS, out, until_read=True).awaitTermination(60)
    reports = spark.read.parquet(f"{out}/matches").where("kind = 'file'").collect()
    assert [row["rows"] for row in reports] == [5]


def test_what_is_no_archive(tmp_path: Path) -> None:
    with pytest.raises(BacktestError, match="no: no such folder"):
        require_files(tmp_path / "no")
    (tmp_path / "file").touch()
    with pytest.raises(BacktestError, match="file: a file, and not the folder of an archive"):
        require_files(tmp_path / "file")
    (tmp_path / "_unfinished.parquet").touch()
    with pytest.raises(BacktestError, match="no file of an archive"):
        require_files(tmp_path)
    write(tmp_path, [storm(1)], "w.jsonl.gz")
    require_files(tmp_path)


def test_a_table_that_is_no_archive(spark: Any, tmp_path: Path) -> None:
    table = str(tmp_path / "events")
    spark.createDataFrame([("<a/>", "x")], "payload string, id string").write.parquet(table)
    result = backtest(spark, table, FILTERS)
    assert result.is_unreadable and result.damaged == result.files
    assert result.damage[0][2] == (
        "no column time; `dragoman archive import` makes an archive of such files"
    )


FILE_SYSTEMS = [
    pytest.param("s3a", r"hadoop\.fs\.s3a\.S3AFileSystem not found", "hadoop-aws", id="s3a"),
    pytest.param("gopher", 'No FileSystem for scheme "gopher"', "LIBRARY", id="another"),
]


@pytest.mark.parametrize(("scheme", "said", "library"), FILE_SYSTEMS)
def test_a_library_that_is_missing_is_named(
    spark: Any, scheme: str, said: str, library: str
) -> None:
    if "hadoop-aws" in spark.conf.get("spark.jars.packages", ""):
        pytest.skip("the library is there")
    option = rf"--conf spark\.jars\.packages=org\.apache\.hadoop:{library}:\d+\.\d+\.\d+"
    mend = rf"{option} \(docs/spark\.md#hdfs-and-object-stores\)$"
    with pytest.raises(BacktestError, match=f"{said}; add {mend}"):
        backtest(spark, f"{scheme}://bucket/archive", FILTERS)


@pytest.mark.parametrize("path", ["file:/a b/c", "file:///a b/c", "/a b/c"])
def test_paths_as_spark_writes_them(path: str) -> None:
    assert local_path(path) == "/a b/c"


@pytest.mark.nightly
def test_the_program_in_the_documentation(
    spark: Any,
    archive: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (Path(__file__).parents[3] / "docs" / "spark.md").read_text(encoding="utf-8")
    program = text.rpartition("```python\n")[2].partition("```")[0]
    (tmp_path / "program.py").write_text(program)
    archive.rename(tmp_path / "archive")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("filters.spark.session.session", lambda _: nullcontext(spark))
    runpy.run_path("program.py")
    assert capsys.readouterr().out == "0 of 19\n"
