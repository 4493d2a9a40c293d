"""The source itself: a small server that takes subscriptions, and what is published to them."""

import asyncio
import secrets
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

from aiohttp import web

from dragoman.client.base import is_xml
from dragoman.events import to_xml
from dragoman.source import cloudevents
from dragoman.source.delivery import Delivery
from dragoman.source.subscriptions import Answer, Subscriber, Subscriptions
from gateway.client.calling import Caller
from gateway.client.errors import GatewayError
from gateway.client.messaging import read_topic
from gateway.model.hosts import host_and_port
from mediation.model.messages import NO_PROPERTIES, End, EndpointReference, Notification
from mediation.model.versions import Wsa
from mediation.packaging.data import xml_payload
from mediation.soap.body_elements import body_element
from mediation.soap.properties import properties_block, properties_in

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lxml import etree

MAX_REQUEST = 256 * 1024
"""Bytes of a request."""
BODY_TIME = 30.0
"""Seconds for a request to come."""


class Source:
    """Takes Subscribe, Renew, GetStatus, Unsubscribe, Pause and Resume in every specification, with
    filters by topic and content, and delivers what the program publishes to who subscribed.

    All is in memory: subscriptions end with the program, and an event that cannot be delivered
    within eight seconds ends its subscription (SubscriptionEnd says so, where it was asked for). It
    posts to whatever address a subscriber names: let only those reach it who may choose.

    Args:
        host: The address to listen on.
        port: 0 chooses one.
        shown: The host in its own address, where subscribers reach it under another one.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, *, shown: str | None = None) -> None:
        self._host, self._port, self._shown = host, port, shown or host
        self._subscriptions = Subscriptions()
        self._deliveries: dict[str, Delivery] = {}
        self._caller = Caller()
        self._ending: set[asyncio.Task[None]] = set()
        self._id = f"urn:dragoman:source:{secrets.token_hex(8)}"
        self.url = ""
        """Where subscribers find it; known once it is entered."""

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            GatewayError: The address is in use, or not ours.
        """
        app = web.Application(client_max_size=MAX_REQUEST)
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=1.0
        )
        await self._runner.setup()
        try:
            await web.TCPSite(self._runner, self._host, self._port).start()
        except OSError as error:
            await self._runner.cleanup()
            where = host_and_port(self._host, self._port)
            raise GatewayError(f"cannot listen on {where}: {error.strerror or error}") from error
        self.url = f"http://{host_and_port(self._shown, self._runner.addresses[0][1])}"
        await self._caller.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        every = [self._delivery_to(one) for one in self._subscriptions]
        ends = [one.end(End.SHUTTING_DOWN, "The source ends.") for one in every]
        await asyncio.gather(*ends, *self._ending)
        await self._runner.cleanup()
        await self._caller.__aexit__()

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return len(self._subscriptions)

    async def publish(
        self,
        event: "bytes | str | etree._Element | object",
        *,
        topic: str | None = None,
        producer: str | None = None,
        properties: "Mapping[str, str] | None" = None,
        action: str | None = None,
    ) -> int:
        """Publish one event; the number of subscriptions that it is for. Arguments are those of
        `dragoman.client.Client.publish`. `delivered` waits until they have it."""
        payload: Any = event if is_xml(event) else to_xml(event)
        blocks = (properties_block(properties),) if properties else ()
        notification = Notification(
            id=f"urn:uuid:{uuid4()}",
            source=self._id,
            payload=xml_payload(body_element(payload), None),
            time=datetime.now(UTC),
            topic=read_topic(topic),
            action=action,
            producer=EndpointReference(producer or self.url, Wsa.V2005_08),
            properties=properties_in(blocks) if blocks else NO_PROPERTIES,
            headers=blocks,
        )
        now, wanting = datetime.now(UTC), 0
        for one in self._subscriptions:
            if not one.is_alive(now):
                self._forget(one)
            elif one.wants(notification, now):
                wanting += 1
                self._delivery_to(one).put(notification)
        return wanting

    async def delivered(self) -> None:
        """Return when all that was published is delivered, or was given up."""
        await asyncio.gather(*(one.delivered() for one in tuple(self._deliveries.values())))

    def _delivery_to(self, subscriber: Subscriber) -> Delivery:
        found = self._deliveries.get(subscriber.key)
        if found is None:
            found = Delivery(subscriber, self._caller, self.url, self._give_up)
            self._deliveries[subscriber.key] = found
        return found

    def _give_up(self, delivery: Delivery) -> None:
        self._subscriptions.discard(delivery.subscriber)
        self._deliveries.pop(delivery.subscriber.key, None)
        ending = asyncio.get_running_loop().create_task(
            delivery.end(End.DELIVERY_FAILURE, "Events could not be delivered.")
        )
        self._ending.add(ending)
        ending.add_done_callback(self._ending.discard)

    def _forget(self, subscriber: Subscriber) -> None:
        self._subscriptions.discard(subscriber)
        delivery = self._deliveries.pop(subscriber.key, None)
        if delivery is not None:
            delivery.stop()

    async def _answer(self, request: web.Request) -> web.Response:
        try:
            async with asyncio.timeout(BODY_TIME):
                octets = await request.read()
        except TimeoutError:
            return web.Response(status=408, text="The request came too slowly.\n")
        answer = self._answered(request, octets)
        if answer.ended is not None:
            self._forget(answer.ended)
        return web.Response(status=answer.status, body=answer.body, headers=dict(answer.headers))

    def _answered(self, request: web.Request, octets: bytes) -> Answer:
        now, path = datetime.now(UTC), request.path
        if path.startswith(cloudevents.PATH):
            return cloudevents.answer(
                self._subscriptions, request.method, path, octets, self.url, now
            )
        if request.method != "POST":
            return Answer(405, (("Allow", "POST"),), b"")
        action = request.headers.get("SOAPAction", "").strip('"') or None
        return self._subscriptions.answer(octets, path, self.url, now, action)
