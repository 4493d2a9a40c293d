"""Archives that are made of many small files, anywhere, and read by partition."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from filters.archive import Row, read
from filters.spark.backtest import backtest
from filters.spark.compaction import compact
from filters.spark.definitions import Definitions, make_definition
from filters.spark.paths import is_within
from tests.filters.spark.conftest import START, storm, write

LATER = START + timedelta(days=2)


def ids_of(rows: Any) -> Counter[str]:
    return Counter(row["id"] for row in rows.select("id").collect())


@pytest.mark.parametrize(
    "name", [pytest.param("plain", marks=pytest.mark.nightly), "a b=1 ø {x}[1]%20"]
)
def test_each_row_once_however_often(spark: Any, archive: Path, tmp_path: Path, name: str) -> None:
    """In a folder of any name: files that came later are added, those that are there passed over."""
    target = tmp_path / name
    write(archive, [storm(n) for n in range(8)], "twice.parquet")
    first = compact(spark, str(archive), str(target), now=LATER)
    assert (first.files, first.rows, first.removed, first.left) == (5, 48, 0, 0)
    assert compact(spark, str(archive), str(target), now=LATER).files == 0
    write(archive, [storm(n) for n in range(50, 55)], "w-3-1.parquet")
    assert compact(spark, str(archive), str(target), now=LATER).rows == 5

    files = list(target.rglob("*.parquet"))
    found = [row for path in files for row in read(path)]
    before = {row.id: row for path in archive.rglob("*.*") for row in read(path)}
    assert {row.id: row for row in found} == before and len(found) == len(before)
    result = backtest(
        spark,
        target,
        Definitions((make_definition("a", xpath=None, topic="storms//.", namespaces={}),)),
    )
    assert result.messages == result.rows == 24 and result.files < len(files)


def test_whole_files_go_damaged_ones_stay(spark: Any, archive: Path, tmp_path: Path) -> None:
    damaged = next(archive.rglob("w-2-2.jsonl.gz"))
    damaged.write_bytes(damaged.read_bytes()[:-12])
    write(archive, [Row("now", LATER, "<a/>")], "w-9-9.parquet")
    target = str(tmp_path / "target")
    done = compact(spark, str(archive), target, now=LATER)
    [(name, rows, _)] = done.damage
    assert (Path(name), done.rows, done.left) == (damaged, 29 + rows, 1)
    assert compact(spark, str(archive), target, remove=True, now=LATER).removed == 3
    assert sorted(path.name for path in archive.rglob("w-*")) == ["w-2-2.jsonl.gz", "w-9-9.parquet"]
    assert max(ids_of(spark.read.parquet(target)).values()) == 1


def test_tables_that_are_no_archive_are_told_each_time(spark: Any, tmp_path: Path) -> None:
    table, target = tmp_path / "events", tmp_path / "target"
    spark.createDataFrame([("<a/>", 1)], "payload string, id int").write.parquet(str(table))
    for _ in range(2):
        done = compact(spark, str(table), str(target), now=LATER)
        assert (done.is_unreadable, done.rows, done.files) == (True, 0, len(done.damage))
        assert "`dragoman archive import` makes an archive of such files" in done.damage[0][2]
        assert not target.exists()


NAMES = [
    pytest.param("a", "a", True, id="itself"),
    pytest.param("b/../a/", "a", True, id="itself by another name"),
    pytest.param("link", "a", True, id="itself by a link"),
    pytest.param("a/b", "a", True, id="in it"),
    pytest.param("ab", "a", False, id="beside it"),
    pytest.param("a", "a/b", False, id="around it"),
    pytest.param("file:{here}/a", "a", True, id="file:"),
    pytest.param("s3a://a/b", "s3a://a/b/", True, id="URL"),
    pytest.param("s3a://a/bc", "s3a://a/b", False, id="URL beside it"),
    pytest.param("s3a://a/b", "a/b", False, id="elsewhere"),
]


@pytest.mark.parametrize(("place", "folder", "is_in"), NAMES)
def test_names_of_the_same_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, folder: str, is_in: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to("a")
    assert is_within(place.format(here=tmp_path), folder) is is_in


def test_spark_passes_over_what_is_not_asked_for(spark: Any, archive: Path) -> None:
    """By topic, day and hour, as the physical plan says, and as the files that it reads."""
    write(archive, [storm(n, "{urn:t}tides") for n in range(60, 63)], "w-4-1.parquet")
    for path in archive.rglob("*.jsonl.gz"):
        path.unlink()
    rows = spark.read.parquet(str(archive))
    assert {"day", "hour", "root"} <= set(rows.columns)
    asked = rows.where("root = '{urn:t}tides' AND day = '2026-11-21' AND hour = 8")
    plan = asked._jdf.queryExecution().executedPlan().toString()
    filters = plan.partition("PartitionFilters: [")[2].partition("]")[0]
    assert all(name in filters for name in ("root#", "day#", "hour#")), plan
    assert [row["id"] for row in asked.collect()] == ["n-60", "n-61", "n-62"]
    scan = asked._jdf.queryExecution().executedPlan().collectLeaves().head()
    assert scan.metrics().apply("numFiles").value() == 1
