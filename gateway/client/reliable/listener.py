"""The back channel of a client that can be called: acknowledgements and replies come to it."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from aiohttp import web

from gateway.client.errors import GatewayError
from gateway.client.reliable.addresses import place_of
from gateway.client.reliable.http_requests import (
    BODY_TIME,
    MAX_OCTETS,
    HttpReply,
    Intake,
    plain,
    unreadable,
)
from gateway.client.sequence_binding import CheckSignature

log = logging.getLogger("dragoman.reliable")


@asynccontextmanager
async def listening(
    url: str,
    bind: tuple[str, int] | None,
    intake: Callable[[], Intake],
    check: CheckSignature | None,
) -> AsyncIterator[None]:
    """Listen, in the event loop of the workers.

    Args:
        bind: The host and port to listen on, if *url* names others.
        check: Checks what comes; None: whoever sends it is believed.

    Raises:
        GatewayError: The address is in use, or not ours.
    """
    host, port = bind or place_of(url)
    own = intake()

    async def answer(request: web.Request) -> web.Response:
        reply = await _take(request, own, check)
        return web.Response(status=reply.status, headers=dict(reply.headers), body=reply.body)

    app = web.Application(client_max_size=MAX_OCTETS)
    app.router.add_post(urlsplit(url).path or "/", answer)
    runner = web.AppRunner(
        app, access_log=None, logger=log, handle_signals=False, shutdown_timeout=1.0
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            why = (error.strerror or str(error)).rpartition(": ")[2]
            raise GatewayError(f"cannot listen on {host}:{port}: {why}") from error
        yield
    finally:
        await runner.cleanup()


async def _take(request: web.Request, intake: Intake, check: CheckSignature | None) -> HttpReply:
    content_type = request.headers.get("Content-Type", "")
    refusal = unreadable(content_type)  # aiohttp opens compressed bodies, within bounds.
    if refusal is not None:
        return refusal
    try:
        async with asyncio.timeout(BODY_TIME):
            octets = await request.read()
    except TimeoutError:
        return plain(408, "The message came too slowly.", ("Connection", "close"))
    if check is not None:
        try:
            await asyncio.to_thread(check, octets)
        except GatewayError as error:
            log.info("%s", error)
            return plain(403, str(error))
    return await intake.take(octets, content_type=content_type, owner=None, service="")
