"""Messages in files of others, and an archive made of them: JSON lines, Parquet, XML."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import Any

from filters.archive import SCHEMA
from filters.spark.archive_writing import element_text, remove_empty, topic_text, write_archive
from filters.spark.backtest import BacktestError, translated
from filters.spark.corpus import Corpus, CorpusError
from filters.spark.paths import absolute, escape_pattern, exists, is_remote, local_path
from filters.spark.xml_rows import xml_rows
from filters.topics.topics import parse_clark

_CORRUPT = "_corrupt_record"
"""The column in which Spark's reader keeps a line of JSON, if any of it could not be read."""
_GLOBS: Mapping[str, str] = {
    "json": "*.{json,jsonl,jsonl.gz}",
    "parquet": "*.parquet",
    "binaryFile": "*.xml",
}
_SUFFIXES = (".json", ".jsonl", ".jsonl.gz", ".parquet", ".xml")
_JSON = (
    ", ".join(f"{name} {type}" for name, type in SCHEMA.items())
    + f", xml string, {_CORRUPT} string"
)


NOT_JSON = "not-json"
NO_PAYLOAD = "no-payload"
NOT_XML = "not-xml"
NOT_A_TOPIC = "not-a-topic"
NOT_A_TIME = "not-a-time"
FAULTS = (NOT_JSON, NO_PAYLOAD, NOT_XML, NOT_A_TOPIC, NOT_A_TIME)
"""The kinds of faults. A message with one of the first three is left out."""

_SHOWN = 60
"""Characters of an example."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with some of the messages of an import."""

    kind: str
    """One of `FAULTS`."""
    count: int
    example: str
    """The file of one of them, and what is wrong there."""


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import."""

    rows: int
    left_out: int
    """Messages that a gateway would not take: no XML, or over a limit."""
    faults: tuple[Fault, ...] = ()
    """Why messages were left out, and which topics and times could not be read."""


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

    A message without an id gets one, without a time that of its file, without a topic *topic*. A
    time or a topic that cannot be read counts as none, and is among the faults.

    Args:
        topic: In Clark notation.
        row_tag: As for `messages_in`.

    Raises:
        BacktestError: Spark fails, or there are no messages, or no element *row_tag*.
        ValueError: *topic* is not a topic, or *row_tag* no name of an element.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    if topic is not None:
        topic = str(parse_clark(topic))
    target = absolute(target)
    with translated():
        rows = _messages(spark, place, row_tag, namespaces)
        read = rows.withColumn("read_topic", topic_text("topic"))
        filled = read.select(
            F.coalesce("id", F.concat(F.lit("urn:uuid:"), F.uuid())).alias("id"),
            F.coalesce("time", "file_time").alias("time"),
            F.coalesce("read_topic", F.lit(topic)).alias("topic"),
            "action",
            "producer",
            F.coalesce("properties", F.create_map().cast("map<string,string>")).alias("properties"),
            "payload",
            "source",
            _faults().alias("faults"),
        )
        counts = Observation()
        filled = filled.observe(
            counts,
            F.count("payload").alias("rows"),
            F.count_if(F.col("payload").isNull()).alias("left_out"),
            *(F.count(F.col("faults")[kind]).alias(f"{kind} count") for kind in FAULTS),
            *(F.min(F.col("faults")[kind]).alias(f"{kind} example") for kind in FAULTS),
        )
        was_there = exists(spark, target)
        with _observed_without_rows(spark):
            write_archive(filled.where("payload is not null"), target)
        seen = counts.get
        if not seen["rows"] and not was_there:
            remove_empty(spark, target)
    if row_tag is not None and not seen["rows"] and not seen["left_out"]:
        raise BacktestError(f"{place}: no element {row_tag}")
    found = ((kind, seen[f"{kind} count"], seen[f"{kind} example"]) for kind in FAULTS)
    faults = tuple(Fault(*one) for one in found if one[1])
    return Imported(seen["rows"], seen["left_out"], faults)


def _faults() -> Any:
    """A struct with a text for each of `FAULTS` that a message has, null for others: the file, and
    what is wrong there."""
    from pyspark.sql import functions as F

    unread = F.col("payload").isNull()
    no_json = F.col("corrupt").isNotNull() & F.get_json_object("corrupt", "$").isNull()
    no_payload = F.col("given_payload").isNull()
    wrong_topic = (F.col("topic") != "") & F.col("read_topic").isNull()
    wrong_time = F.col("time").isNull() & F.col("given_time").isNotNull()
    conditions = {
        NOT_JSON: (unread & no_json, "corrupt"),
        NO_PAYLOAD: (unread & no_payload & ~no_json, "corrupt"),
        NOT_XML: (unread & ~no_payload & ~no_json, "given_payload"),
        NOT_A_TOPIC: (~unread & wrong_topic, "topic"),
        NOT_A_TIME: (~unread & wrong_time, "given_time"),
    }
    return F.struct(
        *(
            F.when(
                fault, F.concat_ws(": ", "file_name", F.left(F.col(shown), F.lit(_SHOWN)))
            ).alias(kind)
            for kind, (fault, shown) in conditions.items()
        )
    )


@contextmanager
def _observed_without_rows(spark: Any) -> Iterator[None]:
    """Let an Observation have its figures where there are no rows. A plan that turns out to yield
    nothing becomes an empty relation, with which it goes, and asking for it fails in Spark 4.3
    ("assertion failed")."""
    setting = "spark.sql.adaptive.optimizer.excludedRules"
    before = spark.conf.get(setting, "")
    rule = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
    spark.conf.set(setting, ",".join(filter(None, (before, rule))))
    try:
        yield
    finally:
        spark.conf.set(setting, before)


def require_messages(place: str, *, row_tag: str | None = None) -> None:
    """Check that there are files to import at all, before Spark is started for them; of what only
    Spark can read, nothing is known yet.

    Raises:
        BacktestError: *place* does not exist, or has no file of messages.
    """
    if is_remote(place):
        return
    path = Path(local_path(place))
    if not path.exists():
        raise BacktestError(f"{place}: no such file or folder")
    names = [path.name]
    if path.is_dir():
        names = [name for _, _, found in os.walk(path) for name in found]
    read = (name for name in names if not name.startswith(("_", ".")))
    if row_tag is None and not any(name.endswith(_SUFFIXES) for name in read):
        raise _no_messages(place)


def _no_messages(place: str) -> BacktestError:
    kinds = ", ".join(_GLOBS.values())
    return BacktestError(f"{place}: no messages ({kinds}; a column payload or xml)")


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
    rows = _messages(spark, place, row_tag, namespaces)
    return rows.select(*SCHEMA, "file_time")


def _messages(
    spark: Any, place: str, row_tag: str | None, namespaces: Mapping[str, str] | None
) -> Any:
    """As `messages_in`, with what the files have: the beginning of ``given_payload`` and
    ``given_time`` as text, the line ``corrupt`` of which not all could be read, ``file_name``."""
    place = absolute(place)
    if row_tag is not None:
        rows = xml_rows(spark.read, place, row_tag, namespaces, with_metadata=True)
        return _as_archive(rows.select("payload", *_file()))
    found = []
    for format, names in _GLOBS.items():
        reader = spark.read.option("recursiveFileLookup", "true").option("pathGlobFilter", names)
        there = reader.format("binaryFile").load(escape_pattern(place)).select("path")
        if there.limit(1).collect():
            found.append(_rows(reader, format, place))
    made = [rows for rows in found if rows is not None]
    if not made:
        raise _no_messages(place)
    return reduce(lambda one, other: one.unionByName(other), made)


def _rows(reader: Any, format: str, place: str) -> Any:
    """The messages of the files of one format; None where they have no column of messages."""
    from pyspark.sql import functions as F

    if format == "json":
        reader = reader.schema(_JSON).option("columnNameOfCorruptRecord", _CORRUPT)
    rows = reader.format(format).load(escape_pattern(place)).select("*", *_file())
    if format == "binaryFile":
        return _as_archive(rows.select(F.col("content").alias("payload"), "file_time", "file_name"))
    if format == "json":
        rows = rows.withColumnRenamed(_CORRUPT, "corrupt")
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
        # What cannot be cast is null, and a fault; a cast would end the job.
        columns.append(column.try_cast(wanted).alias(name))
    corrupt = F.col("corrupt") if "corrupt" in types else F.lit(None).cast("string")
    time = F.get_json_object(corrupt, "$.time")
    if types.get("time", "void") == "string":
        time = F.nullif(F.col("time"), F.lit(""))
    given = F.make_valid_utf8(F.substring("payload", 1, _SHOWN).try_cast("string"))
    return rows.select(
        *columns,
        "file_time",
        "file_name",
        given.alias("given_payload"),
        time.alias("given_time"),
        corrupt.alias("corrupt"),
    )


def _file() -> tuple[Any, Any]:
    from pyspark.sql import functions as F

    return (
        F.col("_metadata.file_modification_time").alias("file_time"),
        F.col("_metadata.file_name").alias("file_name"),
    )


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
