"""HTTP to consumers: connections kept by destination, each checked before it is used.

It is our own because of what it leaves out. A general client decodes bodies, follows
redirects, reads proxies from the environment and keeps cookies; here none of that may
happen, and leaving it out sends three times as many messages a second.
"""

import asyncio
import re
from collections import deque
from collections.abc import Hashable
from dataclasses import replace
from http import HTTPStatus

from gateway.egress.connection import ClientLimits, Connection, Cut
from gateway.egress.dialing import Dialer
from gateway.egress.packaging import dress
from gateway.egress.proxy import Proxy
from gateway.egress.transport import Answer, FailureKind, Request, SendFailed
from mediation.model import Packaging

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_SWEEP = 5.0
"""Seconds between two searches for connections that have been idle for too long."""


class HttpTransport:
    """The `Transport` for ``http`` and ``https``.

    Args:
        dialer: Makes its connections; whoever made it closes it.
    """

    def __init__(self, dialer: Dialer, *, limits: ClientLimits | None = None) -> None:
        self._dialer = dialer
        self._limits = limits or ClientLimits()
        self._loop = asyncio.get_running_loop()
        self._destinations: dict[Hashable, _Destination] = {}
        self._idle: dict[Connection, _Destination] = {}
        self._busy: set[Connection] = set()
        self._closed = False
        self._sweeping = self._loop.call_later(_SWEEP, self._sweep)

    async def send(self, request: Request) -> Answer:
        """Send *request* once; see `Transport.send`.

        It waits without limit for one of the destination's connections, and cancelling
        ends the exchange. A connection that was kept, and turns out to have been closed
        meanwhile, is replaced once: consumers close theirs when they please.

        Raises:
            SendFailed: There was no answer.
            ValueError: A header of *request* has a control character.
        """
        if request.attachments or request.packaging is Packaging.DIME:
            headers, body, dropped = dress(request)
            bare = replace(
                request, headers=headers, body=body, attachments=(), packaging=Packaging.NONE
            )
            return replace(await self.send(bare), dropped=dropped)
        target = request.target
        dialer = self._dialer
        proxy = dialer.proxy_of(target)
        octets = _render(request, dialer.options.of(target).http, proxy)
        route = dialer.route(target)
        destination = self._destinations.get(route)
        if destination is None:
            destination = self._destinations[route] = _Destination(route)
        connection = self._take(destination)
        if connection is None and not destination.grow(self._limits.connections):
            connection = await self._wait(destination)
        try:
            deadline = self._loop.time() + self._limits.exchange
            if connection is not None:
                self._busy.add(connection)
                try:
                    return _judged(await connection.send(octets, deadline), proxy)
                except Cut:
                    self._busy.discard(connection)
            connection = await dialer.connect(target, deadline, self._make)
            if self._closed:
                connection.close()
            self._busy.add(connection)
            return _judged(await connection.send(octets, deadline), proxy)
        except asyncio.CancelledError:
            if connection is not None:
                connection.close()
            raise
        finally:
            self._give_back(destination, connection)

    async def close(self) -> None:
        self._closed = True
        self._sweeping.cancel()
        for connection in [*self._idle, *self._busy]:
            connection.close()
        self._idle.clear()
        self._destinations.clear()

    # The connections that are kept.

    def _make(self) -> Connection:
        return Connection(self._limits, self._loop)

    def _take(self, destination: "_Destination") -> Connection | None:
        """The connection used last, for it is the least likely to have been closed."""
        while destination.idle:
            connection = destination.idle.pop()
            del self._idle[connection]
            if connection.open:
                return connection
            destination.connections -= 1
        return None

    async def _wait(self, destination: "_Destination") -> Connection | None:
        """A connection that another exchange gives back; None is the leave to make one."""
        turn: asyncio.Future[Connection | None] = self._loop.create_future()
        destination.waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._give_back(destination, turn.result())
            raise

    def _give_back(self, destination: "_Destination", connection: Connection | None) -> None:
        reusable = connection if connection is not None and connection.reusable else None
        if connection is not None:
            self._busy.discard(connection)
        while destination.waiting:
            turn = destination.waiting.popleft()
            if not turn.done():
                turn.set_result(reusable)
                return
        if reusable is not None and not self._closed:
            reusable.idle_since = self._loop.time()
            destination.idle.append(reusable)
            self._idle[reusable] = destination
            if len(self._idle) > self._limits.idle_connections:
                self._part_with(next(iter(self._idle)))
            return
        if connection is not None:
            connection.close()
        destination.connections -= 1
        self._forget(destination)

    def _sweep(self) -> None:
        """Close what has been idle for too long; the oldest come first."""
        self._sweeping = self._loop.call_later(_SWEEP, self._sweep)
        past = self._loop.time() - self._limits.idle
        for connection in [c for c in self._idle if c.idle_since < past or not c.open]:
            self._part_with(connection)

    def _part_with(self, connection: Connection) -> None:
        destination = self._idle.pop(connection)
        destination.idle.remove(connection)
        destination.connections -= 1
        connection.close()
        self._forget(destination)

    def _forget(self, destination: "_Destination") -> None:
        if not destination.connections and not destination.waiting:
            self._destinations.pop(destination.route, None)


class _Destination:
    """The connections that one route shares."""

    def __init__(self, route: Hashable) -> None:
        self.route = route
        self.connections = 0
        """Idle, busy and being made."""
        self.idle: list[Connection] = []
        self.waiting: deque[asyncio.Future[Connection | None]] = deque()

    def grow(self, limit: int) -> bool:
        """Count one more connection, unless there are *limit*."""
        if self.connections >= limit:
            return False
        self.connections += 1
        return True


def _judged(answer: Answer, proxy: Proxy | None) -> Answer:
    """*answer*, unless it is *proxy* that does not know us: then no consumer has said a word."""
    if proxy is not None and answer.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
        raise SendFailed(FailureKind.CONNECT, connecting=True)
    return answer


def _render(request: Request, version: str, proxy: Proxy | None) -> tuple[bytes, bytes]:
    """The head and the body of *request* (RFC 9112)."""
    target = request.target
    path = target.path if proxy is None else f"http://{target.authority}{target.path}"
    lines = [
        f"{request.method} {path} HTTP/{version}",
        f"Host: {target.authority}",
        "User-Agent: Dragoman",
        "Accept-Encoding: identity",
        f"Content-Length: {len(request.body)}",
        *[f"{name}: {value}" for name, value in request.headers],
    ]
    if version == "1.0":
        lines.append("Connection: keep-alive")  # RFC 9112, "Keep-Alive Connections": an offer
    if proxy is not None and proxy.authorization:
        lines.append(f"Proxy-Authorization: {proxy.authorization}")
    if _CONTROLS.search("".join(lines)):
        raise ValueError("a control character in a header")
    lines.append("\r\n")
    return "\r\n".join(lines).encode("latin-1"), request.body
