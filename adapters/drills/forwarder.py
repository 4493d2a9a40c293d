"""A forwarder of TCP connections to a messaging system, which can be cut, fall silent and be slow.

It stands between an adapter and a system of which nothing may be stopped.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

PIECE = 2**16
AHEAD = 256
"""Pieces that wait to be passed on, in one direction of a connection."""
CONNECT = 10.0
"""Seconds in which the system is to take a connection."""


class Forwarder:
    """Passes connections to ``port`` of 127.0.0.1 on to a host and port.

    Attributes:
        delay: Seconds by which all arrives later, in each direction.
    """

    def __init__(self, host: str, port: int) -> None:
        self._target = host, port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._silent = False
        self.delay = 0.0
        self.port = 0

    async def join(self) -> None:
        """Let connections through; the port stays the same from the first call on."""
        self._silent, self.delay = False, 0.0
        if self._server is None:
            self._server = await asyncio.start_server(self._forward, "127.0.0.1", self.port)
            self.port = self._server.sockets[0].getsockname()[1]

    async def cut(self) -> None:
        """End all connections and refuse new ones."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()
        await asyncio.sleep(0)

    def fall_silent(self) -> None:
        """Swallow all that comes, on connections that stay open."""
        self._silent = True

    async def close(self) -> None:
        """End everything."""
        await self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            async with asyncio.timeout(CONNECT):
                far_reader, far_writer = await asyncio.open_connection(*self._target)
            ends = writer, far_writer
            self._writers.update(ends)
            try:
                await asyncio.gather(
                    self._pass(reader, far_writer, ends), self._pass(far_reader, writer, ends)
                )
            finally:  # One that came while others were ended is ended, too.
                for end in ends:
                    end.transport.abort()
        except OSError:  # of which TimeoutError is one
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        ends: tuple[asyncio.StreamWriter, asyncio.StreamWriter],
    ) -> None:
        """Pass one direction on until it ends, which ends the connection."""
        pieces: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(AHEAD)
        writing = asyncio.create_task(self._write(pieces, writer))
        clock = asyncio.get_running_loop().time
        with contextlib.suppress(OSError):
            while octets := await reader.read(PIECE):
                if not self._silent:
                    await pieces.put((clock() + self.delay, octets))
            await pieces.join()
        writing.cancel()
        for end in ends:
            end.transport.abort()
            self._writers.discard(end)

    async def _write(
        self, pieces: asyncio.Queue[tuple[float, bytes]], writer: asyncio.StreamWriter
    ) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            due, octets = await pieces.get()
            with contextlib.suppress(OSError):
                if due > (now := clock()):
                    await asyncio.sleep(due - now)
                if not self._silent:
                    writer.write(octets)
                    await writer.drain()
            pieces.task_done()


@asynccontextmanager
async def forwarding(host: str, port: int) -> AsyncIterator[Forwarder]:
    """Run a forwarder to *host* and *port*."""
    forwarder = Forwarder(host, port)
    await forwarder.join()
    try:
        yield forwarder
    finally:
        await forwarder.close()
