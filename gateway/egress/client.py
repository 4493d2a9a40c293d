"""HTTP to consumers: connections kept by destination, each checked before it is used.

It is our own because of what it leaves out. A general client decodes bodies, follows
redirects, reads proxies from the environment and keeps cookies; here none of that may
happen, and leaving it out sends three times as many messages a second.
"""

import asyncio
import re
import socket
import ssl
from collections import deque
from collections.abc import Sequence
from ipaddress import ip_address

from gateway.egress.addresses import AddressRefused, IPAddress, Target
from gateway.egress.connection import ClientLimits, Connection, Cut
from gateway.egress.policy import AddressPolicy
from gateway.egress.resolver import Resolver, SystemResolver
from gateway.egress.transport import Answer, FailureKind, Request, SendFailed

_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_SWEEP = 5.0
"""Seconds between two searches for connections that have been idle for too long."""

_MAX_ADDRESSES = 8
"""Addresses of one name that are tried; all of them are checked."""


class HttpTransport:
    """The `Transport` for ``http`` and ``https``.

    Args:
        policy: Asked about every address, on every connection.
        resolver: The system's, when not given.
        tls: A context that verifies; the default trusts what the system trusts.
    """

    def __init__(
        self,
        policy: AddressPolicy,
        *,
        resolver: Resolver | None = None,
        limits: ClientLimits | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._policy = policy
        self._resolver = resolver or SystemResolver()
        self._limits = limits or ClientLimits()
        self._tls = tls or ssl.create_default_context()
        self._loop = asyncio.get_running_loop()
        self._destinations: dict[tuple[str, str, int], _Destination] = {}
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
        octets = _render(request)
        target = request.target
        destination = self._destinations.get(target.destination)
        if destination is None:
            destination = self._destinations[target.destination] = _Destination(target)
        connection = self._take(destination)
        if connection is None and not destination.grow(self._limits.connections):
            connection = await self._wait(destination)
        try:
            deadline = self._loop.time() + self._limits.exchange
            if connection is not None:
                self._busy.add(connection)
                try:
                    return await connection.send(octets, deadline)
                except Cut:
                    self._busy.discard(connection)
            connection = await self._connect(target, deadline)
            if self._closed:
                connection.close()
            self._busy.add(connection)
            return await connection.send(octets, deadline)
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
        self._resolver.close()

    # The connections that are kept.

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
            self._destinations.pop(destination.key, None)

    # New connections: resolve, check, connect, check again, and only then TLS.

    async def _connect(self, target: Target, deadline: float) -> Connection:
        addresses = await self._addresses(target, deadline)
        sock = await self._open(addresses, target, deadline)
        tls = self._tls if target.scheme == "https" else None
        try:
            async with asyncio.timeout_at(min(deadline, self._loop.time() + self._limits.connect)):
                _, connection = await self._loop.create_connection(
                    lambda: Connection(self._limits, self._loop),
                    sock=sock,
                    ssl=tls,
                    server_hostname=target.host if tls else None,
                )
        except TimeoutError as exc:
            raise SendFailed(FailureKind.TIMEOUT, connecting=True) from exc
        except OSError as exc:  # ssl.SSLError is one
            raise SendFailed(FailureKind.TLS, connecting=True) from exc
        return connection

    async def _addresses(self, target: Target, deadline: float) -> Sequence[IPAddress]:
        """All addresses of *target*, each of them allowed."""
        try:
            self._policy.check(target)
            literal = target.literal
            if literal is not None:
                return [literal]
            async with asyncio.timeout_at(min(deadline, self._loop.time() + self._limits.resolve)):
                addresses = await self._resolver.resolve(target.host)
            for address in addresses:
                self._policy.check_ip(address, target)
        except AddressRefused as exc:
            raise SendFailed(FailureKind.FORBIDDEN) from exc
        except OSError as exc:  # TimeoutError is one
            raise SendFailed(FailureKind.NAME, connecting=True) from exc
        if not addresses:
            raise SendFailed(FailureKind.NAME, connecting=True)
        return addresses[:_MAX_ADDRESSES]

    async def _open(
        self, addresses: Sequence[IPAddress], target: Target, deadline: float
    ) -> socket.socket:
        """A socket connected to the first of *addresses* that answers.

        They share the time: each gets an equal part of what its predecessors left.
        """
        end = min(deadline, self._loop.time() + self._limits.connect)
        failure: OSError = OSError()
        for tried, address in enumerate(addresses):
            now = self._loop.time()
            part = now + (end - now) / (len(addresses) - tried)
            try:
                async with asyncio.timeout_at(part):
                    return await self._open_one(address, target)
            except OSError as exc:
                failure = exc
        late = isinstance(failure, TimeoutError)
        kind = FailureKind.TIMEOUT if late else FailureKind.CONNECT
        raise SendFailed(kind, connecting=True) from failure

    async def _open_one(self, address: IPAddress, target: Target) -> socket.socket:
        family = socket.AF_INET if address.version == 4 else socket.AF_INET6
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            await self._loop.sock_connect(sock, (str(address), target.port))
            self._policy.check_ip(ip_address(sock.getpeername()[0]), target)
        except AddressRefused as exc:
            sock.close()
            raise SendFailed(FailureKind.FORBIDDEN) from exc
        except BaseException:
            sock.close()
            raise
        return sock


class _Destination:
    """The connections to one scheme, host and port."""

    def __init__(self, target: Target) -> None:
        self.key = target.destination
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


def _render(request: Request) -> tuple[bytes, bytes]:
    """The head and the body of *request* (RFC 9112)."""
    target = request.target
    lines = [
        f"{request.method} {target.path} HTTP/1.1",
        f"Host: {target.authority}",
        "User-Agent: Dragoman",
        "Accept-Encoding: identity",
        f"Content-Length: {len(request.body)}",
        *[f"{name}: {value}" for name, value in request.headers],
    ]
    if _CONTROLS.search("".join(lines)):
        raise ValueError("a control character in a header")
    lines.append("\r\n")
    return "\r\n".join(lines).encode("latin-1"), request.body
