"""No connection that was accepted while its listener or its loop ended is left to the collector."""

import asyncio
import gc
import socket
import ssl
import warnings

import pytest


class Aborting(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


@pytest.mark.parametrize("ends", ["listener", "loop"])
def test_none_is_left_open(ends: str) -> None:
    """However many turns of the loop after they came it ends."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", ResourceWarning)
        for turns in range(4):
            for secure in (False, True):
                accept(ends, turns, secure)
        gc.collect()
    assert not [str(one.message) for one in told]


def accept(ends: str, turns: int, secure: bool) -> None:
    """Connect some, and end the listener or the loop so many turns later."""
    listening = socket.create_server(("127.0.0.1", 0))
    clients: list[socket.socket] = []

    async def listen() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if secure else None
        server = await asyncio.get_running_loop().create_server(
            Aborting, sock=listening, ssl=context
        )
        clients.extend(socket.create_connection(listening.getsockname()) for _ in range(3))
        for _ in range(turns):
            await asyncio.sleep(0)
        if ends == "listener":
            server.close()
            await asyncio.sleep(0.05)

    asyncio.run(listen())
    for each in (listening, *clients):
        each.close()
