"""``dragoman demo --from --to``: a publisher and a consumer that speak any two dialects."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Self
from urllib.parse import urlsplit

from aiohttp import web

from filters import parse_clark
from gateway.cli.output import line, styled, table
from gateway.client import Answer, Client, Exchange
from gateway.client.messaging import fresh_id
from gateway.client.publication_addresses import publication_address, publication_path
from gateway.observing.xml_indentation import pretty
from mediation import names
from mediation.client import read_made, write_fetching, write_subscribe
from mediation.detect import read
from mediation.grid_events import Event, Port, write_subscribe_lease
from mediation.matrix import Dialect, Fact, Publication, losses, read_publication, write_publication
from mediation.model.expiry import format_seconds
from mediation.model.messages import EndpointReference, Notification
from mediation.model.requests import Arrival, Done, Operation
from mediation.model.versions import Soap, Spec, Wsa
from mediation.responses import write_response
from mediation.soap.envelopes import http_headers
from mediation.specifications import SPECIFICATIONS

TOPIC = "storms"
_PAYLOAD = (
    b'<w:Warning xmlns:w="http://example.org/weather">'
    b"<w:place>Amherst</w:place><w:speed>120</w:speed></w:Warning>"
)
_PUBLISHER = "http://publisher.example.org/"
_LEASE = timedelta(minutes=10)
_MAKING = {
    Operation.GET_MESSAGES: Operation.CREATE_PULL_POINT,
    Operation.TAKE_MESSAGES: Operation.CREATE_MESSAGE_BOX,
    Operation.PULL_MESSAGES: Operation.CREATE_PULL_POINT_SUBSCRIPTION,
}
"""The operation that makes what another fetches from; the last subscribes, too."""
_BOX = "/axis2/services/MsgBoxService/clientid/"
_AGAIN = 0.05
"""Seconds from one fetching to the next, where the operation does not wait."""
_SHOWN = frozenset({"host", "content-type", "soapaction"})


@dataclass(frozen=True, slots=True)
class Message:
    """What a consumer got."""

    url: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Sink:
    """A consumer that takes whatever is sent to it, in any specification."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[Message] = asyncio.Queue()
        self._runner: web.AppRunner | None = None
        self.address = ""

    async def __aenter__(self) -> Self:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.address = f"http://127.0.0.1:{self._runner.addresses[0][1]}/events"
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def receive(self) -> Message:
        return await self._arrived.get()

    async def _answer(self, request: web.Request) -> web.Response:
        if request.method == "OPTIONS":  # A sender of events asks whether it may.
            return web.Response(headers={"WebHook-Allowed-Origin": "*"})
        headers = tuple((str(name), value) for name, value in request.headers.items())
        body = await request.read()
        self._arrived.put_nowait(Message(self.address, headers, body))
        if b"AckRequested" not in body:
            return web.Response(status=202)
        context = read(body, Arrival("", datetime.now(UTC), fresh_id())).context
        _, answer = write_response(Done(), context, message_id=fresh_id())
        return web.Response(body=answer, content_type=context.soap.media_type)


def print_message(url: str, headers: Iterable[tuple[str, str]], body: bytes) -> None:
    """Print a message as it went over the wire, indented."""
    line(f"POST {urlsplit(url).path}")
    for name, value in headers:
        if name.lower() in _SHOWN or name.lower().startswith("ce-"):
            line(f"{name}: {value}")
    line()
    line(_json(body) if body.startswith((b"{", b"[")) else pretty(body))


def print_request(title: str, exchange: Exchange) -> None:
    """Print a request with what was answered."""
    line()
    styled(title)
    print_message(exchange.url, exchange.headers, exchange.body)
    line(f"-> answered {exchange.answer.words}")


def _json(body: bytes) -> str:
    return json.dumps(json.loads(body), indent=2, ensure_ascii=False)


async def show_pair(url: str, origin: Dialect, target: Dialect) -> None:
    """Let one publish and another be notified, print what goes over the wire, and what is lost."""
    styled(f"=== From {origin.title} to {target.title} ===")
    titles = {
        "Subscribe": f"The subscriber asks, in {target.title}:",
        "Publish": f"The publisher sends, in {origin.title}:",
    }

    def exchanged(exchange: Exchange) -> None:
        if exchange.operation in titles:
            print_request(titles[exchange.operation], exchange)

    async with Sink() as sink, Client(url, watch=exchanged) as client:
        at = publication_address(origin)
        publication = write_publication(origin, _event(at.action), f"{url}{at.path}")
        topic = str(read_publication(origin, publication, parse_clark(TOPIC)).topic or TOPIC)
        receive = await _subscribe(client, url, target, sink, topic)
        await client.post("Publish", publication_path(origin, publication, TOPIC), *publication[:2])
        message = await receive()
        line()
        styled(f"The subscriber receives, in {target.title}:")
        print_message(message.url, message.headers, message.body)
    line()
    _print_losses(origin, target, publication, url)


def _event(action: str) -> Notification:
    return Notification(
        id=fresh_id(),
        source="",
        payload=_PAYLOAD,
        time=datetime.now(UTC),
        topic=parse_clark(TOPIC),
        action=action,
        producer=EndpointReference(_PUBLISHER, Wsa.V2005_08),
    )


async def _subscribe(
    client: Client, url: str, target: Dialect, sink: Sink, topic: str
) -> Callable[[], Awaitable[Message]]:
    """Subscribe for *topic* in *target*; what waits for the next message is returned."""
    form = target.forms[-1]
    if not isinstance(form, Soap):
        wanted = {
            "sink": sink.address,
            "protocol": "HTTP",
            "protocolsettings": {"mode": form.value},
            "config": {"topic": topic, "expires": _end()},
        }
        headers = (("Content-Type", "application/json"),)
        await client.post(
            "Subscribe", "/events/subscriptions", headers, json.dumps(wanted).encode()
        )
        return sink.receive
    if SPECIFICATIONS[target.version].calls:
        port, lease = (
            Port(sink.address, "urn:example:listener"),
            _LEASE // timedelta(milliseconds=1),
        )
        message = write_subscribe_lease(port, lease, pattern=Event(type=TOPIC))
        await client.post("Subscribe", "/soap", *message)
        return sink.receive
    if target.fetching is None:
        await _subscribe_at(client, url, target, form, sink.address, topic)
        return sink.receive
    return await _subscribe_box(client, url, target, form, topic)


async def _subscribe_at(
    client: Client, url: str, target: Dialect, form: Soap, consumer: str, topic: str
) -> None:
    action, body = write_subscribe(
        Spec(target.version, form, target.wsa),
        to=f"{url}/soap",
        consumer=EndpointReference(consumer, target.wsa),
        message_id=fresh_id(),
        topic=topic,
        expires=_end(),
        raw=target.raw,
        topic_dialect=target.topics,
        mode=names.WSMAN_EVENTS if target.delivery.batched else None,
    )
    await client.post("Subscribe", "/soap", http_headers(form, action), body)


async def _subscribe_box(
    client: Client, url: str, target: Dialect, form: Soap, topic: str
) -> Callable[[], Awaitable[Message]]:
    """Make a mailbox, and subscribe it."""
    fetching = target.fetching
    assert fetching is not None, "the caller looked"
    spec = Spec(fetching.version, form, target.wsa)

    async def ask(operation: Operation, to: str, name: str = "") -> tuple[Answer, bytes]:
        action, body = write_fetching(
            spec, operation, to, message_id=fresh_id(), topic=topic, expires=_end()
        )
        answer = await client.post(name, to, http_headers(form, action), body)
        return answer, body

    making = _MAKING[fetching.operation]
    subscribes = making is Operation.CREATE_PULL_POINT_SUBSCRIPTION
    made, _ = await ask(making, f"{url}/soap", "Subscribe" if subscribes else "")
    box = read_made(made.body)
    if "://" not in box:
        box = f"{url}{_BOX}{box}"
    if not subscribes:
        await _subscribe_at(client, url, target, form, box, topic)

    async def take() -> Message:
        while True:
            answer, _ = await ask(fetching.operation, box)
            if b"Amherst" in answer.body:
                return Message(box, (("Content-Type", answer.content_type),), answer.body)
            await asyncio.sleep(_AGAIN)

    return take


def _print_losses(origin: Dialect, target: Dialect, publication: Publication, url: str) -> None:
    event = read_publication(origin, publication, parse_clark(TOPIC))
    told = losses(event, target.shape(), f"{url}/soap", tells=target.tells)
    rows = [
        (
            loss.fact.value,
            loss.said or "(nothing)",
            loss.read or _INSTEAD.get(loss.fact, "(nothing)"),
        )
        for loss in told
        if loss.fact in origin.says or not loss.said
    ]
    if not rows:
        line("Nothing of this event is lost; docs/mediation.md says what could be.")
        return
    styled("What the subscriber does not read as it was said:")
    for row in table(("what", "was said", "is read"), rows):
        line(row)


_INSTEAD = {Fact.ID: "an id of the delivery's own"}


def _end() -> str:
    """The end of a lease. As a time: the drafts know no durations."""
    return format_seconds(datetime.now(UTC) + _LEASE)
