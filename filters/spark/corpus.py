"""Messages to measure with, from files: JSON lines, XML documents, Parquet."""

import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from filters.documents import parse_document
from filters.reasons import FilterError

MAX_LINE = 8 * 2**20
COLUMNS = ("xml", "payload")
"""Where a document is in a row: the first of these that there is."""

_SUFFIXES = (".jsonl", ".jsonl.gz", ".xml", ".parquet")


class CorpusError(Exception):
    """A corpus cannot be used; the text says why, in one line."""


def read_corpus(paths: Sequence[Path], most: int) -> list[bytes]:
    """At most *most* documents, evenly from the whole corpus, in its order.

    Args:
        paths: Files, or folders of them (``*.jsonl``, ``*.jsonl.gz``, ``*.xml``, ``*.parquet``).

    Raises:
        CorpusError: A file cannot be read, or there is no document that `filters` takes.
    """
    files = [file for path in paths for file in _files(path)]
    total = sum(1 for file in files for _ in _documents(file))
    every = max(1, -(-total // most))
    kept = []
    for number, octets in enumerate(one for file in files for one in _documents(file)):
        if number % every == 0 and _is_document(octets):
            kept.append(octets)
    if not kept:
        named = ", ".join(map(str, paths))
        raise CorpusError(f"{named}: no XML documents ({', '.join(_SUFFIXES)})")
    return kept


def _files(path: Path) -> list[Path]:
    if path.is_dir():
        return sorted(one for one in path.rglob("*") if one.name.endswith(_SUFFIXES))
    if not path.name.endswith(_SUFFIXES):
        raise CorpusError(f"{path}: none of {', '.join(_SUFFIXES)}")
    return [path]


def _documents(path: Path) -> Iterator[bytes]:
    try:
        if path.suffix == ".xml":
            yield path.read_bytes()
        elif path.suffix == ".parquet":
            yield from _parquet(path)
        else:
            yield from _json_lines(path)
    except (OSError, EOFError, ValueError) as error:
        raise CorpusError(f"{path}: {error}") from error


def _json_lines(path: Path) -> Iterator[bytes]:
    with path.open("rb") as raw:
        file: Any = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
        while line := file.readline(MAX_LINE):
            values = json.loads(line)
            yield values[_column(list(values))].encode()


def _parquet(path: Path) -> Iterator[bytes]:
    from pyarrow import parquet

    with path.open("rb") as raw:
        file = parquet.ParquetFile(raw)
        column = _column(file.schema_arrow.names)
        for batch in file.iter_batches(batch_size=1024, columns=[column]):
            for value in batch.column(0).to_pylist():
                if value is not None:
                    yield value.encode() if isinstance(value, str) else value


def _column(names: Sequence[str]) -> str:
    for column in COLUMNS:
        if column in names:
            return column
    raise ValueError(f"neither {' nor '.join(COLUMNS)} among its names")


def _is_document(octets: bytes) -> bool:
    try:
        parse_document(octets)
    except FilterError:
        return False
    return True
