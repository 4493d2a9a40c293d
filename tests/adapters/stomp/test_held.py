"""Frames of a STOMP connection that wait for each other, and when they go out."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from adapters.broker.prefetch import HELD
from adapters.stomp.connection import Address, Connection


class FakeServer:
    """Answers CONNECT and receipts, and keeps what else it reads, by reads."""

    def __init__(self) -> None:
        self.reads: list[bytes] = []
        self.came = asyncio.Event()
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await reader.readuntil(b"\0")
            writer.write(b"CONNECTED\nversion:1.2\nheart-beat:0,0\n\n\0")
            while data := await reader.read(2**16):
                self.reads.append(data)
                self.came.set()
                if b"DISCONNECT" in data:
                    receipt = data.partition(b"receipt:")[2].partition(b"\n")[0]
                    writer.write(b"RECEIPT\nreceipt-id:" + receipt + b"\n\n\0")
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.ended.set()

    @property
    def acknowledged(self) -> list[bytes]:
        frames = b"".join(self.reads).split(b"\0")
        return [frame.strip() for frame in frames if frame.strip().startswith(b"ACK")]


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Connection, FakeServer]]:
    broker = FakeServer()
    server = await asyncio.start_server(broker.serve, "127.0.0.1", 0)
    connection = await Connection.open(Address(*server.sockets[0].getsockname()))
    try:
        yield connection, broker
    finally:
        await connection.close(5)
        async with asyncio.timeout(60):
            await broker.ended.wait()
        server.close()
        await server.wait_closed()


async def test_as_many_as_may_wait_go_out_in_one_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("adapters.stomp.connection.HELD", 60.0)
    async with connected() as (connection, broker):
        for number in range(8):
            connection.send_later("ACK", {"id": str(number)}, 8)
            await asyncio.sleep(0)
        async with asyncio.timeout(60):
            await broker.came.wait()
        assert len(broker.reads) == 1
        assert [frame[-1:] for frame in broker.acknowledged] == [b"%d" % n for n in range(8)]


async def test_fewer_go_out_after_a_moment() -> None:
    async with connected() as (connection, broker):
        connection.send_later("ACK", {"id": "1"}, 8)
        async with asyncio.timeout(HELD + 5):
            await broker.came.wait()
        assert len(broker.acknowledged) == 1


async def test_what_waits_goes_out_before_what_does_not() -> None:
    async with connected() as (connection, broker):
        connection.send_later("ACK", {"id": "1"}, 8)
        connection.send("SEND", {"destination": "d"})
        async with asyncio.timeout(60):
            await broker.came.wait()
        octets = b"".join(broker.reads)
        assert 0 <= octets.index(b"ACK") < octets.index(b"SEND")


async def test_closing_sends_what_waits() -> None:
    async with connected() as (connection, broker):
        connection.send_later("ACK", {"id": "1"}, 8)
        await connection.close(5)
        assert len(broker.acknowledged) == 1
