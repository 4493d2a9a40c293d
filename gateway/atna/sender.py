"""Sends the audit log to an audit repository, by syslog over TLS, as its records come.

Syslog answers nothing: what was sent just before a connection ends may be lost. So a record counts
as sent when the connection is still there `SETTLED` seconds later, and is else sent once more.
"""

import asyncio
import json
import os
import ssl
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

import structlog

from gateway.atna.messages import Site, event_of, write_message
from gateway.atna.syslog import OF_DICOM, OF_IHE, write_frame
from gateway.atomic_files import create_file, replace_file
from gateway.observing.samples import Sample, counter, gauge
from gateway.security.audit_chain import AuditUnusable, newest_record, open_files, read_record
from gateway.security.tls import TlsError

EVERY = 1.0
"""Seconds between two looks at the log."""
SETTLED = 5.0
"""Seconds after which what was sent counts as sent."""
AT_ONCE, OCTETS = 500, 256 * 1024
"""Records, and about as many bytes of messages, that are read and sent at once: who takes but 50 KB
a second is to take them within `PATIENCE`. A record of a hundred documents takes 200 KB."""
PATIENCE = 10.0
"""Seconds for a connection, and for what is sent at once."""
LONGEST_WAIT = 300.0
"""Seconds between two attempts to connect, at most; the first waits one."""
_log = structlog.get_logger("dragoman.atna")


class AuditSender:
    """Sends the records of the log at *path* to the repository at *host* and *port*.

    Args:
        tls: Makes what shows this node's certificate, and verifies the repository's: anew for each
            connection, so that a renewed certificate is shown.
        site: Who audits.
    """

    def __init__(
        self, path: Path, host: str, port: int, tls: Callable[[], ssl.SSLContext], site: Site
    ) -> None:
        self._path = path
        self._state = path.with_name(f"{path.name}.sent")
        self._host, self._port, self._tls, self._site = host, port, tls, site
        self._read = 0
        """The number of the record that was read last."""
        self._place = (0, 0)
        """The file (its inode) and the place in it, behind that."""
        self._unsettled: deque[tuple[float, int]] = deque()
        """When something was sent, and the number of its last record."""
        self.settled = 0
        self.sent = 0
        self.failures = 0

    async def run(self) -> None:
        """Send what comes, until it is cancelled."""
        self.settled = self._read = await asyncio.to_thread(self._settled_before)
        wait = 1.0
        while True:
            try:
                tls = await asyncio.to_thread(self._tls)
                async with asyncio.timeout(PATIENCE):
                    reader, writer = await asyncio.open_connection(self._host, self._port, ssl=tls)
            except (OSError, TimeoutError, TlsError) as error:
                self.failures += 1
                _log.warning("audit.repository-away", why=str(error) or "no connection in time")
                await asyncio.sleep(wait)
                wait = min(2 * wait, LONGEST_WAIT)
                continue
            began = time.monotonic()
            try:
                await self._feed(reader, writer)
            except (OSError, TimeoutError) as error:
                self.failures += 1
                _log.warning("audit.repository-away", why=str(error) or "it takes no more")
            finally:
                writer.transport.abort()
                self._unsettled.clear()
                self._read, self._place = self.settled, (0, 0)
            if time.monotonic() - began > SETTLED:
                wait = 1.0
            await asyncio.sleep(wait)
            wait = min(2 * wait, LONGEST_WAIT)

    async def _feed(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send over one connection.

        Raises:
            OSError, TimeoutError: It has ended, or takes no more.
        """
        ended = asyncio.ensure_future(reader.read(1))  # A repository says nothing.
        try:
            while True:
                frames = await asyncio.to_thread(self._next)
                if frames:
                    async with asyncio.timeout(PATIENCE):
                        writer.write(b"".join(frames))
                        await writer.drain()
                    self.sent += len(frames)
                    self._unsettled.append((time.monotonic(), self._read))
                if len(frames) < AT_ONCE and sum(map(len, frames)) < OCTETS:
                    await asyncio.wait([ended], timeout=EVERY)
                if ended.done():
                    raise OSError("it closed the connection")
                await self._settle()
        finally:
            ended.cancel()
            with suppress(BaseException):
                await ended

    async def _settle(self) -> None:
        before, settled = time.monotonic() - SETTLED, 0
        while self._unsettled and self._unsettled[0][0] <= before:
            settled = self._unsettled.popleft()[1]
        if settled:
            await asyncio.to_thread(self._keep, json.dumps({"number": settled}).encode())
            self.settled = settled

    def _keep(self, state: bytes) -> None:
        (replace_file if self._state.exists() else create_file)(self._state, state)

    def _settled_before(self) -> int:
        """The number of the record that was sent last before this process started; 0 where the log
        has begun anew since, for it was moved away."""
        try:
            settled = int(json.loads(self._state.read_bytes())["number"])
        except (OSError, ValueError, TypeError, LookupError):
            return 0
        with suppress(OSError, AuditUnusable):
            newest = newest_record(self._path) or {}
            if int(newest.get("number", 0)) >= settled:
                return settled
        _log.warning("audit.began-anew", settled=settled)
        return 0

    def _next(self) -> list[bytes]:
        """The frames of the records that follow."""
        frames: list[bytes] = []
        octets = 0
        for record in self._records():
            number = record.get("number")
            if not isinstance(number, int) or number <= self._read:
                continue
            self._read = number
            try:
                frame = self._frame(record)
            except Exception:  # It would come again and again, and those behind it never.
                _log.exception("audit.unsendable", number=number)
                continue
            frames.append(frame)
            octets += len(frame)
            if len(frames) == AT_ONCE or octets >= OCTETS:
                break
        return frames

    def _frame(self, record: Mapping[str, Any]) -> bytes:
        kind = OF_IHE if event_of(record).transaction else OF_DICOM
        message = write_message(record, self._site)
        return write_frame(message, time=str(record.get("time", "")), kind=kind)

    def _records(self) -> Iterator[dict[str, Any]]:
        """The records from the place on that was read last; those before are left out by files."""
        with suppress(FileNotFoundError):  # One is too old, or none has begun: the next look tells.
            for _, file in open_files(self._path, behind=self._read):
                yield from self._records_of(file)

    def _records_of(self, file: BinaryIO) -> Iterator[dict[str, Any]]:
        inode = os.fstat(file.fileno()).st_ino
        if inode == self._place[0]:
            file.seek(self._place[1])
        while (line := file.readline()).endswith(b"\n"):
            self._place = (inode, file.tell())
            record = read_record(line)
            if record is not None:
                yield record

    def samples(self) -> Iterator[Sample]:
        """What was sent."""
        yield counter("audit_sent", "Audit messages sent to the repository.", self.sent)
        yield counter("audit_send_failures", "Connections to it that failed.", self.failures)
        yield gauge("audit_settled_record", "The last record that counts as sent.", self.settled)
