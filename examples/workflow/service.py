"""What the services of this example have in common: pages, statuses, a consumer."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime

from aiohttp import web
from steps import Status

from dragoman.client import Client, Consumer, GatewayError, WsnClient
from dragoman.events import from_xml

RETRY = 1.0


def now() -> str:
    """The time of a status."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def read_status(xml: bytes | str) -> Status | None:
    """The status that was published; None: it is something else, which is passed by."""
    try:
        return from_xml(Status, xml)
    except ValueError:
        return None


async def publish(client: Client, status: Status, topic: str) -> None:
    """Publish a status; while the gateway is away, again and again, with the same id."""
    while True:
        try:
            await client.publish(status, topic=topic)
            return
        except GatewayError as error:
            if error.is_final:
                raise
            await asyncio.sleep(RETRY)


@web.middleware
async def refuse_other_sites(request: web.Request, handler: Callable) -> web.StreamResponse:
    """Refuse what a page of another site has the browser send."""
    if request.method == "POST" and request.headers.get("Origin") not in (None, own(request)):
        raise web.HTTPForbidden(text="This may be sent from the page of this service alone.")
    return await handler(request)


def own(request: web.Request) -> str:
    """The origin of the service's own pages."""
    return f"http://{request.host}"


async def serve(application: web.Application, port: int = 0) -> str:
    """Serve on loopback until the program ends; the URL."""
    application.middlewares.append(refuse_other_sites)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    return f"http://127.0.0.1:{runner.addresses[0][1]}/"


async def consume(
    name: str, gateway: str, application: web.Application, take: Callable[[str, Status], None]
) -> None:
    """Print the addresses of the page and of the consumer, then take each status that comes.

    The subscriptions are made and ended by the engine of a run. So that it ends none while events
    are under way, the consumer says on the topic that it has the last one.
    """
    async with WsnClient(gateway) as client, Consumer() as consumer:
        page = await serve(application)
        print(json.dumps({"page": page, "consumer": consumer.address}), flush=True)
        async for event in consumer:
            status, topic = read_status(event.payload), event.topic
            if status is None or topic is None:
                continue
            take(topic, status)
            if status.ends_run:
                recorded = Status(f"{name}/recorded", name, "recorded", now())
                await publish(client, recorded, topic)
