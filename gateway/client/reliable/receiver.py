"""The receiving end of applications: an ASGI app, to mount in another or to be served by itself."""

import asyncio
import random
import ssl
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any, TypeAlias
from urllib.parse import urlsplit

from gateway.client.application_calls import raising_exceptions
from gateway.client.reliable.addresses import place_of
from gateway.client.reliable.deliveries import GivenUp, NamedFunctions, Service, served
from gateway.client.reliable.endpoint_base import EndpointBase, dead, new_id, patient, say
from gateway.client.reliable.http_requests import (
    BODY_TIME,
    LATER,
    MAX_OCTETS,
    HttpReply,
    Intake,
    plain,
    unreadable,
)
from gateway.client.reliable.workers import Workers
from gateway.reliability.endpoint import Endpoint
from gateway.reliability.party import Party
from gateway.reliability.storage import StorageManager, StorageUnavailable
from gateway.reliability.values import Application, DeadMessageHandler, Notice
from gateway.security.principals import side_of
from mediation.reliable_messaging.policy import Policy

Scope: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[MutableMapping[str, Any]], Awaitable[None]]

HOLD = 10.0


class Receiver(EndpointBase):
    """Receives the messages of sequences, and gives each to a function once, in order.

    It is an ASGI app: served by itself (`serve`) it starts and stops with its server; mounted in
    another one that one's lifespan has ``async with receiver``. Without that it starts with the
    first message; once it is closed it takes none before it is started again. A message is
    acknowledged once it is stored.

    Args:
        store: The store of messages, or its URL. Several processes may share a database.
        address: The URL under which peers reach it; needed where replies are sent to listeners of
            clients, which then acknowledge them here.
        may_call: The hosts (``name`` or ``name:port``) that it may send acknowledgements and
            replies to, as strangers name them; or what decides for an address. By default it
            answers on connections only.
        identify: Tells who sent a request (of the ASGI scope); a sequence belongs to who made it.
        address_of: Tells the network address of who sent a request (of the ASGI scope), each of
            which may have ``policy.sequences_per_peer`` sequences without an owner; by default the
            client of the scope. An empty one is not counted.
        nacks: It asks for what is missing (Nack) when the first message behind it comes; for
            sources whose messages do not overtake each other.
        hold: Seconds that a connection is held open for the reply to a request.
        max_octets: The longest message.
        timeout: Seconds for a whole exchange with a peer.
        tls: For peers with ``https``.
        on_notice: Is told what people should know; logged by default.

    Raises:
        StorageUnavailable: The store cannot be opened.
        ValueError: *address* is no URL of HTTP.
    """

    def __init__(
        self,
        store: StorageManager | str,
        *,
        address: str | None = None,
        may_call: Collection[str] | Callable[[str], bool] = (),
        identify: Callable[[Scope], str | None] | None = None,
        address_of: Callable[[Scope], str] | None = None,
        policy: Policy | None = None,
        nacks: bool = False,
        hold: float = HOLD,
        max_octets: int = MAX_OCTETS,
        timeout: float = 30.0,
        tls: ssl.SSLContext | None = None,
        on_notice: Callable[[Notice], None] = say,
    ) -> None:
        if address is not None:
            place_of(address)
        super().__init__(store)
        self._identify = identify or _nobody
        self._address_of = address_of or _client
        self._max_octets = max_octets
        self._applications = NamedFunctions[Application](nameless=True)
        self._dead: dict[str, DeadMessageHandler] = {}
        party = Party(
            self.store,
            new_id,
            random.random,
            address=address,
            policy=patient(policy),
            applications=self._applications,
            given_up=NamedFunctions(),
            completed=NamedFunctions(),
            dead=self._dead,
            allows=raising_exceptions(may_call) if callable(may_call) else _hosts(may_call),
            notify=raising_exceptions(on_notice),
            requires=True,
            nacks=nacks,
        )
        self._workers = Workers(Endpoint(party), timeout=timeout, tls=tls)
        self._intake = Intake(self._workers, hold=hold)

    def service(
        self,
        path: str,
        function: Service,
        *,
        faults: type[Exception] | tuple[type[Exception], ...] = (),
        on_dead: Callable[[GivenUp], Any] | None = None,
    ) -> None:
        """Give the messages of sequences that are made at *path* to *function*.

        It is called in the transaction that takes the message out of the store, on a thread, or
        in the program's event loop if it is a coroutine function. What it returns is the reply,
        stored in the same transaction. `Fault` rolls that back, and is the reply. Another
        exception, SystemExit among them, and a reply that is not one well-formed element, roll it
        back, too: *on_notice* is told, and the message comes again, later and later, ten times by
        default.

        Args:
            path: Such as ``/orders``, below where the receiver is mounted.
            faults: Other exceptions that are outcomes, as `Fault` is.
            on_dead: Is called in the transaction that gives a message up.
        """
        if not path.startswith("/"):
            raise ValueError(f"{path!r} is no path: it begins with /")
        outcomes = faults if isinstance(faults, tuple) else (faults,)
        self._applications.register(path, served(function, self._calls, outcomes))
        self._dead[path] = dead(on_dead, self._calls)

    def serve(
        self, port: int, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None
    ) -> None:
        """Serve it until the process is told to end (SIGINT, SIGTERM), also to clients that offer
        HTTP/2 with their first request, as Java's do.

        Args:
            host: The address to listen at; ``0.0.0.0`` is every address of IPv4.
            tls: With a certificate, for ``https``.
        """
        # A program that mounts it in its own server needs no other.
        from gateway.client.serving import Serving

        Serving(port, host, tls).server(self).run()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or follow the lifespan of a server (ASGI 3)."""
        match scope["type"]:
            case "lifespan":
                await self._live(receive, send)
            case "http":
                await _write(await self._answer(scope, receive), send)
            case _:
                await send({"type": "websocket.close", "code": 1000})

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                try:
                    await self.__aenter__()
                except StorageUnavailable as error:
                    await send({"type": "lifespan.startup.failed", "message": str(error)})
                    return
                await send({"type": "lifespan.startup.complete"})
            else:
                await self.__aexit__()
                await send({"type": "lifespan.shutdown.complete"})
                return

    async def _answer(self, scope: Scope, receive: Receive) -> HttpReply:
        path = str(scope["path"]).removeprefix(str(scope.get("root_path", ""))) or "/"
        if path not in self._applications:
            return plain(404, "There is no service here.")
        if scope["method"] != "POST":
            return plain(405, "Messages are sent with POST.", ("Allow", "POST"))
        headers = {name.lower(): value for name, value in scope["headers"]}
        content_type = headers.get(b"content-type", b"").decode("latin-1")
        refusal = unreadable(content_type, headers.get(b"content-encoding", b"").decode("latin-1"))
        if refusal is not None:
            return refusal
        length = headers.get(b"content-length", b"0")
        if not length.isdigit():
            return plain(400, "Content-Length is no number.", ("Connection", "close"))
        if len(length) > 18 or int(length) > self._max_octets:
            return plain(413, "The message is too long.", ("Connection", "close"))
        try:
            async with asyncio.timeout(BODY_TIME):
                octets = await self._read(receive)
        except TimeoutError:
            return plain(408, "The message came too slowly.", ("Connection", "close"))
        if octets is None:
            return plain(413, "The message is too long.", ("Connection", "close"))
        if not self._workers.running:
            try:
                self._calls.loop = asyncio.get_running_loop()
                await asyncio.to_thread(self._start_first)
            except StorageUnavailable:
                return LATER
        return await self._intake.take(
            octets,
            content_type=content_type,
            owner=self._identify(scope),
            service=path,
            peer=side_of(self._address_of(scope)),
        )

    def _start_first(self) -> None:
        """Start because a message came, unless its user closed it.

        Raises:
            StorageUnavailable: It is closed, or the store does not answer.
        """
        with self._lock:
            if self._closed:
                raise StorageUnavailable("the receiver is closed")
            self._workers.start()

    async def _read(self, receive: Receive) -> bytes | None:
        """The body; None: it is too long."""
        octets = bytearray()
        while True:
            message = await receive()
            octets += message.get("body", b"")
            if len(octets) > self._max_octets:
                return None
            if not message.get("more_body") or message["type"] == "http.disconnect":
                return bytes(octets)


async def _write(reply: HttpReply, send: Send) -> None:
    headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in reply.headers]
    headers.append((b"content-length", str(len(reply.body)).encode()))
    await send({"type": "http.response.start", "status": reply.status, "headers": headers})
    await send({"type": "http.response.body", "body": reply.body})


def _nobody(scope: Scope) -> str | None:
    return None


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _hosts(hosts: Collection[str]) -> Callable[[str], bool]:
    named = {host.lower() for host in hosts}

    def allows(address: str) -> bool:
        try:
            parts = urlsplit(address)
            places = {(parts.hostname or "").lower(), parts.netloc.lower()}
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and bool(named & places)

    return allows
