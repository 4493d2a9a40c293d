"""Compacts an archive: writes the rows of its many small files into few large ones of another.

Another, so that a job that follows the archive as it grows never meets a row again.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from filters.spark.archive_writing import remove_empty, write_archive
from filters.spark.backtest import translated
from filters.spark.matching import files, notifications
from filters.spark.paths import absolute, child, escape_pattern, exists, hadoop_path

NOTES = "_compacted"
"""The folder in an archive with the names of the files whose rows it has; readers skip it."""
DAMAGED = "\tdamaged"
"""Behind the name of a file that could not be read to its end."""


@dataclass(frozen=True, slots=True)
class Compacted:
    """The result of a compaction."""

    files: int = 0
    rows: int = 0
    damage: tuple[tuple[str, int, str], ...] = ()
    """Files that could not be read to their end: name, rows before the damage, what it is."""
    removed: int = 0
    left: int = 0
    """Files of the hour that is not over, which wait for the next time."""

    @property
    def is_unreadable(self) -> bool:
        """Whether there were files, and nothing of any could be read."""
        return not self.rows and 0 < self.files == len(self.damage)


def compact(
    spark: Any, archive: str, target: str, *, remove: bool = False, now: datetime | None = None
) -> Compacted:
    """Write the rows of *archive* to *target*, each once.

    Files of the hour that is not over are left for the next time, and those whose rows *target* has
    are passed over. Killed between writing rows and noting it, the next run writes them again.

    Args:
        archive: A folder, or a URL as Hadoop has it; and so is *target*.
        remove: Remove the files whose rows *target* has; damaged ones stay.

    Raises:
        BacktestError: Spark fails.
    """
    with translated():
        target = absolute(target)
        all_paths = files(spark.read, absolute(archive))
        over = _is_over(now or datetime.now(UTC))
        notes = child(target, NOTES)
        was_there = exists(spark, target)
        known = _read_notes(spark, notes)
        listed = all_paths.select("path", over.alias("over")).toLocalIterator()
        found, left = [], 0
        for row in listed:
            if row["over"]:
                found.append(row["path"])
            else:
                left += 1
        fresh = [path for path in found if _name(path) not in known]
        if not fresh:
            done = Compacted()
        else:
            done = _merge(_among(spark, all_paths, fresh), target)
            if done.is_unreadable:
                # Nothing is noted, so that the next run says the same.
                if not was_there:
                    remove_empty(spark, target)
            else:
                damaged = {_name(file) for file, _, _ in done.damage}
                known |= {_name(path): _name(path) not in damaged for path in fresh}
                _write_notes(spark, notes, {_name(path): known[_name(path)] for path in fresh})
        whole = [path for path in found if known.get(_name(path))]
        removed = _remove(spark, whole) if remove else 0
    return Compacted(done.files, done.rows, done.damage, removed, left)


def _is_over(now: datetime) -> Any:
    """Whether the hour of a path is over, or, in archives without hours, its day."""
    from pyspark.sql import functions as F

    day = F.regexp_extract("path", r"/day=(\d{4}-\d\d-\d\d)/", 1)
    hour = F.regexp_extract("path", r"/hour=(\d\d)/", 1)
    today = f"{now:%Y-%m-%d}"
    return (day < today) | ((day == today) & (hour != "") & (hour < f"{now:%H}"))


def _among(spark: Any, paths: Any, wanted: Sequence[str]) -> Any:
    chosen = spark.createDataFrame([(path,) for path in wanted], "path string")
    return paths.join(chosen, "path", "left_semi")


def _merge(paths: Any, target: str) -> Compacted:
    from pyspark.sql import functions as F

    rows = notifications(paths).persist()
    try:
        write_archive(rows.where("id is not null"), target)
        reports = rows.where("id is null")
        total = reports.agg(F.count("*").alias("files"), F.sum("rows").alias("rows")).first()
        damaged = reports.where("damage is not null").collect()
    finally:
        rows.unpersist()
    damage = tuple((row["file"], row["rows"], row["damage"]) for row in damaged)
    return Compacted(total["files"], total["rows"] or 0, damage)


def _read_notes(spark: Any, notes: str) -> dict[str, bool]:
    """The names of files whose rows were written, and whether each was read to its end."""
    path, system = hadoop_path(spark, notes)
    if not system.exists(path):
        return {}
    lines = (row["value"] for row in spark.read.text(escape_pattern(notes)).toLocalIterator())
    return {line.removesuffix(DAMAGED): not line.endswith(DAMAGED) for line in lines}


def _write_notes(spark: Any, notes: str, names: dict[str, bool]) -> None:
    lines = [(name if whole else name + DAMAGED,) for name, whole in names.items()]
    spark.createDataFrame(lines, "value string").coalesce(1).write.mode("append").text(notes)


def _remove(spark: Any, paths: Collection[str]) -> int:
    found = (hadoop_path(spark, path) for path in paths)
    return sum(bool(system.delete(path, False)) for path, system in found)


def _name(path: str) -> str:
    return path.rpartition("/")[2]
