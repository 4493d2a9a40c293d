"""Writes archives with Spark, on any of its file systems, laid out as a gateway's own: ``day``,
``hour`` and ``root`` are partitions."""

from collections.abc import Sequence
from typing import Any

from lxml import etree

from filters.archive import SCHEMA, root_name
from filters.charsets import in_utf_8
from filters.documents import parse_document
from filters.reasons import FilterError
from filters.spark.functions import arrow_function
from filters.spark.paths import child, hadoop_path
from filters.topics.topics import parse_clark

FILE_ROWS = 100_000
"""Rows of a file, at most: a worker reads a file as a whole where only Spark can."""
PARTITIONS = ("day", "hour", "root")
_SUCCESS = "_SUCCESS"


def write_archive(rows: Any, target: str) -> None:
    """Add *rows*, with the columns of `filters.archive.SCHEMA`, to the archive *target*: each id
    of a source once an hour and topic root.

    Args:
        target: An absolute path, or a URL as Hadoop has it.
    """
    from pyspark.sql import functions as F

    placed = (
        rows.select(*SCHEMA)
        .withColumn("day", F.date_format("time", "yyyy-MM-dd"))
        .withColumn("hour", F.date_format("time", "HH"))
        .withColumn("root", arrow_function("root", _roots, "string")("topic"))
    )
    (
        placed.repartition(*PARTITIONS)
        .dropDuplicates([*PARTITIONS, "id", "source"])
        .sortWithinPartitions(*PARTITIONS, "time")
        .write.mode("append")
        .option("compression", "zstd")
        .option("maxRecordsPerFile", FILE_ROWS)
        .partitionBy(*PARTITIONS)
        .parquet(target)
    )


def remove_empty(spark: Any, target: str) -> None:
    """Remove the folder *target* if it has Spark's mark of success alone, which a write without
    rows leaves in a new one. What another job writes there meanwhile stays."""
    path, system = hadoop_path(spark, target)
    if not system.exists(path):
        return
    names = [one.getPath().getName() for one in system.listStatus(path)]
    if names == [_SUCCESS]:
        mark, _ = hadoop_path(spark, child(target, _SUCCESS))
        system.delete(mark, False)
        system.delete(path, False)


def element_text(payload: Any) -> Any:
    """Return a column with the one element of each payload, text or bytes, as text; null where a
    gateway would not take it."""
    return arrow_function("one_element", _elements, "string")(payload)


def topic_text(topic: Any) -> Any:
    """Return a column with each topic in Clark notation; null where there is none."""
    return arrow_function("topic", _topics, "string")(topic)


# In the workers.


def _roots(topics: Any) -> Any:
    names: dict[str | None, str] = {}
    return _texts(
        names.get(one) or names.setdefault(one, root_name(parse_clark(one) if one else None))
        for one in topics.to_pylist()
    )


def _topics(topics: Any) -> Any:
    return _texts(map(_topic, topics.to_pylist()))


def _topic(text: str | None) -> str | None:
    try:
        return str(parse_clark(text)) if text else None
    except ValueError:
        return None


def _elements(payloads: Any) -> Any:
    return _texts(map(_element, payloads.to_pylist()))


def _element(payload: str | bytes | None) -> str | None:
    if payload is None:
        return None
    try:
        if isinstance(payload, str):
            document = in_utf_8(payload.encode(), "UTF-8")
        else:
            document = in_utf_8(payload)
        root = parse_document(document)
    except (FilterError, UnicodeEncodeError):
        return None
    return etree.tostring(root, encoding="unicode", with_tail=False)


def _texts(values: Any) -> Any:
    import pyarrow

    found: Sequence[str | None] = list(values)
    return pyarrow.array(found, pyarrow.string())
