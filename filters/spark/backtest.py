"""Finds what subscriptions would have received from an archive: counts over time, samples,
matches."""

import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filters.archive import JSON_LINES, PARQUET
from filters.spark.definitions import Definitions
from filters.spark.matching import files, matched, notifications, relevant
from filters.spark.paths import absolute, is_remote, local_path
from filters.spark.session import first_line, hadoop_version

SUFFIXES = (PARQUET, JSON_LINES)
SAMPLES = 3
RESULTS = ("matches", "counts", "report.html")
"""The names of what a backtest writes."""
_NO_FILE_SYSTEM = re.compile(r"Class \S*FileSystem not found|No FileSystem for scheme \S+")
NAMED_DAMAGE = 20
"""Damaged files that a result names; all are counted."""


class BacktestError(Exception):
    """The archive cannot be matched at all; the text says why, in one line."""


@dataclass(frozen=True, slots=True)
class Hour:
    """The counts of one hour (an aware datetime in UTC)."""

    start: datetime
    messages: int
    octets: int


@dataclass(frozen=True, slots=True)
class Total:
    """The counts of one filter; the times are of its first and last message."""

    id: str
    messages: int
    octets: int
    first: datetime | None = None
    last: datetime | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """A notification that matched."""

    id: str
    time: datetime
    topic: str | None
    payload: str
    filters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a backtest. A message that several filters match counts once in *hours*."""

    files: int
    rows: int
    damaged: int
    damage: tuple[tuple[str, int, str], ...]
    """Files that could not be read to their end: name, rows before the damage, what it is."""
    hours: tuple[Hour, ...]
    totals: tuple[Total, ...]
    """The totals of the filters, in the order of the definitions."""
    samples: tuple[Sample, ...]

    @property
    def messages(self) -> int:
        return sum(hour.messages for hour in self.hours)

    @property
    def octets(self) -> int:
        return sum(hour.octets for hour in self.hours)

    @property
    def is_unreadable(self) -> bool:
        """Whether there were files, and nothing of any could be read."""
        return not self.rows and 0 < self.files == self.damaged


def backtest(
    spark: Any, archive: str | Path, definitions: Definitions, *, out: str | None = None
) -> Result:
    """Match the whole archive against *definitions*.

    Args:
        out: Where to write ``matches`` (one row a message that matched, with the filters' ids) and
            ``counts`` (messages and octets by filter and hour) as Parquet; replaced if there.

    Raises:
        BacktestError: Spark fails.
    """
    with translated():
        paths = files(spark.read, absolute(archive))
        found = matched(notifications(relevant(paths, definitions)), definitions).persist()
        try:
            matches = found.where("id is not null")
            counts = counted(matches)
            if out is not None:
                _write(matches.drop("file", "rows", "damage"), f"{out}/matches")
                _write(counts, f"{out}/counts")
            return _result(found, matches, counts, definitions)
        finally:
            found.unpersist()


def require_files(place: str | Path) -> None:
    """Check that there is an archive at all, before Spark is started for it; of what only Spark can
    read, nothing is known yet.

    Raises:
        BacktestError: *place* is not a folder, or has no file of an archive.
    """
    require_folder(place)
    if is_remote(str(place)):
        return
    archive = Path(local_path(str(place)))
    found = (name for _, _, names in os.walk(archive) for name in names if _is_of_archive(name))
    if next(found, None) is None:
        raise BacktestError(f"{archive}: no file of an archive ({', '.join(SUFFIXES)})")


def require_folder(place: str | Path) -> None:
    """Check that *place* is a folder; of what only Spark can read, nothing is known yet.

    Raises:
        BacktestError: It is not.
    """
    if is_remote(str(place)):
        return
    archive = Path(local_path(str(place)))
    if not archive.exists():
        raise BacktestError(f"{archive}: no such folder")
    if not archive.is_dir():
        raise BacktestError(f"{archive}: a file, and not the folder of an archive")


def results_in(folder: str) -> list[str]:
    """Return the names of the results that a backtest has left in *folder*, on this machine."""
    return [name for name in RESULTS if (Path(local_path(folder)) / name).exists()]


def _is_of_archive(name: str) -> bool:
    return name.endswith(SUFFIXES) and not name.startswith(("_", "."))


def counted(matches: Any) -> Any:
    """Messages and octets by filter and hour, with the first and the last time."""
    from pyspark.sql import functions as F

    return (
        matches.select(
            F.explode("filters").alias("filter"),
            F.date_trunc("hour", "time").alias("hour"),
            "time",
            "octets",
        )
        .groupBy("filter", "hour")
        .agg(
            F.count("*").alias("messages"),
            F.sum("octets").alias("octets"),
            F.min("time").alias("first"),
            F.max("time").alias("last"),
        )
    )


def _write(frame: Any, folder: str) -> None:
    frame.write.mode("overwrite").parquet(folder)


def _result(found: Any, matches: Any, counts: Any, definitions: Definitions) -> Result:
    from pyspark.sql import functions as F

    damaged = F.when(F.col("damage").isNotNull(), F.struct("file", "rows", "damage"))
    summary = (
        found.where("id is null")
        .agg(
            F.count("*").alias("files"),
            F.sum("rows").alias("rows"),
            F.count("damage").alias("damaged"),
            F.slice(F.sort_array(F.collect_list(damaged)), 1, NAMED_DAMAGE).alias("damage"),
        )
        .first()
    )
    hours = (
        matches.groupBy(F.date_trunc("hour", "time").alias("hour"))
        .agg(F.count("*").alias("messages"), F.sum("octets").alias("octets"))
        .orderBy("hour")
    )
    totals = counts.groupBy("filter").agg(
        F.sum("messages").alias("messages"),
        F.sum("octets").alias("octets"),
        F.unix_micros(F.min("first")).alias("first"),
        F.unix_micros(F.max("last")).alias("last"),
    )
    by_id = {row["filter"]: row for row in totals.toLocalIterator()}
    samples = (
        matches.withColumn("micros", F.unix_micros("time")).orderBy("time", "id").limit(SAMPLES)
    )
    return Result(
        files=summary["files"],
        rows=summary["rows"] or 0,
        damaged=summary["damaged"],
        damage=tuple((row["file"], row["rows"], row["damage"]) for row in summary["damage"]),
        hours=tuple(
            Hour(_instant(row["micros"]), row["messages"], row["octets"])
            for row in hours.withColumn("micros", F.unix_micros("hour")).collect()
        ),
        totals=tuple(_totals(definitions, by_id)),
        samples=tuple(_samples(samples.collect())),
    )


def _totals(definitions: Definitions, by_id: dict[str, Any]) -> Iterator[Total]:
    for definition in definitions.rows:
        row = by_id.get(definition.id)
        if row is None:
            yield Total(definition.id, 0, 0)
        else:
            times = (_instant(row["first"]), _instant(row["last"]))
            yield Total(definition.id, row["messages"], row["octets"], *times)


def _samples(rows: Sequence[Any]) -> Iterator[Sample]:
    for row in rows:
        time, ids = _instant(row["micros"]), tuple(row["filters"])
        yield Sample(row["id"], time, row["topic"], row["payload"], ids)


def _instant(micros: int) -> datetime:
    # As a number: pyspark would hand over a naive datetime in the zone of this machine.
    return datetime.fromtimestamp(micros / 1_000_000, UTC)


@contextmanager
def translated() -> Iterator[None]:
    """Let errors of Spark be ours. It need not be installed."""
    try:
        yield
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise BacktestError(f"Spark: {_with_mend(first_line(error))}") from error


def _with_mend(text: str) -> str:
    """*text*, with the option that mends it where Spark lacks a library for a file system."""
    found = _NO_FILE_SYSTEM.search(text)
    if found is None:
        return text
    library = "hadoop-aws" if "s3a" in found[0] else "LIBRARY"
    mend = f"--conf spark.jars.packages=org.apache.hadoop:{library}:{hadoop_version()}"
    return f"{text}; add {mend} (docs/spark.md#hdfs-and-object-stores)"
