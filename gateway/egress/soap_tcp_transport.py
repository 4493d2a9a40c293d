"""SOAP.TCP to consumers: many messages at a time share a connection, and nobody answers them.

A message is sent when the consumer's system has acknowledged its last octet
(`gateway.tcp.acknowledging`).
"""

import asyncio
import select
import sys
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import TypeAlias

import structlog

from gateway.egress.addresses import Target
from gateway.egress.client_limits import ClientLimits
from gateway.egress.dialing import Dialer, Route
from gateway.egress.hops import hops_id
from gateway.egress.transport import (
    GIVEN_UP,
    Answer,
    FailureKind,
    Request,
    SendFailed,
    Told,
    check_peer,
)
from gateway.observing.samples import Sample
from gateway.parsing import Parsing
from gateway.security.resource_addresses import ResourceKind
from gateway.tcp import Fate, SoapTcpConnection, TcpLimits
from gateway.tcp.samples import connection_sample, fault_sample
from mediation.packaging.dime import DimeMessage, Encoder, encode_plain

_CONNECTIONS = 4
"""To one destination."""
_FULL = 1024 * 1024
"""Octets on their way over one connection, beyond which another one is used."""
_SWEEP = 5.0
_SEQUENCES = ResourceKind.SEQUENCE.value.encode()
_log = structlog.get_logger("dragoman.soap-tcp")

Handler: TypeAlias = Callable[[SoapTcpConnection, DimeMessage, asyncio.Event], Awaitable[None]]
"""Takes a message that a consumer sent on a connection that we opened, and may write to that
connection. The event is set when the consumer has gone."""


class SoapTcpTransport:
    """The `Transport` for ``soap.tcp`` and ``soap.tcps``.

    Args:
        handler: Takes what consumers send and is no fault; without one that is thrown away.
        parsing: Where their faults are parsed, for they are strangers.
    """

    def __init__(
        self,
        dialer: Dialer,
        *,
        limits: ClientLimits | None = None,
        handler: Handler | None = None,
        parsing: Parsing | None = None,
    ) -> None:
        self._dialer = dialer
        self._limits = limits or ClientLimits()
        self._tcp = TcpLimits()
        self._handler = handler
        self._parsing = parsing or Parsing()
        self._loop = asyncio.get_running_loop()
        self._encoder = Encoder()
        self._destinations: dict[Route, _Destination] = {}
        self._made: set[_Outbound] = set()
        """Connections, also those that end when what is on their way has arrived."""
        self._again: set[asyncio.Task[None]] = set()
        self._closed = False
        self._sweeping = self._loop.call_later(_SWEEP, self._sweep)
        self.faults = 0
        """Faults that consumers sent about what they had taken."""

    def metrics(self) -> Iterator[Sample]:
        """Connections that we opened, and faults that came back on them."""
        yield connection_sample({"us": self.connections})
        yield fault_sample(self.faults)

    @property
    def connections(self) -> int:
        """The number of open connections."""
        return sum(len(one.connections) for one in self._destinations.values())

    async def send(self, request: Request) -> Answer:
        """Send *request* once; 202 when the consumer's system has all of it.

        It waits without limit for a connection with room. A connection that was kept, and turns
        out to have been closed meanwhile, is replaced once.

        Raises:
            SendFailed: It does not, as far as we know.
        """
        octets = self.octets_of(request)
        connection, kept = await self._connection(request, len(octets))
        check_peer(request, connection.peer)
        fate = await self._write(connection, octets)
        if fate is Fate.LOST and kept and not self._closed:
            connection, _ = await self._connection(request, len(octets))
            check_peer(request, connection.peer)
            fate = await self._write(connection, octets)
        if fate is Fate.ACKNOWLEDGED:
            return _ARRIVED
        raise _failure(fate)

    @property
    def patience(self) -> float:
        """Seconds that an exchange may take."""
        return self._limits.exchange

    def lane(self, target: Target) -> "_Outbound | None":
        """A connection to *target* that is there and has room. Unlike `send` this does not look
        whether the consumer has just closed it: then nothing that is posted is acknowledged."""
        destination = self._destinations.get(self._dialer.route(target))
        if destination is None or destination.waiting:
            return None
        for connection in destination.connections:
            if connection.open and not connection.ending and connection.on_their_way < _FULL:
                return connection if self.may_use(connection) else None
        return None

    def may_use(self, connection: "_Outbound") -> bool:
        """Whether more may be written to whom *connection* leads to."""
        return self._dialer.may_use(connection, connection.destination.key)

    def octets_of(self, request: Request) -> bytes:
        """*request* as DIME."""
        if request.soap is None:
            raise ValueError("SOAP.TCP carries envelopes alone")
        hops = hops_id(request.headers, request.origin)
        if not request.attachments:
            return encode_plain(request.soap, request.body, hops)
        message = DimeMessage(request.soap, request.body, request.attachments, hops)
        return self._encoder.encode(message)

    def arrived(self, post: "_Post", fate: Fate) -> None:
        """Hear that *post* has arrived, or has not; posts of a connection are heard in their
        order."""
        connection = post.connection
        self._learn(connection, post.size, fate)
        if fate is Fate.ACKNOWLEDGED:
            post.told(_ARRIVED)
        elif fate is Fate.LATE or connection.given_up or self._closed:
            connection.given_up = True  # What was posted behind it must not overtake it.
            post.told(_failure(fate))
        else:
            connection.lost_posts.append(post)
            if len(connection.lost_posts) == 1:
                self._post_again(connection)

    def _post_again(self, connection: "_Outbound") -> None:
        """Send the posts that *connection* lost over another: the consumer may have closed it while
        it was idle."""

        async def again() -> None:
            outcome: Answer | SendFailed = _ARRIVED
            while connection.lost_posts:
                post = connection.lost_posts[0]
                if isinstance(outcome, Answer):
                    try:
                        outcome = await self.send(post.request)
                    except SendFailed as error:
                        outcome = error.with_traceback(None)
                connection.lost_posts.popleft()
                post.told(outcome)

        def ended(task: asyncio.Task[None]) -> None:
            """Tell whoever posted, also when the task was cancelled or broke."""
            self._again.discard(task)
            if not task.cancelled() and task.exception() is not None:
                _log.error("soap-tcp.error", exc_info=task.exception())
            while connection.lost_posts:
                connection.lost_posts.popleft().told(_failure(Fate.LOST))

        connection.again = task = self._loop.create_task(again())
        self._again.add(task)
        task.add_done_callback(ended)

    async def close(self) -> None:
        """Give up what is under way and close every connection."""
        self._closed = True
        self._sweeping.cancel()
        for task in self._again:
            task.cancel()
        for connection in self._made:
            connection.abort()
        for destination in list(self._destinations.values()):
            while destination.waiting:
                destination.wake()
        self._destinations.clear()

    async def _write(self, connection: "_Outbound", octets: bytes) -> Fate:
        if not connection.write(octets):
            return Fate.LOST
        connection.on_their_way += len(octets)
        told: asyncio.Future[Fate] = self._loop.create_future()

        def settle(fate: Fate) -> None:
            # Of an attempt that is given up the octets are on their way all the same.
            self._learn(connection, len(octets), fate)
            if not told.done():
                told.set_result(fate)

        connection.tell(self._limits.exchange, settle)
        return await told

    def _learn(self, connection: "_Outbound", octets: int, fate: Fate) -> None:
        connection.on_their_way -= octets
        connection.idle_since = self._loop.time()
        if fate is Fate.LATE:
            connection.abort()  # whatever else is on its way comes after this
        connection.destination.wake()
        if connection.ending:
            connection.finish_if_ended()

    # The connections that are kept.

    async def _connection(self, request: Request, size: int) -> tuple["_Outbound", bool]:
        """A connection with room for *size* octets, and whether it was there already."""
        key = self._dialer.route(request.target, request.owner)
        turned = False
        while True:
            if self._closed:
                raise SendFailed(FailureKind.RESET, GIVEN_UP)
            destination = self._destinations.get(key)
            if destination is None:
                destination = self._destinations[key] = _Destination(key)
            if turned or not destination.waiting:
                connection = destination.choose(size)
                if connection is not None:
                    destination.wake()  # there may be room for the next, too
                    return connection, True
                if len(destination.connections) + destination.dialling < _CONNECTIONS:
                    return await self._dial(destination, request), False
            await destination.turn(self._loop, first=turned)
            turned = True

    async def _dial(self, destination: "_Destination", request: Request) -> "_Outbound":
        destination.dialling += 1
        try:
            connection = await self._dialer.connect(
                request.target,
                self._loop.time() + self._limits.exchange,
                partial(_Outbound, self, destination, self._tcp, self._loop),
                request.owner,
            )
        finally:
            destination.dialling -= 1
            destination.wake()
            self._forget(destination)
        if self._closed:
            connection.abort()
        return connection

    def _forget(self, destination: "_Destination") -> None:
        if destination.connections or destination.dialling or destination.waiting:
            return
        if self._destinations.get(destination.key) is destination:  # Else it was forgotten before.
            del self._destinations[destination.key]

    def _sweep(self) -> None:
        """Close connections that have been idle for too long, and the longest idle of too many."""
        self._sweeping = self._loop.call_later(_SWEEP, self._sweep)
        past = self._loop.time() - self._limits.idle
        idle = sorted(
            (
                connection
                for destination in self._destinations.values()
                for connection in destination.connections
                if connection.idle
            ),
            key=lambda connection: connection.idle_since,
        )
        too_many = len(idle) - self._limits.idle_connections
        for number, connection in enumerate(idle):
            if connection.idle_since >= past and number >= too_many:
                break
            connection.retire()

    # For connections.

    def made(self, connection: "_Outbound") -> None:
        self._made.add(connection)
        connection.destination.connections.add(connection)

    def lost(self, connection: "_Outbound") -> None:
        destination = connection.destination
        self._made.discard(connection)
        destination.connections.discard(connection)
        destination.wake()
        self._forget(destination)

    async def received(self, connection: "_Outbound", message: DimeMessage) -> None:
        """Take what a consumer sent on a connection that we opened."""
        # A fault about a sequence is sent to the address that is given for its acknowledgements.
        asked_for = self._handler is not None and _SEQUENCES in message.envelope
        fault = None if asked_for else await self._parsing.fault_in(message.envelope)
        if fault is not None:
            self.faults += 1
            _log.warning(
                "soap-tcp.fault",
                destination=str(connection.destination.key),
                code=fault.subcode or fault.code,
                text=fault.reason,
            )
        elif self._handler is not None:
            await self._handler(connection, message, connection.gone)


_ARRIVED = Answer(202)


def _failure(fate: Fate) -> SendFailed:
    if fate is Fate.LATE:
        return SendFailed(
            FailureKind.TIMEOUT, "the consumer's system did not acknowledge it in time"
        )
    text = "the connection was closed before the consumer's system had acknowledged it"
    return SendFailed(FailureKind.RESET, text)


class _Post:
    """A message that was posted. Giving it up gives up all posts that share its connection."""

    __slots__ = ("connection", "request", "size", "told")

    def __init__(
        self,
        connection: "_Outbound",
        request: Request,
        size: int,
        told: Told,
    ) -> None:
        self.connection = connection
        self.request = request
        self.size = size
        self.told = told

    def settle(self, fate: Fate) -> None:
        self.connection.transport_of.arrived(self, fate)

    def cancel(self) -> None:
        self.connection.given_up = True
        self.connection.abort()
        if self.connection.again is not None:
            self.connection.again.cancel()


class _Destination:
    """The connections that may be shared for one destination."""

    def __init__(self, key: Route) -> None:
        self.key = key
        self.connections: set[_Outbound] = set()
        self.dialling = 0
        self.waiting: deque[asyncio.Future[None]] = deque()

    def choose(self, size: int) -> "_Outbound | None":
        """The connection with the least on its way that has room for *size* octets more."""
        for connection in sorted(self.connections, key=lambda one: one.on_their_way):
            if connection.on_their_way and connection.on_their_way + size > _FULL:
                return None
            if connection.usable:
                return connection
            connection.retire()
        return None

    async def turn(self, loop: asyncio.AbstractEventLoop, *, first: bool) -> None:
        """Wait until it is worth to look (again: before all others that wait)."""
        turn: asyncio.Future[None] = loop.create_future()
        (self.waiting.appendleft if first else self.waiting.append)(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():
                self.wake()
            raise

    def wake(self) -> None:
        """Let the one that has waited longest look."""
        while self.waiting:
            turn = self.waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return


class _Outbound(SoapTcpConnection):
    """A connection to a consumer."""

    in_order = True

    __slots__ = (
        "_tasks",
        "again",
        "destination",
        "given_up",
        "gone",
        "idle_since",
        "lost_posts",
        "on_their_way",
        "transport_of",
    )

    def __init__(
        self,
        transport: SoapTcpTransport,
        destination: _Destination,
        limits: TcpLimits,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(limits, loop)
        self.transport_of = transport
        self.destination = destination
        self.on_their_way = 0
        """Octets that are not known to have arrived."""
        self.given_up = False
        """Whether posts that are lost on it are not sent again."""
        self.lost_posts: deque[_Post] = deque()
        self.again: asyncio.Task[None] | None = None
        """Sends by another connection what was lost on this one."""
        self.idle_since = loop.time()
        self.gone = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()

    def post(self, request: Request, told: Told) -> _Post | None:
        if request.admit is not None:
            return None
        octets = self.transport_of.octets_of(request)
        if not self.write(octets):
            return None
        size = len(octets)
        post = _Post(self, request, size, told)
        self.on_their_way += size
        self.tell(self.transport_of.patience, post.settle)
        return post

    @property
    def ending(self) -> bool:
        """Nothing more is to be written to it."""
        return self._ended

    @property
    def usable(self) -> bool:
        """Whether the connection is open, also by what the system knows and the loop has not read
        yet."""
        may_use = self.transport_of.may_use(self)
        return self.open and not self._ended and may_use and not self._peer_closed()

    def retire(self) -> None:
        """Let nothing more be written to it, and close it when all has arrived."""
        self._ended = True
        self.destination.connections.discard(self)
        self.finish_if_ended()

    def finish_if_ended(self) -> None:
        if not self.on_their_way:
            super().finish_if_ended()

    def _peer_closed(self) -> bool:
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        if sock is None or sys.platform != "linux":
            return False
        look = select.poll()
        look.register(sock.fileno(), select.POLLRDHUP)
        return bool(look.poll(0))

    # Called by the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport_of.made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.gone.set()
        self.transport_of.lost(self)

    def eof_received(self) -> bool:
        stay = super().eof_received()
        self.destination.connections.discard(self)
        return stay or (bool(self.on_their_way) and self._can_half_close())

    # Called by the connection.

    def broken(self, why: str, detail: str) -> None:
        _log.info("soap-tcp.broken", destination=str(self.destination.key), reason=why)

    def message_received(self, message: DimeMessage) -> None:
        task = self._loop.create_task(self._receive(message))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _receive(self, message: DimeMessage) -> None:
        try:
            await self.transport_of.received(self, message)
        finally:
            self.processed()
