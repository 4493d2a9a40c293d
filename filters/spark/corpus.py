"""Messages to measure with, from files: JSON lines, XML documents, Parquet."""

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lxml import etree

from filters.documents import parse_document
from filters.extras import how_to_install
from filters.reasons import FilterError

MAX_LINE = 8 * 2**20
"""Octets of one JSON line."""
COLUMNS = ("xml", "payload")
"""Columns that may hold a document; the first of them that exists counts."""

_SUFFIXES = (".jsonl", ".jsonl.gz", ".xml", ".parquet")


class CorpusError(Exception):
    """A corpus cannot be used; the text says why, in one line."""


class _NoMessages(CorpusError):
    """A file of rows without a column of messages."""


class _NoColumn(ValueError):
    """A row has none of `COLUMNS`."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Messages in UTF-8, each of which `filters.parse_document` takes."""

    messages: tuple[bytes, ...]
    left_out: int = 0
    """The number of documents that were read and left out."""
    passed_over: tuple[Path, ...] = ()
    """Files in folders that have rows, but no column of messages."""


def read_corpus(paths: Sequence[Path], most: int) -> Corpus:
    """Read at most *most* documents, evenly from the whole corpus, in its order.

    Args:
        paths: Files, or folders of them (``*.jsonl``, ``*.jsonl.gz``, ``*.xml``, ``*.parquet``).

    Raises:
        CorpusError: A file cannot be read, one of *paths* has no column of messages, or there is
            no document that `filters` takes.
    """
    files: list[Path] = []
    passed_over: list[Path] = []
    total = 0
    for file in (file for path in paths for file in _files(path)):
        try:
            total += sum(1 for _ in _documents(file))
            files.append(file)
        except _NoMessages:
            if file in paths:
                raise
            passed_over.append(file)
    every = max(1, -(-total // most))
    kept: list[bytes] = []
    left_out = 0
    for number, octets in enumerate(one for file in files for one in _documents(file)):
        if number % every:
            continue
        document = _accepted(octets)
        if document is None:
            left_out += 1
        else:
            kept.append(document)
    if not kept:
        named = ", ".join(map(str, paths))
        found = f"none of {total:,} documents can be used" if total else "no XML documents"
        raise CorpusError(f"{named}: {found} ({', '.join(_SUFFIXES)}; {' or '.join(COLUMNS)})")
    return Corpus(tuple(kept), left_out, tuple(passed_over))


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(one for one in path.rglob("*") if one.name.endswith(_SUFFIXES))
    if not path.exists():
        raise CorpusError(f"{path}: No such file or directory")
    if not path.name.endswith(_SUFFIXES):
        raise CorpusError(f"{path}: the name has to end with one of {', '.join(_SUFFIXES)}")
    return [path]


def _documents(path: Path) -> Iterator[bytes]:
    try:
        if path.suffix == ".xml":
            yield path.read_bytes()
        elif path.suffix == ".parquet":
            yield from _parquet(path)
        else:
            yield from _json_lines(path)
    except OSError as error:
        raise CorpusError(f"{path}: {error.strerror or error}") from error
    except ImportError as error:
        raise CorpusError(
            f"{path}: Parquet needs {error.name}, which is not installed:"
            f" {how_to_install('archive')}"
        ) from error
    except _NoColumn as error:
        raise _NoMessages(f"{path}: {error}") from error
    except (EOFError, ValueError, zlib.error) as error:
        raise CorpusError(f"{path}: {error}") from error


def _json_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as raw:
        file: Any = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        for number, line in enumerate(iter(lambda: file.readline(MAX_LINE), b""), 1):
            if not line.strip():
                continue
            if len(line) == MAX_LINE:
                raise ValueError(f"line {number}: over {MAX_LINE:,} octets")
            try:
                yield _text_of(line)
            except (ValueError, RecursionError) as error:
                # One that begins so is about something else; further on it is a mistake.
                kind = type(error) if isinstance(error, _NoColumn) and number == 1 else ValueError
                raise kind(f"line {number}: {error}") from error


def _text_of(line: bytes) -> bytes:
    """The document in a line of JSON."""
    try:
        values = json.loads(line)
    except ValueError:
        raise ValueError("not JSON") from None
    if not isinstance(values, dict):
        raise ValueError("not an object")
    column = _column(list(values))
    if not isinstance(values[column], str):
        raise ValueError(f"{column} is not a text")
    text: str = values[column]
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{column} has half of a surrogate pair") from None


def _parquet(path: Path) -> Iterator[bytes]:
    import pyarrow
    from pyarrow import parquet

    with path.open("rb") as raw:
        file = parquet.ParquetFile(raw)
        column = _column(file.schema_arrow.names)
        type_ = file.schema_arrow.field(column).type
        if not any(check(type_) for check in _texts(pyarrow.types)):
            raise ValueError(f"{column} is not a text, but {type_}")
        for batch in file.iter_batches(batch_size=1024, columns=[column]):
            for value in batch.column(0).to_pylist():
                if value is not None:
                    yield value.encode() if isinstance(value, str) else value


def _texts(types: Any) -> tuple[Any, ...]:
    return types.is_string, types.is_large_string, types.is_binary, types.is_large_binary


def _column(names: Sequence[str]) -> str:
    for column in COLUMNS:
        if column in names:
            return column
    raise _NoColumn(f"neither {' nor '.join(COLUMNS)} among its names")


def _accepted(octets: bytes) -> bytes | None:
    """A document in UTF-8; None if `filters` does not take it."""
    try:
        root = parse_document(octets)
    except FilterError:
        return None
    try:
        octets.decode()
    except UnicodeDecodeError:
        return etree.tostring(root, encoding="UTF-8")
    return octets
