"""An inbox over HTTP: as an application of ASGI and of WSGI, and listening by itself."""

import asyncio
import signal
import ssl
import threading
from collections.abc import Callable, MutableMapping
from http import HTTPStatus
from typing import Any, Protocol

from aiohttp import web

from gateway.client.outbox.arrivals import Answer, Headers

MAX_BYTES = 16 * 1024 * 1024
BODY_TIME = 30.0
"""Seconds in which a body comes."""
TOO_LONG = Answer(413, "The request is too long.", (("Connection", "close"),))


class Receiving(Protocol):
    """What takes requests."""

    async def receive(self, headers: Headers, body: bytes) -> Answer: ...

    def receive_now(self, headers: Headers, body: bytes) -> Answer: ...

    def options(self, headers: Headers) -> Answer: ...

    async def __aenter__(self) -> Any: ...

    async def __aexit__(self, *_: object) -> None: ...


async def answer_asgi(inbox: Receiving, scope: Any, receive: Any, send: Any) -> None:
    """Answer one request, or follow the lifespan of a server (ASGI 3)."""
    if scope["type"] == "lifespan":
        await _follow_lifespan(inbox, receive, send)
        return
    if scope["type"] != "http":
        await send({"type": "websocket.close", "code": 1000})
        return
    headers = [(name.lower(), value) for name, value in scope["headers"]]
    answer = refused(scope["method"])
    if scope["method"] == "OPTIONS":
        answer = inbox.options(headers)
    if answer is None:
        body = await _read(receive)
        answer = body if isinstance(body, Answer) else await inbox.receive(headers, body)
    content = answer.text.encode()
    sent = [(b"content-length", str(len(content)).encode()), *_octets(answer)]
    await send({"type": "http.response.start", "status": answer.status, "headers": sent})
    await send({"type": "http.response.body", "body": content})


async def _follow_lifespan(inbox: Receiving, receive: Any, send: Any) -> None:
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            try:
                await inbox.__aenter__()
            except Exception as error:  # Else the server goes on without what delivers.
                await send({"type": "lifespan.startup.failed", "message": str(error)})
                return
            await send({"type": "lifespan.startup.complete"})
        else:
            await inbox.__aexit__()
            await send({"type": "lifespan.shutdown.complete"})
            return


def refused(method: str) -> Answer | None:
    """The answer to a method that is none of ours."""
    if method in ("POST", "OPTIONS"):
        return None
    return Answer(405, "Messages are sent with POST.", (("Allow", "POST, OPTIONS"),))


def _octets(answer: Answer) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers]


async def _read(receive: Any) -> bytes | Answer:
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_TIME):
            while True:
                message: MutableMapping[str, Any] = await receive()
                body += message.get("body", b"")
                if len(body) > MAX_BYTES:
                    return TOO_LONG
                if not message.get("more_body"):
                    return bytes(body)
    except TimeoutError:
        return Answer(408, "The request came too slowly.", (("Connection", "close"),))


def answer_wsgi(inbox: Receiving, environ: Any, start_response: Callable[..., Any]) -> list[bytes]:
    """Answer one request (WSGI)."""
    headers = [
        (name.removeprefix("HTTP_").replace("_", "-").lower().encode(), value.encode("latin-1"))
        for name, value in environ.items()
        if name.startswith("HTTP_") or name == "CONTENT_TYPE"
    ]
    method, length = environ["REQUEST_METHOD"], environ.get("CONTENT_LENGTH") or "0"
    answer = refused(method)
    if method == "OPTIONS":
        answer = inbox.options(headers)
    elif not length.isdigit() or len(length) > 18 or int(length) > MAX_BYTES:
        answer = TOO_LONG
    if answer is None:
        answer = inbox.receive_now(headers, environ["wsgi.input"].read(int(length)))
    content = answer.text.encode()
    status = f"{answer.status} {HTTPStatus(answer.status).phrase}"
    start_response(status, [*answer.headers, ("Content-Length", str(len(content)))])
    return [content]


class Listening:
    """Listens for an inbox, in its event loop."""

    def __init__(self, inbox: Receiving, port: int, host: str, tls: ssl.SSLContext | None) -> None:
        self._inbox = inbox
        self._place = host, port
        self._tls = tls
        self._runner: web.AppRunner | None = None
        self.port = port

    async def start(self) -> None:
        """Listen.

        Raises:
            OSError: Another program listens there.
        """
        app = web.Application(client_max_size=MAX_BYTES)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        host, port = self._place
        site = web.TCPSite(self._runner, host, port, ssl_context=self._tls)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        headers = [(name.lower(), value) for name, value in request.raw_headers]
        answer = refused(request.method)
        if request.method == "OPTIONS":
            answer = self._inbox.options(headers)
        if answer is None:
            try:
                answer = await self._inbox.receive(headers, await request.read())
            except web.HTTPRequestEntityTooLarge:
                answer = TOO_LONG
        return web.Response(status=answer.status, text=answer.text, headers=dict(answer.headers))


def until_told() -> None:
    """Wait until the process is told to end (SIGINT, SIGTERM)."""
    told = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: told.set())
    while not told.wait(3600.0):
        pass
