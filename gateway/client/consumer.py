"""A mini HTTP server that receives notifications: no container, no deployment."""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self, TypeAlias

from aiohttp import web

from filters import Reason, Refused
from gateway.client.errors import GatewayError
from gateway.model.hosts import host_and_port
from mediation.agreement import answer_challenge
from mediation.client import Ended, Received, acknowledgement_of, read_events, read_received
from mediation.cloudevents import ORIGIN_HEADER, is_event

MAX_OCTETS = 4 * 1024 * 1024
WAITING = 256
AT_A_TIME = 64
BODY_TIME = 30.0
"""Seconds from the end of a head to the end of its body."""
_log = logging.getLogger("dragoman.consumer")
_log.addHandler(logging.NullHandler())  # What strangers send is no event of the program's.


@dataclass(frozen=True, slots=True)
class ReceivedMessage:
    """A message that a consumer received: its octets whole, and what they say.

    ``ended``: the gateway says that the subscription has ended (SubscriptionEnd).
    """

    notifications: tuple[Received, ...]
    ended: Ended | None
    octets: bytes
    headers: tuple[tuple[str, str], ...]
    time: datetime

    @classmethod
    def of(
        cls,
        received: tuple[Received, ...] | Ended,
        octets: bytes,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> Self:
        """The message of *octets*, which say *received*, as of now."""
        ended = received if isinstance(received, Ended) else None
        notifications = () if isinstance(received, Ended) else received
        return cls(notifications, ended, octets, headers, datetime.now(UTC))


Headers: TypeAlias = Sequence[tuple[bytes, bytes]]
Read: TypeAlias = Callable[[Headers, bytes], Awaitable[tuple[Received, ...] | Ended]]
"""Reads the headers and the body of a message; raises `Refused` where it is none."""


def read_message(headers: Headers, octets: bytes) -> tuple[Received, ...] | Ended:
    """Read a message, in SOAP or CloudEvents; names of *headers* are in lower case.

    Raises:
        Refused: It is none.
    """
    return read_events(headers, octets) if is_event(headers) else read_received(octets)


async def read_here(headers: Headers, octets: bytes) -> tuple[Received, ...] | Ended:
    """`read_message`, at once."""
    return read_message(headers, octets)


class Consumer:
    """Receives notifications and SubscriptionEnd, and hands them out in their order.

    Its address has a random path, so that only who was told it can send to it. A sender is
    answered 202 once its message is in the queue; while that is full, 503: a gateway keeps the
    message, and comes again.

    Args:
        host: Address to listen on.
        port: 0 chooses one.
        shown: The host in its address, where senders reach it under another one.
        waiting: Messages that may wait to be read.
        max_octets: The longest message.
        read: Reads messages where that must not be done on the event loop.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        shown: str | None = None,
        waiting: int = WAITING,
        max_octets: int = MAX_OCTETS,
        read: Read = read_here,
    ) -> None:
        self._host = host
        self._port = port
        self._shown = shown or host
        self._max_octets = max_octets
        self._read = read
        self._queue: asyncio.Queue[ReceivedMessage] = asyncio.Queue(waiting)
        self._path = f"/{secrets.token_urlsafe(12)}"
        self._busy = 0
        self._runner: web.AppRunner | None = None
        self.address = ""
        """The address that notifications are sent to; known once it listens."""

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            GatewayError: The address is in use, or not ours.
        """
        app = web.Application(client_max_size=self._max_octets)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(
            app, access_log=None, logger=_log, handle_signals=False, shutdown_timeout=1.0
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            where = host_and_port(self._host, self._port)
            raise GatewayError(f"cannot listen on {where}: {_why(error)}") from error
        port = self._runner.addresses[0][1]
        self.address = f"http://{host_and_port(self._shown, port)}{self._path}"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def receive(self) -> ReceivedMessage:
        """The next message; waits for it."""
        return await self._queue.get()

    # No generator: a wait in it that is cancelled, by a time limit, say, closes it for good, and
    # what comes later is answered 202 and reaches nobody.

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ReceivedMessage:
        return await self.receive()

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path != self._path:
            return web.Response(status=404, text="There is no consumer here.\n")
        if request.method == "OPTIONS" and ORIGIN_HEADER in request.headers:
            # Who knows the path was told it (HTTP 1.1 Web Hooks for Event Delivery, section 4).
            agreed = {"WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": "*"}
            return web.Response(headers=agreed)
        if request.method != "POST":
            return web.Response(
                status=405, text="Notifications are sent with POST.\n", headers={"Allow": "POST"}
            )
        if self._busy >= AT_A_TIME or self._queue.full():
            return later()
        self._busy += 1
        try:
            return await self._receive(request)
        finally:
            self._busy -= 1

    async def _receive(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(BODY_TIME):
                octets = await request.read()
        except TimeoutError:
            return web.Response(status=408, text="The message came too slowly.\n")
        try:
            return await self._take(request, octets)
        except Refused as refused:
            if refused.reason is Reason.UNAVAILABLE:  # It could not be read in time.
                return later()
            return web.Response(status=400, text=f"{refused.text}\n")

    async def _take(self, request: web.Request, octets: bytes) -> web.Response:
        """Take a message, and answer it.

        Raises:
            Refused: It is none.
        """
        if (agreed := answer_challenge(octets)) is not None:
            return web.Response(body=agreed[1], headers=agreed[0])
        headers = [(name.lower(), value) for name, value in request.raw_headers]
        received = await self._read(headers, octets)
        named = tuple((name, value) for name, value in request.headers.items())
        try:
            self._queue.put_nowait(ReceivedMessage.of(received, octets, named))
        except asyncio.QueueFull:  # Others were quicker while this one came in.
            return later()
        return _taken(octets)


def _taken(octets: bytes) -> web.Response:
    """The answer to what is in the queue: 202, or the acknowledgement that it asks for."""
    acknowledged = acknowledgement_of(octets)
    if acknowledged is None:
        return web.Response(status=202)
    headers, body = acknowledged
    return web.Response(body=body, headers=headers)


def later() -> web.Response:
    """The answer to what has to come again, because too much waits."""
    return web.Response(
        status=503, text="Too many messages wait here.\n", headers={"Retry-After": "1"}
    )


def _why(error: OSError) -> str:
    """The system's own words for *error*, without those that asyncio puts around them."""
    return (error.strerror or str(error)).rpartition(": ")[2]
