"""An intermediary of HTTP in front of a gateway, which changes what passes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import ClientSession, web


@dataclass
class Intermediary:
    """Passes requests on to *target*, with the headers as they are, `Host` as well.

    Attributes:
        changes: What is replaced in bodies, by what.
        headers: What is added to each request.
    """

    target: str
    url: str = ""
    changes: dict[bytes, bytes] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)

    async def pass_on(self, request: web.Request) -> web.Response:
        body = await request.read()
        for what, other in self.changes.items():
            body = body.replace(what, other)
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in ("content-length", "transfer-encoding")
        } | self.headers
        async with (
            ClientSession() as session,
            session.request(
                request.method, self.target + request.raw_path, data=body, headers=headers
            ) as answer,
        ):
            said = {"Content-Type": answer.headers.get("Content-Type", "text/plain")}
            return web.Response(status=answer.status, body=await answer.read(), headers=said)


@asynccontextmanager
async def intermediary(target: str) -> AsyncIterator[Intermediary]:
    """Run one in front of *target*."""
    found = Intermediary(target)
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", found.pass_on)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        found.url = f"http://{host}:{port}"
        yield found
    finally:
        await asyncio.shield(runner.cleanup())
