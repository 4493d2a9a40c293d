"""Messages in files of others, and an archive made of them: JSON lines, Parquet, XML."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from filters.archive import SCHEMA
from filters.spark.archive_writing import element_text, topic_text, write_archive
from filters.spark.backtest import BacktestError, translated
from filters.spark.corpus import Corpus, CorpusError
from filters.spark.paths import absolute, escape_pattern
from filters.spark.xml_rows import xml_rows
from filters.topics.topics import parse_clark

_GLOBS: Mapping[str, str] = {
    "json": "*.{json,jsonl,jsonl.gz}",
    "parquet": "*.parquet",
    "binaryFile": "*.xml",
}
_JSON = ", ".join(f"{name} {type}" for name, type in SCHEMA.items()) + ", xml string"


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    rows: int
    left_out: int
    """Messages that a gateway would not take: no XML, or over a limit."""


def import_messages(
    spark: Any,
    place: str,
    target: str,
    *,
    topic: str | None = None,
    row_tag: str | None = None,
    namespaces: Mapping[str, str] | None = None,
) -> Imported:
    """Add the messages in the files at *place* to the archive *target*.

    A message without an id gets one, without a time that of its file, without a topic *topic*.

    Args:
        topic: In Clark notation.
        row_tag: As for `messages_in`.

    Raises:
        BacktestError: Spark fails, or there are no messages.
        ValueError: *topic* is not a topic, or *row_tag* no name of an element.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    if topic is not None:
        topic = str(parse_clark(topic))
    with translated():
        rows = messages_in(spark, place, row_tag=row_tag, namespaces=namespaces)
        filled = rows.select(
            F.coalesce("id", F.concat(F.lit("urn:uuid:"), F.uuid())).alias("id"),
            F.coalesce("time", "file_time").alias("time"),
            F.coalesce(topic_text("topic"), F.lit(topic)).alias("topic"),
            "action",
            "producer",
            F.coalesce("properties", F.create_map().cast("map<string,string>")).alias("properties"),
            "payload",
            "source",
        )
        counts = Observation()
        unread = F.count_if(F.col("payload").isNull())
        filled = filled.observe(counts, F.count("payload").alias("rows"), unread.alias("others"))
        write_archive(filled.where("payload is not null"), absolute(target))
        return Imported(counts.get["rows"], counts.get["others"])


def messages_in(
    spark: Any,
    place: str,
    *,
    row_tag: str | None = None,
    namespaces: Mapping[str, str] | None = None,
) -> Any:
    """Return the messages in the files at *place*: the columns of an archive, null where the files
    have no such column or a payload is none that a gateway takes, and ``file_time``.

    JSON lines and Parquet have messages in a column ``payload`` or ``xml``. An XML file is one
    message, or, with *row_tag*, many (`filters.spark.xml_rows`).

    Raises:
        BacktestError: There is no file of messages.
        ValueError: *row_tag* is no name of an element.
    """
    place = absolute(place)
    if row_tag is not None:
        rows = xml_rows(spark.read, place, row_tag, namespaces, with_metadata=True)
        return _as_archive(rows.select("payload", _file_time()))
    found = []
    for format, names in _GLOBS.items():
        reader = spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", names)
        there = reader.format("binaryFile").load(escape_pattern(place)).select("path")
        if there.limit(1).collect():
            found.append(_rows(reader, format, place))
    made = [rows for rows in found if rows is not None]
    if not made:
        kinds = ", ".join(_GLOBS.values())
        raise BacktestError(f"{place}: no messages ({kinds}; a column payload or xml)")
    first, *others = made
    for one in others:
        first = first.unionByName(one)
    return first


def _rows(reader: Any, format: str, place: str) -> Any:
    """The messages of the files of one format; None where they have no column of messages."""
    from pyspark.sql import functions as F

    if format == "json":
        reader = reader.schema(_JSON)
    rows = reader.format(format).load(escape_pattern(place)).select("*", _file_time())
    if format == "binaryFile":
        return _as_archive(rows.select(F.col("content").alias("payload"), "file_time"))
    if format == "json":
        return _as_archive(rows.withColumn("payload", F.coalesce("payload", "xml")))
    if "payload" not in rows.columns and "xml" in rows.columns:
        rows = rows.withColumnRenamed("xml", "payload")
    return _as_archive(rows) if "payload" in rows.columns else None


def _as_archive(rows: Any) -> Any:
    from pyspark.sql import functions as F

    types = dict(rows.dtypes)
    columns = []
    for name, wanted in SCHEMA.items():
        column: Any = F.lit(None)
        if name in types and (wanted.startswith("map") == types[name].startswith("map")):
            column = element_text(name) if name == "payload" else F.col(name)
        columns.append(column.cast(wanted).alias(name))
    return rows.select(*columns, "file_time")


def _file_time() -> Any:
    from pyspark.sql import functions as F

    return F.col("_metadata.file_modification_time").alias("file_time")


def sample_rows(
    spark: Any,
    places: Sequence[str],
    row_tag: str,
    most: int,
    namespaces: Mapping[str, str] | None = None,
) -> Corpus:
    """Read at most *most* elements called *row_tag*, evenly from all of the XML files at *places*.

    Raises:
        BacktestError: Spark fails.
        CorpusError: There is no element that a gateway takes.
        ValueError: *row_tag* is no name of an element.
    """
    from pyspark.sql import functions as F

    with translated():
        found = [xml_rows(spark.read, place, row_tag, namespaces) for place in places]
        rows = reduce(lambda one, other: one.union(other), found)
        every = max(1, -(-rows.count() // most))
        number = F.monotonically_increasing_id()
        chosen = rows.where(number % every == 0).select(element_text("payload").alias("text"))
        texts = [row["text"] for row in chosen.toLocalIterator()]
    kept = tuple(text.encode() for text in texts if text is not None)
    if not kept:
        raise CorpusError(f"{', '.join(places)}: none of {len(texts):,} {row_tag} can be used")
    return Corpus(kept, len(texts) - len(kept))
