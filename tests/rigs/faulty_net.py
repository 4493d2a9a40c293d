"""A TCP relay in front of a server that does to connections what networks do: it refuses, resets,
closes half, cuts off, hangs, drips, delays, and sends requests twice."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from tests.rigs.waiting import wait_until

CHUNK = 65_536
DRIP, LATE = 0.002, 0.2
DRIPPED = 200
"""Bytes that come one by one; what is behind them comes at once."""


class Fault(Enum):
    """What becomes of a connection, and of what goes over it."""

    NONE = "everything passes"
    REFUSE = "a connection ends with the next thing that is sent, and a new one at once"
    RESET = "the connection is reset in the middle of what is sent"
    HALF_CLOSE = "one direction ends, the other goes on"
    TRUNCATE = "an answer is cut off, and the connection ends"
    HANG = "nothing comes, and nothing ends"
    DRIP = "one byte after the other"
    DELAY = "everything comes late"
    DUPLICATE = "a request comes twice, on two connections"


class FaultyNet:
    """A relay to the server at *target*.

    Attributes:
        fault: What happens now, also to connections that are open.
        counts: How often each fault befell something.
    """

    def __init__(self, target: tuple[str, int]) -> None:
        self._target = target
        self.fault = Fault.NONE
        self.counts: Counter[Fault] = Counter()
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._ended = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def run(self, started: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._ended.wait()
        server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._ended.set)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if self.fault is Fault.REFUSE:
                self.counts[Fault.REFUSE] += 1
                _reset(writer)
                return
            with contextlib.suppress(OSError):
                back, out = await asyncio.open_connection(*self._target)
                requests = asyncio.create_task(self._pump(reader, out, asks=True))
                try:
                    await self._pump(back, writer, asks=False)
                finally:
                    requests.cancel()
                    await asyncio.gather(requests, return_exceptions=True)
                    out.close()
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, asks: bool
    ) -> None:
        """Pass on what comes, until it ends; a fault is that of the moment when something comes."""
        with contextlib.suppress(OSError):
            while octets := await reader.read(CHUNK):
                if not await self._pass(octets, writer, asks=asks):
                    return

    async def _pass(self, octets: bytes, writer: asyncio.StreamWriter, *, asks: bool) -> bool:
        """Pass *octets* on, or what is left of them; whether the connection goes on."""
        fault = self.fault
        self.counts[fault] += 1
        match fault:
            case Fault.RESET | Fault.REFUSE:
                writer.write(octets[: len(octets) // 2])
                await writer.drain()
                _reset(writer)
                return False
            case Fault.HALF_CLOSE if not asks:
                writer.write(octets[: len(octets) // 2])
                writer.write_eof()
                return False
            case Fault.TRUNCATE if not asks:
                writer.write(octets[:-1])
                await writer.drain()
                return False
            case Fault.HANG:
                await asyncio.Event().wait()
            case Fault.DRIP:
                for at in range(min(len(octets), DRIPPED)):
                    writer.write(octets[at : at + 1])
                    await writer.drain()
                    await asyncio.sleep(DRIP)
                octets = octets[DRIPPED:]
            case Fault.DELAY:
                await asyncio.sleep(LATE)
            case Fault.DUPLICATE if asks:
                await self._send_apart(octets)
        writer.write(octets)
        await writer.drain()
        return True

    async def _send_apart(self, octets: bytes) -> None:
        """Send a request on a connection of its own; nobody reads the answer."""
        _, out = await asyncio.open_connection(*self._target)
        out.write(octets)
        await out.drain()
        out.close()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with RST."""
    own: socket.socket = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@contextmanager
def faulty_net(host: str, port: int) -> Iterator[FaultyNet]:
    """Run a relay to a server, on a thread."""
    started = threading.Event()
    made: list[FaultyNet] = []

    async def run() -> None:
        made.append(FaultyNet((host, port)))
        await made[0].run(started)

    thread = threading.Thread(target=lambda: asyncio.run(run()), name="net", daemon=True)
    thread.start()
    wait_until(started.is_set)
    try:
        yield made[0]
    finally:
        made[0].end()
        thread.join(60)
