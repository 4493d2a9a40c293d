"""The transform: files of an archive into notifications, notifications into those that match.

Both are plain functions from DataFrame to DataFrame, for a job that ends and for one that follows
the archive as it grows. Files are read by `filters.archive` in the workers, because it tells which
file is damaged and keeps what stands before the damage. Where the archive is a folder, it must lie
under the same path on every worker; where it is the URL of another file system, Spark reads it.
"""

import hashlib
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any

from filters.archive import SCHEMA, DamagedFile, directory, read
from filters.events import Event
from filters.spark.arrow import arrow_schema
from filters.spark.definitions import Definitions, Portable, filter_set
from filters.spark.paths import escape_pattern, is_remote, local_path
from filters.topics.topics import DEFAULT_TOPIC, Topic, parse_clark

FILES_SCHEMA = "path string, modificationTime timestamp, length long, content binary"
"""The schema of Spark's ``binaryFile``; content that is not asked for is never read."""

REPORT = "file string, rows long, damage string"
"""The last row of each file has these alone: how many rows it had, and what is wrong with it."""

NOTIFICATIONS = ", ".join(f"{name} {type}" for name, type in SCHEMA.items()) + f", {REPORT}"

MATCHED = (
    "id string, time timestamp, topic string, action string, producer string, payload string,"
    f" octets long, filters array<string>, {REPORT}"
)
"""``filters`` are the ids of the definitions that match: at least one, and null in a report."""

BATCH_ROWS = 1000
BATCH_OCTETS = 8 * 2**20


def files(reader: Any, folder: str) -> Any:
    """The files of the archive in *folder*: path, length, and the content where only Spark can read
    it. *reader* is ``spark.read`` or ``spark.readStream``."""
    columns = ("path", "length", *(["content"] if is_remote(folder) else []))
    return (
        reader.format("binaryFile")
        .schema(FILES_SCHEMA)
        .option("recursiveFileLookup", "true")
        .option("pathGlobFilter", "*.{parquet,jsonl.gz}")
        .load(escape_pattern(folder))
        .select(*columns)
    )


def relevant(paths: Any, definitions: Definitions) -> Any:
    """Return those of *paths* that can hold what some filter wants, by the folder of their topic's
    root.

    A file that lies in no such folder is kept.
    """
    from pyspark.sql import functions as F

    roots = definitions.roots()
    if roots is None:
        return paths
    names = {name for root in roots for name in _folders(Topic((root,)))}
    folder = F.regexp_extract("path", r"/(root=[^/]+)/[^/]*$", 1)
    return paths.where(folder.isin("", *sorted(names)))


def _folders(topic: Topic) -> tuple[str, str]:
    """The name of the folder of *topic*, and that in archives of Dragoman 0.1."""
    digest = hashlib.sha256(str(topic.steps[0]).encode()).hexdigest()[:8]
    return directory(topic, datetime(2000, 1, 1, tzinfo=UTC)).name, f"root={digest}"


def notifications(paths: Any) -> Any:
    """The rows of the files at *paths*, each file's followed by its report."""

    def read_all(batches: Iterable[Any]) -> Iterator[Any]:
        for batch in batches:
            names = batch.column("path").to_pylist()
            # One at a time: a batch of contents is large already.
            contents = batch.column("content") if with_content else [None] * len(names)
            for path, content in zip(names, contents, strict=True):
                octets = None if content is None else content.as_py()
                yield from _batches(_rows(path, octets), NOTIFICATIONS)

    with_content = "content" in paths.columns
    return paths.select("path", *(["content"] if with_content else [])).mapInArrow(
        read_all, NOTIFICATIONS
    )


def matched(rows: Any, definitions: Definitions) -> Any:
    """Return those of *rows* that some filter matches, with the filters; reports pass.

    Args:
        rows: As `notifications` gives them.
        definitions: Every worker process builds the set once.
    """
    portable = Portable(definitions)

    def match_all(batches: Iterable[Any]) -> Iterator[Any]:
        filters = filter_set(portable.digest, portable.load)

        def match() -> Iterator[dict[str, Any]]:
            for batch in batches:
                for row in batch.to_pylist():
                    if row["id"] is None:
                        yield row
                        continue
                    payload = row["payload"].encode()
                    found = filters.match(
                        Event(
                            payload,
                            topic=parse_clark(row["topic"]) if row["topic"] else DEFAULT_TOPIC,
                            action=row["action"],
                            properties=dict(row["properties"]),
                        )
                    )
                    if found:
                        yield row | {"filters": found, "octets": len(payload)}

        yield from _batches(match(), MATCHED)

    return rows.mapInArrow(match_all, MATCHED)


def _rows(path: str, content: bytes | None) -> Iterator[dict[str, Any]]:
    """The rows of one file as the columns of `NOTIFICATIONS`, then its report."""
    count, damage = 0, None
    name = local_path(path) if content is None else path.rpartition("/")[2]
    try:
        for row in read(PurePath(name), content):
            if row.topic:
                parse_clark(row.topic)
            values = {name: getattr(row, name) for name in SCHEMA}
            yield values | {"properties": list(row.properties.items())}
            count += 1
    except (DamagedFile, ValueError, OSError) as error:
        damage = str(error).removeprefix(f"{name}: ")
    yield {"file": local_path(path), "rows": count, "damage": damage}


def _batches(rows: Iterable[dict[str, Any]], schema: str) -> Iterator[Any]:
    """*rows* as record batches of bounded size; a column that a row has not is null."""
    import pyarrow

    arrow = arrow_schema(schema)
    held: list[dict[str, Any]] = []
    octets = 0
    for row in rows:
        held.append(row)
        octets += len(row.get("payload") or "")
        if len(held) == BATCH_ROWS or octets > BATCH_OCTETS:
            yield pyarrow.RecordBatch.from_pylist(held, schema=arrow)
            held, octets = [], 0
    if held:
        yield pyarrow.RecordBatch.from_pylist(held, schema=arrow)
