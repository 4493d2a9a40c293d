"""What subscriptions would have received from an archive: counts over time, samples, matches."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from filters.spark.definitions import Definitions
from filters.spark.matching import files, matched, notifications, relevant
from filters.spark.session import first_line

SAMPLES = 3
NAMED_DAMAGE = 20
"""Damaged files that a result names; all are counted."""


class BacktestError(Exception):
    """The archive cannot be matched at all; the text says why, in one line."""


@dataclass(frozen=True, slots=True)
class Hour:
    """What one hour (an aware datetime in UTC) would have brought."""

    start: datetime
    messages: int
    octets: int


@dataclass(frozen=True, slots=True)
class Total:
    """What one filter would have received; the times are of its first and last message."""

    id: str
    messages: int
    octets: int
    first: datetime | None = None
    last: datetime | None = None


@dataclass(frozen=True, slots=True)
class Sample:
    """One notification that matched."""

    id: str
    time: datetime
    topic: str | None
    payload: str
    filters: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """What a backtest found. A message that several filters match counts once in *hours*."""

    files: int
    rows: int
    damaged: int
    damage: tuple[tuple[str, int, str], ...]
    """Files that could not be read to their end: name, rows before the damage, what it is."""
    hours: tuple[Hour, ...]
    totals: tuple[Total, ...]
    """One a filter, in the order of the definitions."""
    samples: tuple[Sample, ...]

    @property
    def messages(self) -> int:
        return sum(hour.messages for hour in self.hours)

    @property
    def octets(self) -> int:
        return sum(hour.octets for hour in self.hours)


def backtest(
    spark: Any, archive: Path, definitions: Definitions, *, out: str | None = None
) -> Result:
    """Match the whole archive against *definitions*.

    Args:
        out: Where to write ``matches`` (one row a message that matched, with the filters' ids) and
            ``counts`` (messages and octets by filter and hour) as Parquet; replaced if there.

    Raises:
        BacktestError: The archive has no files, or Spark fails.
    """
    with translated():
        paths = files(spark.read, str(archive.absolute()))
        if not paths.limit(1).count():
            raise BacktestError(f"{archive}: no file of an archive (*.parquet, *.jsonl.gz)")
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

    reports = found.where("id is null")
    summary = reports.agg(
        F.count("*").alias("files"), F.sum("rows").alias("rows"), F.count("damage").alias("damaged")
    ).first()
    damage = reports.where("damage is not null").orderBy("file").limit(NAMED_DAMAGE).collect()
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
        damage=tuple((row["file"], row["rows"], row["damage"]) for row in damage),
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
    """Let errors of Spark be ours."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise BacktestError(f"Spark: {first_line(error)}") from error
