"""Closes connections that asyncio accepts and then forgets, as a listener or its loop ends.

Between the accept of a connection and the making of its transport the loop does other things. If one
of them closes the listener, the transport is begun and dropped; if one ends the loop, it is never
begun. The socket stays open until Python's collector comes, which warns of it in whichever test runs
then (asyncio of 3.11 to 3.13).
"""

import asyncio
import socket
import weakref
from asyncio.selector_events import BaseSelectorEventLoop
from collections.abc import Coroutine
from typing import Any, cast

_plain: Any = cast(Any, BaseSelectorEventLoop)._accept_connection2


def close_forgotten() -> None:
    """Close them, in all event loops from now on."""
    cast(Any, BaseSelectorEventLoop)._accept_connection2 = _accept


def _accept(
    loop: asyncio.AbstractEventLoop,
    protocol_factory: object,
    connection: socket.socket,
    extra: object,
    sslcontext: object = None,
    server: asyncio.Server | None = None,
    *args: Any,
    **named: Any,
) -> Coroutine[Any, Any, None]:
    async def make_transport() -> None:
        unbegun.detach()
        if server is not None and not server.sockets:
            connection.close()
        else:
            await _plain(
                loop, protocol_factory, connection, extra, sslcontext, server, *args, **named
            )

    making = make_transport()
    unbegun = weakref.finalize(making, connection.close)
    return making
