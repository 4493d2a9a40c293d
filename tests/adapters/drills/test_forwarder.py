"""The forwarder in front of a system: it passes on, cuts, swallows and delays."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from adapters.drills.forwarder import Forwarder, forwarding
from tests.rigs.ports import free_ports

pytestmark = pytest.mark.asyncio
DEADLINE = 20.0


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while octets := await reader.read(100):
            writer.write(octets.upper())
    writer.close()


@asynccontextmanager
async def answering() -> AsyncIterator[Forwarder]:
    """A forwarder to a server that answers in capitals."""
    server = await asyncio.start_server(_answer, "127.0.0.1", 0)
    async with forwarding("127.0.0.1", server.sockets[0].getsockname()[1]) as forwarder:
        yield forwarder
    server.close()


async def asked(forwarder: Forwarder) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection over which something has gone."""
    reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
    await ask(reader, writer)
    return reader, writer


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"a")
    async with asyncio.timeout(DEADLINE):
        assert await reader.readexactly(1) == b"A"


async def test_it_is_cut_and_joined() -> None:
    async with answering() as forwarder:
        reader, writer = await asked(forwarder)
        await forwarder.cut()
        async with asyncio.timeout(DEADLINE):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        with pytest.raises(OSError):
            await asyncio.open_connection("127.0.0.1", forwarder.port)
        await forwarder.join()
        writer.close()
        _, again = await asked(forwarder)
        again.close()


async def test_it_swallows() -> None:
    async with answering() as forwarder:
        reader, writer = await asked(forwarder)
        forwarder.fall_silent()
        writer.write(b"lost")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await reader.read(1)
        await forwarder.cut()
        writer.close()


async def test_it_delays_and_keeps_the_order() -> None:
    async with answering() as forwarder:
        reader, writer = await asked(forwarder)
        clock = asyncio.get_running_loop().time
        forwarder.delay, begun = 0.1, clock()
        for letter in (b"b", b"c", b"d"):
            writer.write(letter)
            await asyncio.sleep(0)
        async with asyncio.timeout(DEADLINE):
            assert await reader.readexactly(3) == b"BCD"
        assert clock() - begun >= 0.2
        writer.close()


async def test_a_system_that_is_away_ends_connections() -> None:
    async with forwarding("127.0.0.1", free_ports(1)[0]) as forwarder:
        reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
        async with asyncio.timeout(DEADLINE):
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
        writer.close()
