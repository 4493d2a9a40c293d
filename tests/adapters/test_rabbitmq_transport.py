"""pika on the event loop's own transports: what goes wrong while a connection is opened."""

import asyncio
from collections.abc import Callable
from contextlib import closing

import pika
import pytest

from adapters.rabbitmq.connection import Connection, Lost

Served = Callable[[asyncio.StreamReader, asyncio.StreamWriter], None]


def abort(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()


def close(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


def speak_first(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"220 mail.example ESMTP\r\n")
    writer.close()


@pytest.mark.parametrize("served", [abort, close, speak_first])
async def test_a_peer_that_is_no_broker(served: Served) -> None:
    """It is told at once, not after pika's time for the whole stack."""
    server = await asyncio.start_server(served, "127.0.0.1", 0)
    with closing(server):
        parameters = pika.ConnectionParameters(
            "127.0.0.1",
            server.sockets[0].getsockname()[1],
            connection_attempts=1,
            stack_timeout=10,
        )
        async with asyncio.timeout(5):
            for _ in range(5):
                with pytest.raises(Lost):
                    await Connection.open(parameters)


async def test_opening_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is left behind: no socket, no task that fails."""
    came, left = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.set()
        await reader.read()
        left.set()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with closing(server):
        port = server.sockets[0].getsockname()[1]
        opening = asyncio.create_task(
            Connection.open(pika.ConnectionParameters("127.0.0.1", port, connection_attempts=1))
        )
        async with asyncio.timeout(5):
            await came.wait()
            opening.cancel()
            with pytest.raises(asyncio.CancelledError):
                await opening
            await left.wait()
    assert "exception was never retrieved" not in caplog.text
