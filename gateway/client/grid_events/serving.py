"""Programs that are called: what a listener and a channel have in common, and the listener."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Self

from aiohttp import web

from filters import Reason, Refused
from gateway.client.errors import GatewayError
from gateway.client.grid_events.events import TYPES, Event, EventTypes
from gateway.model.hosts import host_and_port
from mediation.grid_events import (
    HandleEvent,
    Port,
    SubscribeLease,
    read_call,
    write_handled,
    write_refusal,
)
from mediation.model.errors import MediationError

LISTENER = "urn:dragoman:grid-events:listener"
"""The binding name of listeners that have no other."""
MAX_OCTETS = 2 * 2**20
"""The longest call."""
AT_A_TIME = 64
"""Calls that are carried out at once; more are told to come again."""
SECONDS = 30.0
"""For the body of a call to come, and for it to be carried out."""
CONTENT_TYPE = 'text/xml; charset="utf-8"'
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_log = logging.getLogger("dragoman.grid_events")
_log.addHandler(logging.NullHandler())


class EventRefused(Exception):
    """Raised by a program that will never take an event: the fault says its text."""


class Called:
    """What is called over HTTP: an ASGI application, and a server of its own as a context manager.

    Args:
        binding: The namespace of its methods.
        host: Address to listen on.
        port: 0 chooses one.
        shown: The host in its location, where callers reach it under another one.
    """

    def __init__(
        self, binding: str, host: str = "127.0.0.1", port: int = 0, *, shown: str | None = None
    ) -> None:
        self.port = Port("", binding, binding)
        """The reference to it; its location is known once it listens."""
        self._host, self._number, self._shown = host, port, shown or host
        self._busy = 0
        self._runner: web.AppRunner | None = None

    async def perform(self, call: HandleEvent | SubscribeLease) -> bytes:
        """Carry out a call; its answer.

        Raises:
            Refused, EventRefused: It is not to be carried out.
        """
        raise NotImplementedError

    async def answer(self, octets: bytes) -> tuple[int, bytes]:
        """Carry out the call that *octets* are: the status, and the body of the answer."""
        if self._busy >= AT_A_TIME:
            return 503, write_refusal(Reason.QUOTA, "Too many calls are carried out here.")
        self._busy += 1
        try:
            async with asyncio.timeout(SECONDS):
                return 200, await self.perform(read_call(octets))
        except Refused as refused:
            unknown = refused.names[0] if refused.reason is Reason.EVENT_TYPE else ""
            return 500, write_refusal(refused.reason, refused.text, unknown)
        except EventRefused as refused:
            return 500, write_refusal(Reason.MESSAGE_INVALID, str(refused))
        except Exception:  # The program's own; nobody outside is told more.
            _log.exception("a call could not be carried out")
            return 500, write_refusal(Reason.INTERNAL, "The call could not be carried out.")
        finally:
            self._busy -= 1

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve as an ASGI application; the server around it bounds the time of a body."""
        if scope["type"] != "http":
            return
        if scope["method"] != "POST":
            await _reply(send, 405, b"Calls are sent with POST.\n", "text/plain")
            return
        octets, more = bytearray(), True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            octets += message.get("body", b"")
            more = message.get("more_body", False)
            if len(octets) > MAX_OCTETS:
                await _reply(send, 413, b"The call is too long.\n", "text/plain")
                return
        await _reply(send, *await self.answer(bytes(octets)), CONTENT_TYPE)

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            GatewayError: The address is in use, or not ours.
        """
        app = web.Application(client_max_size=MAX_OCTETS)
        app.router.add_post("/{path:.*}", self._serve)
        self._runner = web.AppRunner(
            app, access_log=None, logger=_log, handle_signals=False, shutdown_timeout=1.0
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._number).start()
        except OSError as error:
            await self._runner.cleanup()
            where = f"{self._host}:{self._number}"
            raise GatewayError(f"cannot listen on {where}: {error.strerror}") from error
        number = self._runner.addresses[0][1]
        binding = str(self.port.binding)
        location = f"http://{host_and_port(self._shown, number)}/{binding.rpartition(':')[2]}"
        self.port = Port(location, binding, binding)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _serve(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(SECONDS):
                octets = await request.read()
        except TimeoutError:
            return web.Response(status=408, text="The call came too slowly.\n")
        status, body = await self.answer(octets)
        return web.Response(status=status, body=body, headers={"Content-Type": CONTENT_TYPE})


class EventListener(Called):
    """Is called with events.

    Args:
        handle: Gets each event, which is delivered when it returns; it may be a coroutine. What it
            raises makes the caller come again, except `EventRefused`.
        types: The classes of events; an event of a type without one is answered by a fault.
    """

    def __init__(
        self,
        handle: Callable[[Event], object],
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        shown: str | None = None,
        types: EventTypes = TYPES,
        binding: str = LISTENER,
    ) -> None:
        super().__init__(binding, host, port, shown=shown)
        self._handle, self._types = handle, types

    async def perform(self, call: HandleEvent | SubscribeLease) -> bytes:
        if not isinstance(call, HandleEvent):
            raise MediationError(Reason.MESSAGE_INVALID, "A listener has no subscriptions.")
        result = self._handle(self._types.read(call.event))
        if inspect.isawaitable(result):
            await result
        return write_handled(call)


async def _reply(send: Send, status: int, body: bytes, content_type: str) -> None:
    headers = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
