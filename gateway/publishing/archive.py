"""Every settled notification, written to the archive beside delivery, as well as it goes.

    event loop                         thread "archive"
    offer() ---> queue, bounded ---->  a file for each hour and topic root, closed after a minute,
                   |                     |    64 MiB or 50,000 rows
                   | full                | the disk does not take it
                   +---> dropped, counted, said <---+

Delivery neither waits for it nor fails with it. Kill -9 loses at most what came in the minute that
was open, and leaves files that the next start completes or removes.
"""

import asyncio
import fcntl
import os
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path, PurePath

import structlog

from filters import DEFAULT_TOPIC
from filters.archive import UNFINISHED, FileWriter, Row, best_suffix, directory, recover
from gateway.observing.samples import Sample, counter
from mediation.model.messages import Notification

PERIOD = 60.0
"""Seconds from the first row of a file to its end; a loss is said as often."""
FILE_BYTES = 64 * 2**20
FILE_ROWS = 50_000
QUEUE_BYTES = 32 * 2**20
QUEUE_ROWS = 20_000
BUFFERED = 64 * 2**20
"""Bytes that all files together keep in memory; beyond, the one with the most is closed."""
MAX_FILES = 1024
"""Files that begin in one period: publishers choose topics, and each root has a file."""
PAUSE = 0.1
"""Seconds in which others join the first in the queue: waking the thread for each costs more."""
_COUNTED = {
    "rows": "Notifications in finished files of the archive.",
    "files": "Files of the archive that are finished.",
    "bytes": "Bytes of the finished files of the archive.",
    "dropped": "Notifications that the archive did not take.",
}
_log = structlog.get_logger("dragoman.archive")


class Archive:
    """Writes to the archive in *folder*, which several gateways may share.

    Args:
        period: Seconds from the first row of a file to its end.
    """

    def __init__(self, folder: Path, *, period: float = PERIOD) -> None:
        self.folder = folder
        self._queue: deque[Notification] = deque()
        # Bytes. Each has one thread that changes it, so neither needs a lock.
        self._queued = self._taken = 0
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._losses = _Losses()
        self._files = _Files(folder, period, self._losses)
        self._flushes: deque[Future[None]] = deque()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="archive", daemon=True)

    @property
    def counts(self) -> Mapping[str, int]:
        """The rows, files and bytes on the disk that are finished, and the rows dropped."""
        files = self._files
        return {
            "rows": files.rows,
            "files": files.files,
            "bytes": files.octets,
            "dropped": self._losses.rows,
        }

    def metrics(self) -> Iterator[Sample]:
        """The files that are finished, and what was dropped."""
        for name, number in self.counts.items():
            yield counter(f"archive_{name}", _COUNTED[name], number)

    def start(self) -> None:
        """Begin. A folder that cannot be written is said, and tried again."""
        self._thread.start()

    def offer(self, notification: Notification) -> None:
        """Write *notification* some time, or drop it where too many wait. Never waits itself."""
        if (
            len(self._queue) >= QUEUE_ROWS
            or self._queued - self._taken >= QUEUE_BYTES
            or self._closing.is_set()
        ):
            self._losses.add(1, "more comes than the disk takes")
            return
        self._queued += notification.octets
        self._queue.append(notification)
        if len(self._queue) == 1:  # With more, the thread knows of one that it did not take yet.
            self._wake.set()

    async def flush(self) -> None:
        """Return when all that was offered until now is in finished files, or was dropped."""
        done: Future[None] = Future()
        self._flushes.append(done)
        self._wake.set()
        if self._closed.is_set():
            self._end_flushes(len(self._flushes))
        await asyncio.wrap_future(done)

    def _end_flushes(self, number: int) -> None:
        for _ in range(number):
            with suppress(IndexError):  # At the end both threads do this.
                done = self._flushes.popleft()
                if done.set_running_or_notify_cancel():
                    done.set_result(None)

    async def close(self, seconds: float) -> None:
        """Finish all files within *seconds*; what then is not, the next start completes."""
        self._closing.set()
        self._wake.set()
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, self._thread.join, seconds)
        if self._thread.is_alive():
            _log.error("archive.not-closed", waiting=len(self._queue))

    def _run(self) -> None:
        files = self._files
        try:
            files.take_up()
            while not self._closing.is_set():
                if not (self._queue or self._flushes):
                    self._wake.wait(files.due_in())
                self._wake.clear()
                self._closing.wait(PAUSE)
                flushes = len(self._flushes)
                self._drain()
                if flushes or files.due_in() == 0:
                    files.finish_all()
                self._end_flushes(flushes)
            self._drain()
            files.finish_all()
            files.let_go()
        except Exception:
            self._closing.set()  # Nobody writes any more: what comes is dropped, and counted.
            _log.exception("archive.failed")
        finally:
            self._closed.set()
            self._end_flushes(len(self._flushes))

    def _drain(self) -> None:
        for _ in range(len(self._queue)):
            notification = self._queue.popleft()
            self._taken += notification.octets
            self._files.add(notification)
        self._files.spare_memory()


class _Losses:
    """Counts rows that were dropped, by either thread, and says so once a period."""

    def __init__(self) -> None:
        self.rows = 0
        self._said: float | None = None
        self._lock = threading.Lock()

    def add(self, rows: int, why: str) -> None:
        with self._lock:
            self.rows += rows
            now = time.monotonic()
            if self._said is not None and now - self._said < PERIOD:
                return
            self._said = now
        _log.error("archive.dropped", rows=self.rows, why=why)


class _Files:
    """The files that are open, and the folder in which they grow. Belongs to one thread.

    The folder has a lock: what lies in one that nobody locks was left by a crash.
    """

    def __init__(self, folder: Path, period: float, losses: _Losses) -> None:
        self._folder = folder
        self._period = period
        self._losses = losses
        self._writer = secrets.token_hex(4)
        self._scratch = folder / UNFINISHED / self._writer
        self._lock: int | None = None
        self._suffix = ""
        self._numbers = count(1)
        self._open: dict[PurePath, FileWriter] = {}
        self._begun = 0
        self._due: float | None = None
        self.rows = self.files = self.octets = 0

    def take_up(self) -> None:
        """Find out what can be written, and complete what crashes left."""
        self._suffix = best_suffix()
        try:
            self._take_scratch()
            for folder in (self._folder / UNFINISHED).iterdir():
                if folder != self._scratch:
                    self._recover(folder)
        except OSError as error:
            _log.error("archive.unavailable", folder=str(self._folder), error=str(error))

    def due_in(self) -> float | None:
        """Seconds until the files are to be finished; None while there are none."""
        return None if self._due is None else max(0.0, self._due - time.monotonic())

    def add(self, notification: Notification) -> None:
        place = directory(notification.topic, notification.time)
        file = self._open.get(place)
        try:
            if file is None:
                if self._begun >= MAX_FILES:
                    self._losses.add(1, "too many topic roots in a minute")
                    return
                file = self._begin(place)
            file.append(_row(notification))
        except UnicodeError:
            self._losses.add(1, "a text that is not UTF-8")
        except Exception as error:
            if file is None:
                self._losses.add(1, str(error))
            else:
                self._lose(place, error)
        else:
            if file.octets >= FILE_BYTES or file.rows >= FILE_ROWS:
                self._finish(place)

    def spare_memory(self) -> None:
        """Finish files, those with the most in memory first, until little enough is in it."""
        while sum(file.buffered for file in self._open.values()) > BUFFERED:
            self._finish(max(self._open, key=lambda place: self._open[place].buffered))

    def finish_all(self) -> None:
        for place in list(self._open):
            self._finish(place)
        self._begun = 0
        self._due = None

    def let_go(self) -> None:
        """Leave no trace of a writer that had its end."""
        if self._lock is not None:
            _remove_scratch(self._scratch, self._lock)
            self._lock = None

    def _begin(self, place: PurePath) -> FileWriter:
        self._take_scratch()
        now = datetime.now(UTC)
        name = f"{self._writer}-{now:%Y%m%dT%H%M%SZ}-{next(self._numbers)}{self._suffix}"
        file = self._open[place] = FileWriter(self._folder, place / name, self._scratch)
        self._begun += 1
        if self._due is None:
            self._due = time.monotonic() + self._period
        return file

    def _finish(self, place: PurePath) -> None:
        file = self._open[place]
        try:
            octets = file.close()
        except Exception as error:
            self._lose(place, error)
        else:
            del self._open[place]
            self.rows += file.rows
            self.files += 1
            self.octets += octets

    def _lose(self, place: PurePath, error: Exception) -> None:
        """The disk did not take it; the next row of the place begins another file."""
        file = self._open.pop(place)
        self._losses.add(file.rows, str(error))
        with suppress(OSError):
            file.discard()

    def _take_scratch(self) -> None:
        """Have a folder for unfinished files, and its lock; somebody may have removed it."""
        if self._lock is not None:
            if self._scratch.is_dir():
                return
            os.close(self._lock)
            self._lock = None
        self._scratch.mkdir(parents=True, exist_ok=True)
        self._lock = _lock(self._scratch)

    def _recover(self, folder: Path) -> None:
        try:
            lock = _lock(folder)
        except BlockingIOError:
            return  # Another gateway writes there.
        for path in sorted(folder.glob("day=*,*")):
            try:
                saved = recover(self._folder, path)
            except (ImportError, OSError) as error:
                _log.error("archive.leftover-kept", file=str(path), error=str(error))
            else:
                event = "archive.leftover-completed" if saved else "archive.leftover-removed"
                _log.warning(event, file=path.name)
        _remove_scratch(folder, lock)


def _row(notification: Notification) -> Row:
    topic, producer = notification.topic, notification.producer
    return Row(
        notification.id,
        notification.time,
        notification.payload.decode(),
        None if topic is None or topic == DEFAULT_TOPIC else str(topic),
        notification.action,
        None if producer is None else producer.address,
        notification.properties,
        notification.source,
    )


def _lock(folder: Path) -> int:
    """Lock *folder*; the descriptor that holds it.

    Raises:
        BlockingIOError: Another process has it.
        OSError: There is no such folder (any more).
    """
    descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def _remove_scratch(folder: Path, lock: int) -> None:
    with suppress(OSError):  # Something that could not be completed is in it.
        (folder / "lock").unlink()
        folder.rmdir()
        folder.parent.rmdir()
    os.close(lock)
