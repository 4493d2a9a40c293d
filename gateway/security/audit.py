"""The audit log: who changed what, and who was refused, in a file that shows if it was altered.

A line is a JSON object; its ``hash`` is that of the line without it, which has the hash of the line
before. Who changes, removes or reorders lines has to write anew all that follow: keep the hash of
the last line elsewhere (`dragoman audit verify` prints it), and compare.
"""

import asyncio
import hashlib
import json
import os
import time
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import structlog

from filters import Reason, Refused
from gateway.security.principals import Principal

FIRST = "0" * 64
"""The hash before the first line."""
REFUSALS = frozenset({Reason.NOT_ALLOWED, Reason.NOT_IDENTIFIED})
WAITING = 10_000
"""Records that wait to be written; more are counted, and the number is recorded."""
EVERY = 0.2
"""Seconds between two writings, each of which flushes the disk once."""
AGAIN = 60.0
"""Seconds for which the same refusal of the same sender is counted instead of recorded: who tries a
thousand times fills no disk."""
MOST_REFUSALS = 4096
_log = structlog.get_logger("dragoman.audit")


class Audit(Protocol):
    """Takes note of what people and programs did."""

    def note(self, principal: Principal, did: str, what: str = "", result: str = "done") -> None:
        """Note that *principal* did something, to *what*: an id that is no secret."""


class NoAudit:
    """Where nothing is noted."""

    def note(self, principal: Principal, did: str, what: str = "", result: str = "done") -> None:
        pass


def note_refusal(audit: Audit, principal: Principal, did: str, what: str, refused: Refused) -> None:
    """Note that *principal* was *refused* something, where it had no right to it."""
    if refused.reason in REFUSALS:
        audit.note(principal, did, what, f"refused: {refused.text}")


NO_AUDIT = NoAudit()


class AuditUnusable(Refused):
    """The audit log cannot be written, or is not whole; the text says why."""

    def __init__(self, path: Path, why: str) -> None:
        super().__init__(Reason.UNAVAILABLE, f"{path}: {why}")


class AuditLog:
    """Appends to the file at *path*, once that is open."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: deque[dict[str, Any]] = deque()
        self._lost = 0
        self._refused: dict[tuple[str, ...], tuple[float, int]] = {}
        """When a refusal was recorded, and how often it came again."""
        self._number, self._last = 0, FIRST
        self.written = 0
        self.failures = 0

    def open(self) -> None:
        """Find the last record; the file is made, for its owner alone, where there is none.

        Raises:
            AuditUnusable: It cannot be written, or its last line is no record.
        """
        try:
            self._number, self._last = _end_of(self.path)
        except OSError as error:
            raise AuditUnusable(self.path, str(error.strerror or error)) from error

    def note(self, principal: Principal, did: str, what: str = "", result: str = "done") -> None:
        """Note it; it is on disk within `EVERY` seconds."""
        who = principal.owner or "operator"
        record = {"who": who, "from": principal.address, "did": did, "what": what, "result": result}
        if result.startswith("refused") and not self._is_first(tuple(record.values())):
            return
        self._put(record)

    def _put(self, record: dict[str, Any]) -> None:
        if len(self._waiting) >= WAITING:
            self._lost += 1
            return
        self._waiting.append({"time": _now(), **record})

    def _is_first(self, refusal: tuple[str, ...]) -> bool:
        now = time.monotonic()
        at, times = self._refused.get(refusal, (float("-inf"), 0))
        if now - at < AGAIN:
            self._refused[refusal] = (at, times + 1)
            return False
        if len(self._refused) >= MOST_REFUSALS:
            self._forget_refusals(0.0)
        self._refused[refusal] = (now, 0)
        if times:
            self._put_again(refusal, times)
        return True

    def _forget_refusals(self, age: float) -> None:
        """Record how often refusals older than *age* came again."""
        before = time.monotonic() - age
        for refusal, (at, times) in list(self._refused.items()):
            if at <= before:
                del self._refused[refusal]
                if times:
                    self._put_again(refusal, times)

    def _put_again(self, refusal: tuple[str, ...], times: int) -> None:
        record = dict(zip(("who", "from", "did", "what", "result"), refusal, strict=True))
        self._put({**record, "again": times})

    async def run(self) -> None:
        """Write what is noted, until it is cancelled."""
        while True:
            await asyncio.sleep(EVERY)
            self._forget_refusals(AGAIN)
            if self._waiting or self._lost:
                await asyncio.to_thread(self.write)

    def write(self) -> None:
        """Write what is noted now. What cannot be written waits; the log says so."""
        if self._lost:
            lost, self._lost = self._lost, 0
            self._waiting.append({"time": _now(), "lost": lost})
        records = list(self._waiting)
        number, last, lines = self._number, self._last, []
        for record in records:
            number += 1
            line, last = _line({"number": number, **record, "previous": last})
            lines.append(line)
        try:
            _append(self.path, b"".join(lines))
        except OSError as error:
            self.failures += 1
            _log.error("audit.not-written", path=str(self.path), why=str(error))
            return
        for _ in records:
            self._waiting.popleft()
        self._number, self._last = number, last
        self.written += len(records)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def verify(path: Path) -> tuple[int, str]:
    """Return how many records the file at *path* has, and the hash of the last.

    Raises:
        AuditUnusable: It cannot be read, or is not as it was written; the text says where.
    """
    number, last = 0, FIRST
    for number, record in enumerate(read_records(path), start=1):
        hashed = record.pop("hash", None)
        if record.get("number") != number or record.get("previous") != last:
            raise AuditUnusable(path, f"line {number} does not follow the one before")
        _, last = _line(record)
        if hashed != last:
            raise AuditUnusable(path, f"line {number} was changed")
    return number, last


def read_records(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of the file at *path*.

    Raises:
        AuditUnusable: It cannot be read, or a line is no record.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                record = _read(line)
                if record is None:
                    raise AuditUnusable(path, f"line {number} is no record")
                yield record
    except OSError as error:
        raise AuditUnusable(path, str(error.strerror or error)) from error


def _read(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _line(record: Mapping[str, Any]) -> tuple[bytes, str]:
    """The line of *record*, and its hash."""
    text = json.dumps(record, separators=(",", ":"))
    hashed = hashlib.sha256(text.encode()).hexdigest()
    return f'{text[:-1]},"hash":"{hashed}"}}\n'.encode(), hashed


def _end_of(path: Path) -> tuple[int, str]:
    """The number and the hash of the last record. What a crash left of a line is cut off: nobody
    was told of it.

    Raises:
        AuditUnusable: The last line is no record.
    """
    with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - 2**20))
        end = file.read()
        whole = end[: end.rfind(b"\n") + 1]
        file.truncate(size - (len(end) - len(whole)))
    if not whole:
        return 0, FIRST
    record = _read(whole.splitlines()[-1])
    if record is None or not isinstance(record.get("hash"), str):
        raise AuditUnusable(path, "its last line is no record")
    return int(record.get("number", 0)), record["hash"]


def _append(path: Path, octets: bytes) -> None:
    """Append *octets*, on disk when this returns, or nothing of them: half a line would break the
    chain."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        start = os.fstat(descriptor).st_size
        try:
            left = memoryview(octets)
            while left:
                left = left[os.write(descriptor, left) :]
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, start)
            raise
    finally:
        os.close(descriptor)
