"""TLS in front of a protocol: a connection is bounded while its handshake goes on, too.

A server that hands its context to asyncio hears of a connection only after the handshake:
until then nobody counts it. Here it is accepted plain, admitted by the gate, and only then the
handshake begins, under a deadline.
"""

import asyncio
import contextlib
import os
import socket
import ssl
from collections.abc import Callable

import structlog

from gateway.http.gate import ConnectionGate

HANDSHAKE = 10.0
"""Seconds."""
_log = structlog.get_logger("dragoman.tls")


class Handshaking(asyncio.Protocol):
    """A connection until its handshake is done; then it belongs to the protocol of *make*.

    Args:
        gate: Where it is admitted; it leaves just before its protocol is told of it.
        waiting: It is in here meanwhile, for the server to end it when it stops.
    """

    def __init__(
        self,
        context: ssl.SSLContext,
        gate: ConnectionGate,
        make: Callable[[], asyncio.Protocol],
        waiting: set[asyncio.Protocol],
        *,
        seconds: float = HANDSHAKE,
    ) -> None:
        self._context = context
        self._gate = gate
        self._make = make
        self._waiting = waiting
        self._seconds = seconds
        self._socket: socket.socket | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        peer = transport.get_extra_info("peername")
        admitted = self._gate.admit(self, str(peer[0]) if peer else "")
        if admitted:
            self._begin(transport)
        transport.abort()  # type: ignore[attr-defined]  # uvloop's is an asyncio.Transport by duck

    def _begin(self, transport: asyncio.BaseTransport) -> None:
        accepted = transport.get_extra_info("socket")
        try:
            # Not `loop.start_tls`: uvloop begins to read a transport before that can be called,
            # and what the peer said first would be lost. Nobody has read from the socket yet.
            self._socket = socket.socket(fileno=os.dup(accepted.fileno()))
        except OSError as exc:  # There is no descriptor left.
            _log.warning("tls.refused", why=exc.strerror)
            self._gate.leave(self)
            return
        self._waiting.add(self)
        self._task = asyncio.get_running_loop().create_task(self._shake_hands(self._socket))

    def evict(self) -> None:
        """Close at once: the handshake fails, and ends."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    shutdown = evict
    """Called by uvicorn when it stops."""

    async def _shake_hands(self, sock: socket.socket) -> None:
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: _Handover(self._hand_over),
                sock,
                ssl=self._context,
                ssl_handshake_timeout=self._seconds,
            )
        except OSError as exc:  # ssl.SSLError is one
            _log.debug("tls.handshake-failed", why=str(exc) or type(exc).__name__)
        finally:
            self._leave()

    def _hand_over(self, transport: asyncio.Transport) -> None:
        self._leave()
        protocol = self._make()
        transport.set_protocol(protocol)
        protocol.connection_made(transport)

    def _leave(self) -> None:
        self._gate.leave(self)
        self._waiting.discard(self)


class _Handover(asyncio.Protocol):
    """Calls *hand_over* when the handshake is done."""

    def __init__(self, hand_over: Callable[[asyncio.Transport], None]) -> None:
        self._hand_over = hand_over

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._hand_over(transport)  # type: ignore[arg-type]
