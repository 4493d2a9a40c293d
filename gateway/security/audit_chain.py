"""Records of the audit log: lines of JSON, each with the hash of the one before, in segments.

    audit.000000000001.jsonl   records 1 to 812: a segment that is complete
    audit.000000000813.jsonl   records 813 to 1450
    audit.jsonl                the records since, to which the gateway appends

The chain goes on from a segment to the next. Old segments are removed as a whole; a record of the
chain says up to which number and hash that was done, so a segment that somebody else removed is
missed.
"""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from filters import Reason, Refused

FIRST = "0" * 64
"""The hash before the first record."""
_USUAL = 2**16
"""Bytes at the end of a file in which its last record mostly is; receipts may be longer."""
REMOVED = "removed old audit records"
"""What a record is about that has the ``until`` and the ``last`` of what was removed."""


class AuditUnusable(Refused):
    """The audit log cannot be written, or is not whole; the text says why."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(Reason.UNAVAILABLE, f"{path}: {why}")


def segment_path(path: Path, first: int) -> Path:
    """The segment of the log at *path* whose first record has that number."""
    return path.with_name(f"{path.stem}.{first:012d}{path.suffix}")


def segments(path: Path) -> list[Path]:
    """The complete segments of the log at *path*, the oldest first."""
    found = path.parent.glob(f"{path.stem}.{'[0-9]' * 12}{path.suffix}")
    return sorted(found, key=lambda one: one.name)


def first_number(segment: Path) -> int:
    """The number of the first record of a segment, by its name."""
    return int(segment.stem.rpartition(".")[2])


def verify(path: Path) -> tuple[int, str]:
    """Return how many records the log at *path* has, and the hash of the last.

    Raises:
        AuditUnusable: It cannot be read, or is not as it was written; the text says where.
    """
    count, number, last, begun_at = 0, 0, FIRST, (0, FIRST)
    removed: set[tuple[int, str]] = set()
    for file, place, record in _located_records(path):
        hashed, given = record.pop("hash", None), record.get("number")
        if not count and isinstance(given, int) and given > 1:
            number, last = given - 1, str(record.get("previous"))
            begun_at = (number, last)
        count, number = count + 1, number + 1
        if given != number or record.get("previous") != last:
            raise AuditUnusable(file, f"line {place} does not follow the one before")
        _, last = write_record(record)
        if hashed != last:
            raise AuditUnusable(file, f"line {place} was changed")
        if record.get("did") == REMOVED:
            removed.add((record.get("until", 0), record.get("last", "")))
    if begun_at[0] and begun_at not in removed:
        text = f"records up to {begun_at[0]} are missing, and no record says that they were removed"
        raise AuditUnusable(path, text)
    return count, last


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of the log at *path*, of all its segments.

    Raises:
        AuditUnusable: It cannot be read, or a line is no record.
    """
    return (record for _, _, record in _located_records(path))


def open_files(path: Path, behind: int = 0) -> Iterator[tuple[Path, BinaryIO]]:
    """Yield the files of the log at *path* with records behind number *behind*, open to be read,
    the oldest first; a gateway may append to it meanwhile. The newest file is opened first: it may
    become a segment.

    Raises:
        OSError: One cannot be opened.
    """
    with path.open("rb") as newest:
        inode = os.fstat(newest.fileno()).st_ino
        complete = segments(path)
        following = [*map(first_number, complete[1:]), _first_number_in(newest)]
        for segment, first in zip(complete, following, strict=False):
            if first is not None and first <= behind + 1:
                continue
            with segment.open("rb") as file:
                if os.fstat(file.fileno()).st_ino != inode:
                    yield segment, file
        yield path, newest


def _first_number_in(file: BinaryIO) -> int | None:
    """The number of the first record of *file*, at whose start it is left; None where it has
    none."""
    number = (read_record(file.readline()) or {}).get("number")
    file.seek(0)
    return number if isinstance(number, int) else None


def _located_records(path: Path) -> Iterator[tuple[Path, int, dict[str, Any]]]:
    """Each record, with its file and line."""
    try:
        for place, file in open_files(path):
            yield from _records_in(place, file)
    except OSError as error:
        raise AuditUnusable(path, str(error.strerror or error)) from error


def _records_in(path: Path, file: BinaryIO) -> Iterator[tuple[Path, int, dict[str, Any]]]:
    for number, line in enumerate(file, start=1):
        record = read_record(line)
        if record is None:
            raise AuditUnusable(path, f"line {number} is no record")
        yield path, number, record


def read_record(line: bytes) -> dict[str, Any] | None:
    """The record in *line*; None where it is none."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def write_record(record: Mapping[str, Any]) -> tuple[bytes, str]:
    """The line of *record*, and its hash."""
    text = json.dumps(record, separators=(",", ":"))
    hashed = hashlib.sha256(text.encode()).hexdigest()
    return f'{text[:-1]},"hash":"{hashed}"}}\n'.encode(), hashed


def first_record(path: Path) -> dict[str, Any] | None:
    """The first record of the file *path*; None where it has none."""
    with path.open("rb") as file:
        return read_record(file.readline())


def newest_record(path: Path) -> dict[str, Any] | None:
    """The last record of the log at *path*; None where it has none.

    Raises:
        AuditUnusable: The last line is no record.
    """
    for file in (path, *reversed(segments(path))):
        with suppress(FileNotFoundError):
            if (found := last_record(file)) is not None:
                return found
    return None


def last_record(path: Path) -> dict[str, Any] | None:
    """The last record of the file *path*; None where it is empty.

    Raises:
        AuditUnusable: Its last line is no record.
    """
    with path.open("rb") as file:
        end, behind = file.seek(0, os.SEEK_END), _USUAL
        while True:  # The last line is whole once another one is seen before it.
            file.seek(max(0, end - behind))
            lines = file.read(behind).splitlines()
            if len(lines) > 1 or behind >= end:
                break
            behind *= 4
    if not lines:
        return None
    record = read_record(lines[-1])
    if record is None or not isinstance(record.get("hash"), str):
        raise AuditUnusable(path, "its last line is no record")
    return record


def cut_off_half_a_line(path: Path) -> None:
    """Cut off what a crash left of a line: nobody was told of it. The file is made, for its owner
    alone, where there is none."""
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        size, behind = file.seek(0, os.SEEK_END), _USUAL
        while True:  # A record with a receipt may be as long as what it answers.
            file.seek(max(0, size - behind))
            end = file.read()
            if b"\n" in end or behind >= size:
                break
            behind *= 4
        file.truncate(size - len(end) + end.rfind(b"\n") + 1)
