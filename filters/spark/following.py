"""Follows an archive that grows, with the transform of `matching`: Structured Streaming, each match
written once.

The source remembers in the checkpoint which files it has seen, the sink which batches it has
written: together, a message of the archive is in the output exactly once, whatever was killed
when (Spark's Structured Streaming guide, "Fault Tolerance Semantics").
"""

from pathlib import Path
from typing import Any

from filters.spark.definitions import Definitions
from filters.spark.matching import files, matched, notifications, relevant
from filters.spark.paths import absolute

FILES_PER_BATCH = 1000


def follow(
    spark: Any,
    archive: str | Path,
    definitions: Definitions,
    out: str,
    *,
    until_read: bool = False,
    seconds: float = 10,
) -> Any:
    """Start matching the archive as it grows; the running query.

    ``OUT/matches`` has the columns of a backtest's, and a column ``kind`` (``match``; ``file`` is
    the report of a file: its rows, and its damage if it has any). It is to be read with Spark,
    whose log in there says which files count. The checkpoint, ``OUT/checkpoint``, belongs to the
    archive and the filters with which it began.

    Args:
        until_read: End when all files that are there now have been read.
        seconds: How often to look for new files.
    """
    from pyspark.sql import functions as F

    source = spark.readStream.option("maxFilesPerTrigger", FILES_PER_BATCH)
    # Files are renamed into place, maybe long after they were begun: none is too old.
    paths = files(source.option("maxFileAge", "36500d"), absolute(archive))
    rows = matched(notifications(relevant(paths, definitions)), definitions)
    trigger = {"availableNow": True} if until_read else {"processingTime": f"{seconds} seconds"}
    kind = F.when(F.col("id").isNull(), "file").otherwise("match")
    return (
        rows.withColumn("kind", kind)
        .writeStream.format("parquet")
        .partitionBy("kind")
        .option("path", f"{out}/matches")
        .option("checkpointLocation", f"{out}/checkpoint")
        .trigger(**trigger)
        .start()
    )
