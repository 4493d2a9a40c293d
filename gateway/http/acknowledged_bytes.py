"""Finds out whether a peer has an answer: not only that it was written, but that its system
acknowledged it; and when the peer has gone."""

import asyncio
import contextlib
import os
import socket
from typing import Protocol

from starlette.types import Receive, Scope

from gateway.unacknowledged_bytes import unacknowledged

CONNECTION = "dragoman.connection"
"""The extension of the ASGI scope that is the connection."""
_SOONEST, _LATEST = 0.001, 0.05


class Connection(Protocol):
    """The connection of a request.

    Attributes:
        endless: The answer has no end of its own: a peer that closes its side has gone.
    """

    endless: bool

    @property
    def lost(self) -> bool | None:
        """None while it is open; then whether it broke, with something unwritten or by a reset."""

    @property
    def unwritten(self) -> int:
        """Octets that the system has not taken yet."""

    @property
    def socket(self) -> socket.socket | None: ...

    @property
    def certificate(self) -> bytes | None:
        """The client's own of TLS, in DER, which was verified; None where it showed none."""


def answer_without_end(scope: Scope) -> None:
    """Say that the answer to the request of *scope* has no end of its own, so that its peer counts
    as gone as soon as it closes its side; else it might still read what is left."""
    connection: Connection | None = scope.get("extensions", {}).get(CONNECTION)
    if connection is not None:
        connection.endless = True


async def until_gone(receive: Receive) -> None:
    """Return when the peer has gone. Its request was read to the end, so nothing else can come."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def was_delivered(scope: Scope, seconds: float) -> bool:
    """Wait until the peer of *scope* has all of the answer, *seconds* at most. Returns whether it
    has.

    To be awaited as soon as the answer is written. A proxy in between counts as the peer: nobody
    sees further than to the next hop.
    """
    connection: Connection | None = scope.get("extensions", {}).get(CONNECTION)
    if connection is None:
        return True
    # A descriptor of our own: the connection may be closed when all is written, and what is on its
    # way then would be out of sight.
    own = None
    sock = connection.socket
    with contextlib.suppress(OSError):
        own = socket.socket(fileno=os.dup(sock.fileno())) if sock is not None else None
    try:
        return await _has_arrived(connection, own, seconds)
    finally:
        if own is not None:
            own.close()


async def _has_arrived(connection: Connection, own: socket.socket | None, seconds: float) -> bool:
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    pause = _SOONEST
    while True:
        if connection.lost:
            return False
        if connection.lost is False or not connection.unwritten:
            if own is None:
                return not connection.lost
            if own.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                return False  # The peer has reset it.
            if not unacknowledged(own.fileno()):
                return True
        if loop.time() >= end:
            return False
        await asyncio.sleep(pause)
        pause = min(2 * pause, _LATEST)
