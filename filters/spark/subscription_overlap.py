"""Finds which of the subscriptions that there are a proposed one overlaps, by an archive."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from filters.spark.backtest import translated
from filters.spark.definitions import Definition, Definitions
from filters.spark.matching import files, matched, notifications, relevant
from filters.spark.paths import absolute

PROPOSED = "\tproposed"
"""The id of the proposed filter while it is matched beside others: none that a gateway gives."""


@dataclass(frozen=True, slots=True)
class Overlap:
    """The messages that a proposed filter and one that is there both match."""

    id: str
    common: int
    messages: int
    """The messages that the one that is there matches."""


def overlaps(
    spark: Any, archive: str | Path, proposed: Definition, existing: Definitions
) -> Sequence[Overlap]:
    """Return those of *existing* that match a message of the archive that *proposed* matches, the
    one with the most in common first.

    Raises:
        BacktestError: Spark fails.
    """
    from pyspark.sql import functions as F

    both = replace(existing, rows=(replace(proposed, id=PROPOSED), *existing.rows))
    with translated():
        paths = relevant(files(spark.read, absolute(archive)), both)
        found = matched(notifications(paths), both).where("id is not null")
        shared = F.array_contains("filters", PROPOSED).alias("shared")
        counts = (
            found.select(F.explode("filters").alias("filter"), shared)
            .groupBy("filter")
            .agg(F.count_if("shared").alias("common"), F.count("*").alias("messages"))
            .where(f"common > 0 AND filter <> '{PROPOSED}'")
            .orderBy(F.desc("common"), "messages", "filter")
        )
        return tuple(Overlap(*row) for row in counts.collect())
