"""The archive: every notification as a row of a file that Spark, DuckDB or pandas reads as it is.

    DIR/day=2026-11-21/hour=14/root=storms/<writer>-<time>-<n>.parquet      or .jsonl.gz
    DIR/_unfinished/<writer>/day=2026-11-21,hour=14,root=storms,<writer>-<time>-<n>.parquet

``day`` and ``hour`` are of the row's time in UTC, ``root`` is its topic's root step in Clark
notation, escaped as Spark escapes values of partitions: whoever reads the folder with Spark has
three columns more, by which it passes folders over. Files appear by rename and never change.
Readers skip names that begin with ``_`` or ``.``, as Spark does: what is there is unfinished.

A file is Parquet, or gzip'd JSON lines with the same keys, where ``time`` is RFC 3339 with Z.
Nothing here needs pyarrow until a Parquet file is written or read.
"""

import contextlib
import gzip
import hashlib
import importlib
import io
import json
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, BinaryIO

from filters.topics.topics import DEFAULT_TOPIC, Topic

SCHEMA: Mapping[str, str] = MappingProxyType(
    {
        "id": "string",
        "time": "timestamp",
        "topic": "string",
        "action": "string",
        "producer": "string",
        "properties": "map<string,string>",
        "payload": "string",
        "source": "string",
    }
)
"""The columns and their types, as Spark's DDL writes them; a timestamp is microseconds in UTC.

``topic`` is in Clark notation, null for the default topic; ``producer`` is an address; ``payload``
is the text of one XML element; ``source`` names who published, and scopes ``id``.
"""

LATER = frozenset(("source",))
"""Columns that archives of earlier versions do not have: there they are null."""
NEVER_NULL = ("id", "time", "properties", "payload")

PARQUET = ".parquet"
JSON_LINES = ".jsonl.gz"
UNFINISHED = "_unfinished"

GROUP = 4 * 2**20
"""Bytes of rows that are written at once: one row group, or one gzip member."""
ROW_OVERHEAD = 512
"""Bytes that a row takes in memory beside its text."""
MAX_NAME = 200
"""Bytes of a root's name as a folder; file systems take 255."""
MAX_LINE = 64 * 2**20
"""Bytes of one JSON line; a longer one is damage."""


_IN_NAMES = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
"""Spark's ``ExternalCatalogUtils.escapePathName`` escapes these, as ``%`` and two digits."""


_HOW_TO_IMPORT = "`dragoman archive import` makes an archive of such files"

_COMMA = "%2C"
"""A comma in the name of an unfinished file, where commas are between the parts; no part has this,
because its ``%`` is escaped."""


class DamagedFile(ValueError):
    """A file of an archive cannot be read, or not to its end."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the archive: one notification. ``time`` is aware; the rest is as in `SCHEMA`."""

    id: str
    time: datetime
    payload: str
    topic: str | None = None
    action: str | None = None
    producer: str | None = None
    properties: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    source: str | None = None

    def octets(self) -> int:
        """Return its size in memory, about.

        Raises:
            ValueError: A text holds what UTF-8 cannot.
        """
        texts = (self.id, self.payload, self.topic, self.action, self.producer, self.source)
        return (
            ROW_OVERHEAD
            + sum(len(text.encode()) for text in texts if text)
            + sum(len(f"{name}{value}".encode()) for name, value in self.properties.items())
        )


def directory(topic: Topic | None, time: datetime) -> PurePath:
    """Return the folder of the archive that holds the rows of *topic* (None: the default topic) at
    *time*."""
    moment = time.astimezone(UTC)
    root = _IN_NAMES.sub(_escape, root_name(topic))
    return PurePath(f"day={moment.date().isoformat()}", f"hour={moment:%H}", f"root={root}")


def root_name(topic: Topic | None) -> str:
    """Return the value of the partition ``root`` for *topic* (None: the default topic): its root
    step in Clark notation; of one that is too long for a folder's name ``#`` and a hash of it."""
    root = str((topic or DEFAULT_TOPIC).steps[0])
    if len(_IN_NAMES.sub(_escape, root).encode()) > MAX_NAME:
        return f"#{hashlib.sha256(root.encode()).hexdigest()[:32]}"
    return root


def _escape(found: re.Match[str]) -> str:
    return f"%{ord(found[0]):02X}"


def best_suffix() -> str:
    """`PARQUET` where pyarrow can be loaded, which this does, else `JSON_LINES`."""
    try:
        importlib.import_module("pyarrow.parquet")
    except ImportError:
        return JSON_LINES
    return PARQUET


class FileWriter:
    """Writes one file. It collects rows, and makes nothing on the disk before it has a group.

    Args:
        archive: The archive's folder.
        target: The file in it, ``directory(...) / name``; its suffix decides the format.
        scratch: The folder for unfinished files, on the same file system.

    Everything that writes raises OSError when the disk does not take it; then `discard` it.
    """

    def __init__(self, archive: Path, target: PurePath, scratch: Path) -> None:
        self._path = archive / target
        parts = (part.replace(",", _COMMA) for part in target.parts)
        self._unfinished = scratch / ",".join(parts)
        self._format: _Format = _Parquet() if target.suffix == PARQUET else _JsonLines()
        self._rows: list[Row] = []
        self.rows = 0
        self.octets = 0
        """The bytes of all rows that it was given."""
        self.buffered = 0
        """Bytes that are in memory alone."""

    def append(self, row: Row) -> None:
        """Add *row*.

        Raises:
            ValueError: A text of it cannot be written as UTF-8; it is left out.
        """
        octets = row.octets()
        self._rows.append(row)
        self.rows += 1
        self.octets += octets
        self.buffered += octets
        if self.buffered >= GROUP:
            self._write()

    def _write(self) -> None:
        rows, self._rows, self.buffered = self._rows, [], 0
        self._format.write(self._unfinished, rows)

    def close(self) -> int:
        """Let the file appear, safe from a power loss, and return its size in bytes."""
        if self._rows:
            self._write()
        self._format.finish()
        return _appear(self._unfinished, self._path)

    def discard(self) -> None:
        """Remove what was written."""
        self._rows, self.buffered = [], 0
        self._format.abandon()
        self._unfinished.unlink(missing_ok=True)


class _Format:
    def write(self, path: Path, rows: list[Row]) -> None:
        raise NotImplementedError

    def finish(self) -> None: ...

    def abandon(self) -> None: ...


class _JsonLines(_Format):
    """Each group is a gzip member of its own: a crash damages the last one at most."""

    def write(self, path: Path, rows: list[Row]) -> None:
        lines = b"".join(_line(row) for row in rows)
        with path.open("ab") as file:
            file.write(gzip.compress(lines, compresslevel=5))


class _Parquet(_Format):
    def __init__(self) -> None:
        self._writer: Any = None

    def write(self, path: Path, rows: list[Row]) -> None:
        import pyarrow
        from pyarrow import parquet

        schema = _arrow_schema()
        columns = {name: [getattr(row, name) for row in rows] for name in SCHEMA}
        columns["properties"] = [list(row.properties.items()) for row in rows]
        if self._writer is None:
            self._writer = parquet.ParquetWriter(path, schema, compression="zstd")
        self._writer.write_table(pyarrow.table(columns, schema=schema))

    def finish(self) -> None:
        self._writer.close()

    def abandon(self) -> None:
        if self._writer is not None:
            # The disk that did not take the rows need not take the end.
            with contextlib.suppress(OSError):
                self._writer.close()


def _arrow_schema() -> Any:
    import pyarrow

    text = pyarrow.string()
    types = {
        "string": text,
        "timestamp": pyarrow.timestamp("us", tz="UTC"),
        "map<string,string>": pyarrow.map_(text, text),
    }
    return pyarrow.schema([(name, types[type]) for name, type in SCHEMA.items()])


def _line(row: Row) -> bytes:
    values = {name: getattr(row, name) for name in SCHEMA}
    time = row.time.astimezone(UTC).replace(tzinfo=None)
    values["time"] = time.isoformat(timespec="microseconds") + "Z"
    values["properties"] = dict(row.properties)
    return json.dumps(values, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _appear(unfinished: Path, path: Path) -> int:
    """Rename, so that the name and all it stands for survive a power loss."""
    with unfinished.open("rb") as file:
        os.fsync(file.fileno())
        octets = os.fstat(file.fileno()).st_size
    above = list(path.parents)
    there = next(number for number, folder in enumerate(above) if folder.exists())
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished.replace(path)
    for folder in above[: there + 1]:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    return octets


# Reading.


def read(path: PurePath, content: bytes | None = None) -> Iterator[Row]:
    """The rows of one file, in the order in which they were written.

    Args:
        content: All of it, where *path* is no more than its name; else it is opened.

    Raises:
        DamagedFile: It is not a file of an archive, or is damaged; rows before that were yielded.
        ImportError: It is Parquet, and pyarrow is not installed.
        OSError: It cannot be opened.
    """
    rows = _read_parquet if path.suffix == PARQUET else _read_json_lines
    return rows(path, Path(path).open("rb") if content is None else io.BytesIO(content))


def _read_json_lines(path: PurePath, opened: BinaryIO) -> Iterator[Row]:
    with opened as raw, gzip.GzipFile(fileobj=raw) as file:
        while True:
            try:
                line = file.readline(MAX_LINE)
                row = _row(json.loads(line)) if line else None
            except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
                raise _damaged(path, error) from error
            if row is None:
                return
            yield row


def _row(values: dict[str, Any]) -> Row:
    time = datetime.fromisoformat(values["time"])
    if time.tzinfo is None:
        raise ValueError("a time without Z")
    values = {**dict.fromkeys(LATER), **values}
    texts = {name: values[name] for name, type in SCHEMA.items() if type == "string"}
    properties = dict(values["properties"])
    if not isinstance(texts["id"], str) or not isinstance(texts["payload"], str):
        raise TypeError("no id or no payload")
    for text in (*texts.values(), *properties.values(), *properties):
        if not isinstance(text, str | None):
            raise TypeError("a value is not a text")
        if text is not None:
            text.encode()  # JSON can write half of a surrogate pair, UTF-8 cannot
    return Row(**texts, time=time, properties=properties)


def _read_parquet(path: PurePath, opened: BinaryIO) -> Iterator[Row]:
    import pyarrow
    from pyarrow import parquet

    with opened as raw:
        try:
            file = parquet.ParquetFile(raw)
            columns = _columns(file.schema_arrow)
            for batch in file.iter_batches(batch_size=1024, columns=columns):
                for values in batch.to_pylist():
                    if any(values[name] is None for name in NEVER_NULL):
                        raise ValueError(f"a row without {' or '.join(NEVER_NULL)}")
                    values["properties"] = dict(values["properties"])
                    values["time"] = values["time"].astimezone(UTC)
                    yield Row(**values)
        except (pyarrow.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise _damaged(path, error) from error


def _columns(schema: Any) -> list[str]:
    """The columns of `SCHEMA` that an Arrow schema has; other tools may have written it.

    Raises:
        ValueError: One is not there, or has another type.
    """
    from pyarrow import types

    def is_text(type: Any) -> bool:
        return bool(types.is_string(type) or types.is_large_string(type))

    columns = [name for name in SCHEMA if name in schema.names or name not in LATER]
    for name in columns:
        wanted = SCHEMA[name]
        if name not in schema.names:
            raise ValueError(f"no column {name}; {_HOW_TO_IMPORT}")
        type = schema.field(name).type
        if wanted == "timestamp":
            fits = types.is_timestamp(type) and type.tz is not None
        elif wanted == "string":
            fits = is_text(type)
        else:
            fits = types.is_map(type) and is_text(type.key_type) and is_text(type.item_type)
        if not fits:
            zone = " with a time zone" if wanted == "timestamp" else ""
            found = f"the column {name} has the type {type!s:.60}, not {wanted}{zone}"
            raise ValueError(f"{found}; {_HOW_TO_IMPORT}")
    return columns


def _damaged(path: PurePath, error: Exception) -> DamagedFile:
    what = str(error)
    if isinstance(error, KeyError):
        what = f"no {error.args[0]}"
    what = " ".join(what.split()) or type(error).__name__
    return DamagedFile(f"{path}: {what:.200}")


# Recovery of what a crash leaves.


def recover(archive: Path, unfinished: Path) -> bool:
    """Complete a file that a crash left in a scratch folder, or remove it.

    Of a Parquet file without its end nothing can be read; of JSON lines every whole group.

    Returns:
        Whether something was saved.

    Raises:
        ImportError: It is Parquet, and pyarrow is not installed.
        OSError: The disk does not take it.
    """
    target = PurePath(*(part.replace(_COMMA, ",") for part in unfinished.name.split(",")))
    try:
        for _ in read(unfinished):
            pass
    except DamagedFile:
        whole = 0 if target.suffix == PARQUET else _whole_members(unfinished.read_bytes())
        if not whole:
            unfinished.unlink()
            return False
        os.truncate(unfinished, whole)
    _appear(unfinished, archive / target)
    return True


def _whole_members(data: bytes) -> int:
    """Return how many bytes at the front of *data* are complete gzip members."""
    whole = 0
    while whole < len(data):
        member = zlib.decompressobj(wbits=31)
        try:
            member.decompress(data[whole:])
        except zlib.error:
            break
        if not member.eof:
            break
        whole = len(data) - len(member.unused_data)
    return whole
