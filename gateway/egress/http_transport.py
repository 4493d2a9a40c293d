"""HTTP to consumers: connections kept by destination, each checked before it is used.

It is our own because of what it leaves out. A general client decodes bodies, follows
redirects, reads proxies from the environment and keeps cookies; here none of that may
happen, and leaving it out sends three times as many messages a second.
"""

import asyncio
from collections import deque
from dataclasses import replace
from functools import partial
from http import HTTPStatus

import structlog

from gateway.egress.addresses import Target
from gateway.egress.attachments import packaged
from gateway.egress.client_limits import ClientLimits
from gateway.egress.dialing import Dialer, Route
from gateway.egress.http_connection import Connection, Cut
from gateway.egress.http_heads import Heads
from gateway.egress.transport import (
    GIVEN_UP,
    Answer,
    FailureKind,
    Request,
    SendFailed,
    Told,
    check_peer,
)
from mediation.model.messages import Packaging

_SWEEP = 5.0
"""Seconds between two searches for connections that have been idle for too long."""
_log = structlog.get_logger("dragoman.http")


class HttpTransport:
    """The `Transport` for ``http`` and ``https``.

    Args:
        dialer: Makes its connections; whoever made it closes it.
    """

    def __init__(self, dialer: Dialer, *, limits: ClientLimits | None = None) -> None:
        self._dialer = dialer
        self._limits = limits or ClientLimits()
        self._loop = asyncio.get_running_loop()
        self._destinations: dict[Route, _Destination] = {}
        self._idle: dict[Connection, _Destination] = {}
        self._busy: set[Connection] = set()
        self._heads = Heads(dialer)
        self._again: set[asyncio.Task[Answer]] = set()
        """Posts whose connection turned out to have been closed."""
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
            bare, dropped = packaged(request)
            return replace(await self.send(bare), dropped=dropped)
        target = request.target
        head = self._heads.head(request)
        route = self._dialer.route(target, request.owner, request.tls)
        destination = self._destinations.get(route)
        if destination is None:
            destination = self._destinations[route] = _Destination(route, self)
        connection = self._take(destination)
        if connection is None and not destination.grow(self._limits.connections):
            connection = await self._wait(destination)
        deadline = self._loop.time() + self._limits.exchange
        answer = await self._exchange(destination, connection, request, head, deadline)
        if (
            answer.status == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED
            and self._dialer.proxy_of(target) is not None
        ):  # The proxy does not know us: no consumer has said a word.
            text = "egress_proxy: the proxy answered 407: it wants a user and a password, or others"
            raise SendFailed(FailureKind.CONNECT, text, connecting=True)
        return answer

    def lane(self, target: Target) -> "_Destination | None":
        """The idle connections to *target*, if there are any. What goes by a proxy has none."""
        destination = self._destinations.get(self._dialer.route(target))
        if destination is None or not destination.idle or self._dialer.proxy_of(target) is not None:
            return None
        return destination

    def post(self, destination: "_Destination", request: Request, told: Told) -> "_Post | None":
        """Begin to send *request* over an idle connection of *destination*; None where there is
        none. *told* hears how it ended."""
        if request.attachments or request.packaging is Packaging.DIME or self._closed:
            return None
        if request.admit is not None:
            return None
        head = self._heads.head(request)
        connection = self._take(destination)
        if connection is None:
            self._forget(destination)
            return None
        deadline = self._loop.time() + self._limits.exchange
        post = _Post(self, destination, connection, request, head, deadline, told)
        self._busy.add(connection)
        connection.send(head, request.body, deadline, post.ended)
        return post

    def post_again(self, post: "_Post") -> bool:
        """Send *post* over another connection: its own may have been closed by the consumer while
        it was idle. Returns False where nothing is to be sent any more."""
        if self._closed:
            return False
        self._busy.discard(post.connection)
        request = post.request
        post.again = task = self._loop.create_task(
            self._exchange(post.destination, None, request, post.head, post.deadline)
        )
        self._again.add(task)

        def ended(task: asyncio.Task[Answer]) -> None:
            """Tell whoever posted, also when the task was cancelled or broke."""
            self._again.discard(task)
            error = None if task.cancelled() else task.exception()
            if task.cancelled():
                post.tell(SendFailed(FailureKind.RESET, GIVEN_UP))
            elif error is None:
                post.tell(task.result())
            elif isinstance(error, SendFailed):
                post.tell(error)
            else:
                _log.error("http.error", exc_info=error)
                post.tell(SendFailed(FailureKind.RESET, "the attempt went wrong in the gateway"))

        task.add_done_callback(ended)
        return True

    async def _exchange(
        self,
        destination: "_Destination",
        connection: Connection | None,
        request: Request,
        head: bytes,
        deadline: float,
    ) -> Answer:
        """Exchange *request* for an answer over *connection*, or over a new one, where that is None
        or was closed."""
        target, body = request.target, request.body
        try:
            if connection is not None:
                self._busy.add(connection)
                check_peer(request, connection.peer)
                try:
                    return await self._answer(connection, head, body, deadline)
                except Cut:
                    if request.once:
                        raise
                    self._busy.discard(connection)
            connection = await self._dialer.connect(
                target, deadline, self._make, request.owner, request.tls
            )
            if self._closed:
                connection.close()
            self._busy.add(connection)
            check_peer(request, connection.peer)
            return await self._answer(connection, head, body, deadline)
        except asyncio.CancelledError:
            if connection is not None:
                connection.close()
            raise
        finally:
            self.give_back(destination, connection)

    def _answer(
        self, connection: Connection, head: bytes, body: bytes, deadline: float
    ) -> asyncio.Future[Answer]:
        answer: asyncio.Future[Answer] = self._loop.create_future()
        connection.send(head, body, deadline, partial(_resolve, answer))
        return answer

    async def close(self) -> None:
        self._closed = True
        self._sweeping.cancel()
        for task in self._again:
            task.cancel()
        for connection in [*self._idle, *self._busy]:
            connection.close()
        self._idle.clear()
        self._destinations.clear()

    # The connections that are kept.

    def _make(self) -> Connection:
        return Connection(self._limits, self._loop)

    def _take(self, destination: "_Destination") -> Connection | None:
        """Take the idle connection used last, for it is the least likely to have been closed."""
        while destination.idle:
            connection = destination.idle.pop()
            del self._idle[connection]
            if connection.open and self._dialer.may_use(connection, destination.route):
                return connection
            connection.close()
            destination.connections -= 1
        return None

    async def _wait(self, destination: "_Destination") -> Connection | None:
        """Wait for a connection that another exchange gives back; None is the leave to make one."""
        turn: asyncio.Future[Connection | None] = self._loop.create_future()
        destination.waiting.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.give_back(destination, turn.result())
            raise

    def give_back(self, destination: "_Destination", connection: Connection | None) -> None:
        reusable = None
        if (
            connection is not None
            and connection.reusable
            and self._dialer.may_use(connection, destination.route)
        ):
            reusable = connection
        if connection is not None:
            self._busy.discard(connection)
        while destination.waiting:
            turn = destination.waiting.popleft()
            if not turn.done():
                if connection is not None and reusable is None:
                    connection.close()
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
        """Close connections that have been idle for too long; the oldest come first."""
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
    """The connections that one route shares; the idle ones are a lane.

    Its numbers change in three places: `grow` counts a connection before it is made,
    `HttpTransport.give_back` hands it to the next that waits, keeps it as idle, or uncounts it, and
    `HttpTransport._take` takes an idle one out.
    """

    in_order = False

    def __init__(self, route: Route, transport: HttpTransport) -> None:
        self.route = route
        self.connections = 0
        """Idle, busy and being made."""
        self.idle: list[Connection] = []
        self.waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._transport = transport

    def post(self, request: Request, told: Told) -> "_Post | None":
        return self._transport.post(self, request, told)

    def grow(self, limit: int) -> bool:
        """Count one more connection, unless there are *limit*."""
        if self.connections >= limit:
            return False
        self.connections += 1
        return True


class _Post:
    """A message that was posted, until it is answered or given up.

    ``connection`` has it until ``again``, a task, is set: then that sends it once more, over
    another connection.
    """

    __slots__ = (
        "_told", "_transport", "again", "connection", "deadline", "destination", "head", "over",
        "request",
    )  # fmt: skip

    def __init__(
        self,
        transport: HttpTransport,
        destination: _Destination,
        connection: Connection,
        request: Request,
        head: bytes,
        deadline: float,
        told: Told,
    ) -> None:
        self._transport = transport
        self.destination = destination
        self.connection = connection
        self.request = request
        self.head = head
        self.deadline = deadline
        self._told = told
        self.over = False
        """Whether it was answered, or given up."""
        self.again: asyncio.Task[Answer] | None = None
        """Sends it once more, over another connection."""

    def ended(self, outcome: Answer | SendFailed) -> None:
        """Hear that it is answered, or that its connection has ended."""
        transport = self._transport
        if isinstance(outcome, Cut) and not self.request.once and transport.post_again(self):
            return
        transport.give_back(self.destination, self.connection)
        self.tell(outcome)

    def tell(self, outcome: Answer | SendFailed) -> None:
        if not self.over:
            self.over = True
            self._told(outcome)

    def cancel(self) -> None:
        if self.over:
            return
        self.over = True
        if self.again is not None:
            self.again.cancel()
        else:
            self.connection.close()
        asyncio.get_running_loop().call_soon(self._told, SendFailed(FailureKind.TIMEOUT, GIVEN_UP))


def _resolve(answer: asyncio.Future[Answer], outcome: Answer | SendFailed) -> None:
    if answer.done():
        return  # Nobody waits any more.
    if isinstance(outcome, Answer):
        answer.set_result(outcome)
    else:
        answer.set_exception(outcome)
