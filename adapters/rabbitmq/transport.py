"""The event loop's own transports under pika.

pika brings one that reads 4 KiB at a time, which are three messages, and waits for the socket to be
writable before each write: two more system calls, and one more turn of the loop.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable
from typing import Any

from pika.adapters.asyncio_connection import _AsyncioIOServicesAdapter
from pika.adapters.utils.nbio_interface import AbstractIOReference


class LoopServices(_AsyncioIOServicesAdapter):  # type: ignore[misc]  # pika has no types
    """What pika asks of an event loop. A transport of asyncio is one of pika's by intent
    (``AbstractStreamTransport``)."""

    def create_streaming_connection(
        self,
        protocol_factory: Callable[[], Any],
        sock: socket.socket,
        on_done: Callable[[Any], None],
        ssl_context: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
    ) -> AbstractIOReference:
        """Give *on_done* a transport on *sock*, which is connected, and a protocol that knows it;
        or what went wrong."""
        return _Linking(
            self._loop.create_connection(
                _Nobody,
                sock=sock,
                ssl=ssl_context,
                server_hostname=server_hostname if ssl_context is not None else None,
            ),
            protocol_factory,
            on_done,
        )


class _Nobody(asyncio.Protocol):
    """Until pika is told of its transport nothing may come: in AMQP the client speaks first."""


class _Linking(AbstractIOReference):  # type: ignore[misc]  # pika has no types
    """A transport that is being made ready."""

    def __init__(
        self,
        connecting: Any,
        protocol_factory: Callable[[], Any],
        on_done: Callable[[Any], None],
    ) -> None:
        self._protocol_factory = protocol_factory
        self._on_done = on_done
        self._given_up = False
        self._task: asyncio.Task[tuple[asyncio.Transport, _Nobody]] = asyncio.ensure_future(
            connecting
        )
        self._task.add_done_callback(self._link)

    def cancel(self) -> bool:
        """Never call ``on_done`` any more."""
        self._given_up = True
        return self._task.cancel()

    def _link(self, task: "asyncio.Task[tuple[asyncio.Transport, _Nobody]]") -> None:
        """Both in one call: what ends a connection that pika's workflow does not know yet, nobody
        hears of."""
        if task.cancelled():
            return
        if (error := task.exception()) is not None:
            if not self._given_up:
                self._on_done(error)
            return
        transport, _ = task.result()
        if self._given_up:
            transport.abort()
        elif transport.is_closing():
            self._on_done(ConnectionResetError("the broker ended the connection at once"))
        else:
            protocol = self._protocol_factory()
            transport.set_protocol(protocol)
            protocol.connection_made(transport)
            self._on_done((transport, protocol))
