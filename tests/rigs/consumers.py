"""Consumers that behave as they are told, and keep what they get."""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tests.rigs.waiting import DEADLINE
from tests.rigs.waiting import until as until

_LENGTH = re.compile(rb"content-length: *([0-9]+)", re.IGNORECASE)
_NUMBER = re.compile(rb"<n>([^<]+)</n>")
_ID = re.compile(rb"MessageID>([^<]+)<")

ENDLESS = 100 * 2**20


class Connection(asyncio.Protocol):
    """One connection of the gateway to the consumers; the path says to which."""

    def __init__(self, consumers: "Consumers") -> None:
        self._consumers = consumers
        self._buffer = b""
        self.open = True
        self.answered = True
        """Nothing that came is without an answer."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._consumers.connections.add(self)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            length = _LENGTH.search(head) if found else None
            if length is None or len(rest) < int(length[1]):
                return
            body, self._buffer = rest[: int(length[1])], rest[int(length[1]) :]
            self.answered = False
            self._consumers.by_path[head.split(b" ", 2)[1].decode()].receive(self, body)

    def connection_lost(self, exc: Exception | None) -> None:
        self.open = False
        self._consumers.connections.discard(self)

    def answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Said", f"Content-Length: {len(body)}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.answered = True
        if self.open:
            self.transport.write("\r\n".join([*lines, "", ""]).encode() + body)


Behaviour = Callable[[Connection, "Receipt"], None]


def accept(connection: Connection, _: "Receipt") -> None:
    connection.answer(202)


def hang(_: Connection, __: "Receipt") -> None:
    """Never answer."""


def reset(connection: Connection, _: "Receipt") -> None:
    connection.transport.abort()


def drip(connection: Connection, _: "Receipt") -> None:
    """An answer of one octet a second."""
    octets = iter(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nX-Long: " + b"x" * 1000)
    loop = asyncio.get_running_loop()

    def one() -> None:
        if connection.open:
            connection.transport.write(bytes([next(octets)]))
            loop.call_later(1.0, one)

    one()


def endless(connection: Connection, _: "Receipt") -> None:
    """An answer of 100 MiB."""
    left = ENDLESS
    transport, loop = connection.transport, asyncio.get_running_loop()
    transport.write(f"HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n".encode())

    def more() -> None:
        nonlocal left
        if connection.open and left > 0:
            if transport.get_write_buffer_size() < 2**20:
                transport.write(bytes(2**16))
                left -= 2**16
            loop.call_later(0.02, more)

    more()


def status(code: int, body: bytes = b"", **headers: str) -> Behaviour:
    return lambda connection, _: connection.answer(code, body, **headers)


def slow(seconds: float) -> Behaviour:
    """202, later."""

    def behave(connection: Connection, _: "Receipt") -> None:
        asyncio.get_running_loop().call_later(seconds, connection.answer, 202)

    return behave


@dataclass(frozen=True, slots=True)
class Receipt:
    """One message as it came; *at* is of the monotonic clock."""

    number: str
    id: str
    at: float
    body: bytes


@dataclass(eq=False)
class OneConsumer:
    """A consumer with an address, and so a destination, of its own."""

    url: str
    behaviour: Behaviour = accept
    keep: bool = True
    received: list[Receipt] = field(default_factory=list)
    """What came, whatever was answered."""
    count: int = 0
    busy: int = 0
    most_busy: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def receive(self, connection: Connection, body: bytes) -> None:
        number, id_ = _NUMBER.search(body), _ID.search(body)
        receipt = Receipt(
            number[1].decode() if number else "",
            id_[1].decode() if id_ else "",
            time.monotonic(),
            body if self.keep else b"",
        )
        self.count += 1
        self.received.append(receipt)
        self.changed.set()
        self.behaviour(connection, receipt)

    @property
    def numbers(self) -> list[str]:
        return [receipt.number for receipt in self.received]

    async def until(self, holds: Callable[[], bool], seconds: float = DEADLINE) -> None:
        """Return once *holds*, which is asked after each receipt."""
        async with asyncio.timeout(seconds):
            while not holds():
                self.changed.clear()
                await self.changed.wait()

    async def have(self, count: int, seconds: float = DEADLINE) -> list[str]:
        """Wait for *count* receipts; their numbers."""
        await self.until(lambda: self.count >= count, seconds)
        return self.numbers

    async def have_all(self, numbers: Collection[str], seconds: float = 2 * DEADLINE) -> None:
        """Wait until all of *numbers* have come."""
        await self.until(lambda: self.count >= len(numbers), seconds)
        await self.until(lambda: set(numbers) <= set(self.numbers), seconds)


class Consumers:
    """Any number of consumers on one port, each with a host of its own in 127.0.0.0/8."""

    def __init__(self) -> None:
        self.by_path: dict[str, OneConsumer] = {}
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def listen(self) -> None:
        """Be there; at the same port when they were away."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self), "0.0.0.0", self.port, backlog=4096
        )  # fmt: skip
        self.port = self._server.sockets[0].getsockname()[1]

    async def leave(self) -> None:
        """Be away: connections are refused."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.connections):
            connection.transport.abort()

    def add(self, behaviour: Behaviour = accept, *, keep: bool = True) -> OneConsumer:
        number = len(self.by_path) + 1
        path = f"/c{number}"
        host = f"127.0.{1 + number // 250}.{1 + number % 250}"
        consumer = OneConsumer(f"http://{host}:{self.port}{path}", behaviour, keep)
        self.by_path[path] = consumer
        return consumer


@asynccontextmanager
async def consumers() -> AsyncIterator[Consumers]:
    all_of_them = Consumers()
    await all_of_them.listen()
    try:
        yield all_of_them
    finally:
        await all_of_them.leave()
