"""Consumers that behave as they are told, and keep what they get.

`Consumers` listens; each `Consumer` is one address at it. Who talks to a consumer's socket octet by
octet finds `tests.rigs.scripted_peers` instead.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Self

from lxml import etree

from tests.rigs.envelopes import WSE11, WSNT, Message, children, next_number
from tests.rigs.ports import free_ports
from tests.rigs.waiting import DEADLINE, until

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
        if self._consumers.away:  # It was accepted before.
            transport.abort()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while True:
            head, found, rest = self._buffer.partition(b"\r\n\r\n")
            stated = _LENGTH.search(head)
            length = int(stated[1]) if stated else 0
            if not found or len(rest) < length:
                return
            body, self._buffer = rest[:length], rest[length:]
            self.answered = False
            path = head.split(b" ", 2)[1].decode()
            self._consumers.at(path).receive(self, body, path, head)

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


WSMAN_ACTIONS = "http://schemas.dmtf.org/wbem/wsman/1/wsman/"
_WSA = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
_SOAP = "http://www.w3.org/2003/05/soap-envelope"


def ack(relates_to: str, *, action: str = f"{WSMAN_ACTIONS}Ack", message_id: bool = True) -> bytes:
    """The acknowledgement of a sink of WS-Management."""
    own = "<wsa:MessageID>uuid:of-the-ack</wsa:MessageID>" if message_id else ""
    return (
        f'<s:Envelope xmlns:s="{_SOAP}" xmlns:wsa="{_WSA}"><s:Header>'
        f"<wsa:To>{_WSA}/role/anonymous</wsa:To><wsa:Action>{action}</wsa:Action>{own}"
        f"<wsa:RelatesTo>{relates_to}</wsa:RelatesTo></s:Header><s:Body/></s:Envelope>"
    ).encode()


def acknowledge(connection: Connection, receipt: "Receipt") -> None:
    """A sink of WS-Management, which acknowledges what it gets."""
    connection.answer(200, ack(receipt.id), Content_Type="application/soap+xml")


def refuse_deliveries(connection: Connection, _: "Receipt") -> None:
    """A sink of WS-Management that wants no more."""
    connection.answer(
        400,
        f'<s:Envelope xmlns:s="{_SOAP}" xmlns:w="http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd">'
        "<s:Body><s:Fault><s:Code><s:Value>s:Sender</s:Value><s:Subcode>"
        "<s:Value>w:DeliveryRefused</s:Value></s:Subcode></s:Code><s:Reason>"
        '<s:Text xml:lang="en">Enough.</s:Text></s:Reason></s:Fault></s:Body>'
        "</s:Envelope>".encode(),
    )


@dataclass(frozen=True, slots=True)
class Receipt:
    """One message as it came; *at* is of the monotonic clock."""

    path: str
    headers: Mapping[str, str]
    """By their names in lower case."""
    body: bytes
    number: str = ""
    id: str = ""
    at: float = 0.0
    method: str = "POST"

    @property
    def message(self) -> Message:
        return Message(self.body)

    @property
    def payload(self) -> etree._Element:
        """The event, wrapped or not."""
        [child] = self.message.body
        if child.tag == f"{{{WSE11}}}Notify":
            [payload] = children(child)
            return payload
        if child.tag != f"{{{WSNT}}}Notify":
            return child
        [inner] = child.findall(f"{{{WSNT}}}NotificationMessage/{{{WSNT}}}Message")
        [payload] = children(inner)
        return payload

    @property
    def events(self) -> list[str]:
        """The numbers of the events in a batch of WS-Management."""
        return [number.decode() for number in _NUMBER.findall(self.body)]

    @property
    def topic(self) -> etree._Element | None:
        """The topic's element, of the message or its header."""
        message = self.message
        in_header = message.header("Topic", WSNT)
        if in_header is not None:
            return in_header
        return message.find(f"{{{WSNT}}}Notify/{{{WSNT}}}NotificationMessage/{{{WSNT}}}Topic")


def _headers(head: bytes) -> dict[str, str]:
    pairs = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


@dataclass(eq=False)
class Consumer:
    """A consumer with an address, and so a destination, of its own."""

    url: str
    behaviour: Behaviour = accept
    keep: bool = True
    """Whether bodies and headers are kept."""
    received: list[Receipt] = field(default_factory=list)
    """What came, whatever was answered."""
    count: int = 0
    busy: int = 0
    most_busy: int = 0
    taken: int = 0
    """How many `next` has returned."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def receive(
        self, connection: Connection, body: bytes, path: str = "", head: bytes = b""
    ) -> None:
        number, id_ = _NUMBER.search(body), _ID.search(body)
        receipt = Receipt(
            path,
            _headers(head) if self.keep else {},
            body if self.keep else b"",
            number[1].decode() if number else "",
            id_[1].decode() if id_ else "",
            time.monotonic(),
            head.partition(b" ")[0].decode(),
        )
        self.count += 1
        self.received.append(receipt)
        self.changed.set()
        self.behaviour(connection, receipt)

    @property
    def numbers(self) -> list[str]:
        return [receipt.number for receipt in self.received]

    async def next(self) -> Receipt:
        """The first that was not taken."""
        await self.until(lambda: self.waiting > 0)
        self.taken += 1
        return self.received[self.taken - 1]

    @property
    def waiting(self) -> int:
        """How many have come and were not taken."""
        return len(self.received) - self.taken

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
    """Any number of consumers on one port, each at a path.

    What `add` makes has a host of its own in 127.0.0.0/8, too, and so is a destination of its own.
    What is sent to another path is accepted and kept.
    """

    def __init__(self) -> None:
        self.by_path: dict[str, Consumer] = {}
        self.connections: set[Connection] = set()
        self._server: asyncio.Server | None = None
        (self.port,) = free_ports(1)

    async def __aenter__(self) -> Self:
        await self.listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()
        for _turn in range(5):  # Those that were accepted are made, then lost.
            await asyncio.sleep(0)
        await until(lambda: not self.connections)

    @property
    def away(self) -> bool:
        """Nobody is there."""
        return self._server is None

    async def listen(self) -> None:
        """Be there; always at the same port."""
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self), "0.0.0.0", self.port, backlog=4096
        )  # fmt: skip

    async def leave(self) -> None:
        """Be away: connections are refused."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.connections):
            connection.transport.abort()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"

    def fresh(self) -> str:
        """The URL of a path that nothing has been sent to."""
        return self.url(f"fresh{next_number()}")

    def at(self, where: str) -> Consumer:
        """The consumer at a path, or at the path of a URL."""
        path = where if where.startswith("/") else where[where.index("/", len("http://")) :]
        return self.by_path.setdefault(path, Consumer(self.url(path[1:])))

    async def next(self, url: str) -> Receipt:
        """The next request to *url*."""
        return await self.at(url).next()

    def waiting(self, url: str) -> int:
        """How many have come to *url* and were not taken."""
        return self.at(url).waiting

    def add(self, behaviour: Behaviour = accept, *, keep: bool = True) -> Consumer:
        number = len(self.by_path) + 1
        path = f"/c{number}"
        host = f"127.0.{1 + number // 250}.{1 + number % 250}"
        consumer = Consumer(f"http://{host}:{self.port}{path}", behaviour, keep)
        self.by_path[path] = consumer
        return consumer


@asynccontextmanager
async def consumers() -> AsyncIterator[Consumers]:
    async with Consumers() as all_of_them:
        yield all_of_them
