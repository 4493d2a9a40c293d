"""Peers whose every octet is written out, and what sends to them.

Each listens on a real socket and runs a handler for each connection. Where only what is delivered
matters, `tests.rigs.consumers` is shorter.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from ipaddress import ip_address

import pytest

from gateway.egress import (
    AddressPolicy,
    ClientLimits,
    Dialer,
    HttpTransport,
    IPAddress,
    Request,
    SendFailed,
    parse_target,
)

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

ACCEPTED = b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"
QUICK = ClientLimits(resolve=0.2, connect=0.5, exchange=0.5)


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """One request, head and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    return head + await reader.readexactly(length)


class ScriptedPeer:
    """A listener on loopback; every connection runs *handler*."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._tasks: set[asyncio.Task[None]] = set()
        self.connections = 0
        self.port = 0
        self._reached = asyncio.Event()

    async def reached(self) -> None:
        """Wait for the first connection."""
        await asyncio.wait_for(self._reached.wait(), 5)

    def url(self, path: str = "/consumer", host: str = "127.0.0.1", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._reached.set()
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._handler(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self._tasks.discard(task)
            writer.transport.abort()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


@asynccontextmanager
async def consuming(
    handler: Handler, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
) -> AsyncIterator[ScriptedPeer]:
    consumer = ScriptedPeer(handler)
    server = await asyncio.start_server(consumer.run, host, 0, ssl=tls)
    consumer.port = server.sockets[0].getsockname()[1]
    try:
        yield consumer
    finally:
        server.close()
        await consumer.stop()
        await server.wait_closed()


def saying(*answers: bytes) -> Handler:
    """Answers one request with each of *answers*, then closes."""

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in answers:
            await read_request(reader)
            writer.write(answer)
            await writer.drain()

    return handler


async def keeping(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accepts messages for as long as they come."""
    while True:
        await read_request(reader)
        writer.write(ACCEPTED)


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Takes the message and says nothing."""
    await reader.read()


@asynccontextmanager
async def sending(
    policy: AddressPolicy | None = None,
    *,
    resolver: "StubResolver | None" = None,
    limits: ClientLimits | None = None,
    tls: ssl.SSLContext | None = None,
) -> AsyncIterator[HttpTransport]:
    limits = limits or ClientLimits(exchange=10.0)
    policy = policy or AddressPolicy(allow=["127.0.0.0/8"])
    dialer = Dialer(policy, resolver=resolver, limits=limits, tls=tls)
    transport = HttpTransport(dialer, limits=limits)
    try:
        yield transport
    finally:
        await transport.close()
        dialer.close()


def message(url: str, body: bytes = b"<event/>") -> Request:
    headers = (("Content-Type", "application/soap+xml; charset=utf-8"), ("SOAPAction", '"urn:n"'))
    return Request(parse_target(url), body, headers)


async def failure_of(transport: HttpTransport, request: Request) -> SendFailed:
    with pytest.raises(SendFailed) as failure:
        await transport.send(request)
    return failure.value


class StubResolver:
    """Answers from a script: one list of addresses, or an error, a look-up."""

    def __init__(self, *answers: Sequence[str] | OSError | None) -> None:
        self._answers = list(answers)
        self.asked: list[str] = []

    async def resolve(self, host: str) -> Sequence[IPAddress]:
        self.asked.append(host)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            await asyncio.get_running_loop().create_future()
        if isinstance(answer, OSError):
            raise answer
        return [ip_address(address) for address in answer or ()]

    def close(self) -> None:
        pass
