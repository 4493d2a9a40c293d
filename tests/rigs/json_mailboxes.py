"""Mailboxes as programs use them that speak no SOAP: JSON, and Server-Sent Events."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Self

from gateway.web.refusals import problem
from tests.rigs.gateways import Running, exchange, http_request
from tests.rigs.processes import GatewayProcess
from tests.rigs.waiting import DEADLINE

UNKNOWN = problem(404, "There is no such mailbox.", "mailbox-unknown")


async def call(
    run: Running | GatewayProcess,
    method: str,
    path: str,
    body: object = None,
    *,
    status: int = 200,
    source: str = "127.0.0.1",
) -> Any:
    """Send a request with JSON; what was answered, with this status."""
    octets = b"" if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = http_request(run.port, method, path, octets, headers)
    answer = await exchange(run.port, request, source)
    assert answer.status == status, answer.body
    return json.loads(answer.body) if answer.body else None


@dataclass(frozen=True)
class Box:
    """A mailbox, by its key."""

    run: Running | GatewayProcess
    key: str
    id: str
    source: str = "127.0.0.1"

    @classmethod
    async def make(
        cls, run: Running | GatewayProcess, *, source: str = "127.0.0.1", **wanted: object
    ) -> Self:
        made = await call(run, "POST", "/mailboxes", wanted, status=201, source=source)
        assert made["address"] == f"{run.url}/mailboxes/{made['key']}"
        assert made["events"] == made["address"] + "/events"
        return cls(run, made["key"], made["id"], source)

    @property
    def path(self) -> str:
        return f"/mailboxes/{self.key}"

    @property
    def address(self) -> str:
        return self.run.url + self.path

    async def do(self, operation: str, *, status: int = 200, **body: object) -> Any:
        path = f"{self.path}/{operation}"
        return await call(self.run, "POST", path, body, status=status, source=self.source)

    async def size(self) -> Any:
        return await call(self.run, "GET", self.path)

    async def receive(self, **body: object) -> Any:
        body.setdefault("wait", 0)
        return await call(self.run, "POST", f"{self.path}/receive", body, source=self.source)

    async def take(self, **body: object) -> list[str]:
        """The payloads' texts, acknowledged."""
        batch = await self.receive(**body)
        if batch["messages"]:
            await self.do("acknowledge", lease=batch["lease"])
        return numbers(batch["messages"])

    async def put(self, *texts: object) -> None:
        """Send an event for each text into the box, as others do."""
        for text in texts:
            await put(self.run, self.path, text)


async def put(run: Running | GatewayProcess, path: str, text: object, filling: int = 0) -> None:
    """Send an event with a text; it is in the box when this returns."""
    octets = (
        '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" '
        'xmlns:a="http://www.w3.org/2005/08/addressing"><s:Header>'
        f"<a:MessageID>urn:m:{text}</a:MessageID><a:Action>urn:put</a:Action></s:Header>"
        f"<s:Body><n><f>{'x' * filling}</f>{text}</n></s:Body></s:Envelope>"
    ).encode()
    headers = {"Content-Type": "application/soap+xml"}
    answer = await exchange(run.port, http_request(run.port, "POST", path, octets, headers))
    assert answer.status == 202, answer.body


def numbers(messages: list[Any]) -> list[str]:
    """The texts of payloads."""
    return [message["payload"].rpartition("<")[0].rpartition(">")[2] for message in messages]


@dataclass
class SentEvent:
    """An event as it was dispatched."""

    type: str
    data: str
    id: str

    @property
    def number(self) -> str:
        return numbers([json.loads(self.data)])[0]


@dataclass
class Stream:
    """An open stream, read as WHATWG HTML says ("Interpreting an event stream")."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    status: int
    headers: dict[str, str]
    last_id: str = ""
    retry: int | None = None
    comments: int = 0
    _buffer: bytes = b""
    _data: list[str] = field(default_factory=list)
    _type: str = ""

    async def next(self) -> SentEvent | None:
        """The next event; None at the end of the stream."""
        while True:
            line = await asyncio.wait_for(self._line(), DEADLINE)
            if line is None:
                return None
            if not line:
                data, type_ = "\n".join(self._data), self._type or "message"
                self._data, self._type = [], ""
                if data:
                    return SentEvent(type_, data, self.last_id)
                continue
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            match name:
                case "":
                    self.comments += 1
                case "data":
                    self._data.append(value)
                case "event":
                    self._type = value
                case "id":
                    self.last_id = value
                case "retry":
                    self.retry = int(value)

    async def take(self, count: int) -> list[str]:
        """The texts of the next messages."""
        events = [await self.next() for _ in range(count)]
        return [event.number for event in events if event is not None]

    async def _line(self) -> str | None:
        while b"\n" not in self._buffer:
            chunk = await self._chunk()
            if not chunk:
                return None
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    async def _chunk(self) -> bytes:
        """One chunk of the chunked coding; nothing at its end."""
        length = int((await self.reader.readuntil(b"\r\n"))[:-2], 16)
        chunk = await self.reader.readexactly(length + 2)
        return chunk[:-2]

    def reset(self) -> None:
        """Break the connection."""
        self.writer.transport.abort()


@asynccontextmanager
async def streaming(
    box: Box, *, last_event_id: str = "", query: str = "", limit: int = 2**20
) -> AsyncIterator[Stream]:
    """The stream of a mailbox."""
    reader, writer = await asyncio.open_connection("127.0.0.1", box.run.port, limit=limit)
    try:
        lines = [f"GET {box.path}/events{query} HTTP/1.1", f"Host: 127.0.0.1:{box.run.port}"]
        lines += [f"Last-Event-ID: {last_event_id}"] if last_event_id else []
        writer.write("\r\n".join([*lines, "Accept: text/event-stream", "", ""]).encode())
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), DEADLINE)
        first, *fields = head[:-4].decode().split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (one.partition(": ") for one in fields)
        }
        yield Stream(reader, writer, int(first.split()[1]), headers)
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
