"""SOAP over HTTP: the front of the SOAP service, and the routes where its messages arrive."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any
from urllib.parse import quote, unquote

from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from filters import Refused
from gateway.egress import HOPS_HEADER, ORIGIN_HEADER, VIA_HEADER
from gateway.exchange import Inbound, Reply
from gateway.http import (
    HttpLimits,
    HttpRefusal,
    HttpSettings,
    public_base,
    read_body,
    request_of,
    send_refusal,
    soap_media_type,
    transport_facts,
    until_gone,
    was_delivered,
)
from gateway.http.media import SOAP_MEDIA_TYPES
from gateway.security.identify import Identification
from gateway.security.principals import Principal
from gateway.security.resource_addresses import (
    ENDPOINTS,
    MESSAGE_BOXES,
    MESSENGER_TOPIC_PATHS,
    TOPIC_PATHS,
    ResourceKind,
    is_endpoint,
    messenger_service,
    resource_at,
)
from gateway.security.rights import Right
from gateway.soap.packaging import is_package, pack, soap_hint, unpack
from gateway.soap.service import SoapService
from gateway.soap.topic_paths import topic_of_path
from mediation.grid_events import (
    NO_TYPES,
    DeclaredTypes,
    asks_for_description,
    write_description,
)
from mediation.grid_events import QUERY as GRID_EVENTS_QUERY
from mediation.model.messages import Packaging
from mediation.model.requests import Context, Rejected
from mediation.model.specification import Service
from mediation.model.versions import Soap
from mediation.soap.envelopes import http_headers
from mediation.wsdl import (
    DESCRIBED,
    schema_named,
    service_named,
    services_named,
    write_wsdl,
)

DELIVERED_WITHIN = 5.0
"""Seconds that a peer has to receive an answer with messages of a mailbox."""
_PATHS = frozenset(
    {
        *ENDPOINTS,
        *(f"{path}/" for path in ENDPOINTS),
        *(path.removesuffix("/") for path in TOPIC_PATHS),
        "/subscriptions",
        "/pullpoints",
    }
)
_BELOW = (*TOPIC_PATHS, ResourceKind.CHANNEL.value, "/subscriptions/", "/pullpoints/")
_HOPS = HOPS_HEADER.lower().encode()
_ORIGIN = ORIGIN_HEADER.lower().encode()
_VIA = VIA_HEADER.lower().encode()


def soap_routes(endpoint: ASGIApp) -> list[BaseRoute]:
    """The routes of SOAP messages, whatever the method: *endpoint* says what is wrong with one."""
    return [Route("/soap", endpoint), _AddressRoute(endpoint)]


def describe_soap(schema: dict[str, Any]) -> None:
    """Add the SOAP endpoint to *schema*, an OpenAPI document; its whole description is the WSDL."""
    envelope = {"schema": {"type": "string", "description": "A SOAP 1.1 or 1.2 envelope."}}
    answers = {
        "200": {"description": "The answer.", "content": {"application/soap+xml": envelope}},
        "202": {"description": "The event is accepted, and durable; or the answer goes elsewhere."},
        "415": {"description": "Another media type; `Accept-Post` has those that are taken."},
        "500": {"description": "A fault, in the specification and the SOAP of the request."},
    }
    content = dict.fromkeys(sorted(SOAP_MEDIA_TYPES), envelope)
    post = {
        "tags": ["SOAP"],
        "summary": "WS-Eventing, WS-Notification and bare events",
        "description": "`GET /soap?wsdl` describes it. The body of an envelope that is no request "
        "is an event; its topic may stand in the path, as `/soap/topic/NAME`.",
        "requestBody": {"required": True, "content": content},
        "responses": answers,
    }
    schema.setdefault("paths", {}).setdefault("/soap", {"post": post})


class _AddressRoute(BaseRoute):
    """Routes a topic's path, and the address of a mailbox or a subscription
    (`gateway.security.resource_addresses`), which may stand behind a path of a proxy's, to the
    endpoint. At a mailbox SOAP is what is posted; the other methods are JSON's. A plain route would
    not do: in the patterns of Starlette's paths a segment has no line break, which a topic in a URL
    may well have.
    """

    def __init__(self, endpoint: ASGIApp) -> None:
        self._endpoint = endpoint

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] == "http":
            path = scope["path"]
            if path in _PATHS or path.startswith(_BELOW):
                return Match.FULL, {"endpoint": self._endpoint}
            resource = resource_at(path)
            if resource is not None and (
                resource.kind in MESSAGE_BOXES or scope["method"] == "POST"
            ):
                return Match.FULL, {"endpoint": self._endpoint}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._endpoint(scope, receive, send)


_OF_CHANNELS = frozenset({Right.PUBLISH, Right.SUBSCRIBE, Right.READ})
"""The rights by which a channel is of use."""


class SoapEndpoint:
    """The endpoint of the application's routes for SOAP messages: an ASGI application, because
    there is nothing in XML that pydantic could check."""

    def __init__(
        self,
        service: SoapService,
        *,
        limits: HttpLimits,
        settings: HttpSettings,
        identification: Identification,
        is_channel: Callable[[str], bool] = lambda _: False,
        admit_body: Callable[[Principal, int], None] = lambda *_: None,
        event_types: DeclaredTypes = NO_TYPES,
    ) -> None:
        self._event_types = event_types
        self._admit_body = admit_body
        self._is_channel = is_channel
        self._service = service
        self._limits = limits
        self._settings = settings
        self._identification = identification

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            body = await self._described(scope)
            if body is not None:
                content_type = http_headers(Soap.V1_1, "")[0][1]
                await _respond(send, 200, [(b"content-type", content_type.encode())], body)
                return
            if scope["method"] != "POST":
                raise HttpRefusal(405, "SOAP messages are sent with POST.", {"Allow": "POST"})
            inbound = await self._inbound(scope, receive)
        except HttpRefusal as refusal:
            peer, path = self._principal(scope).address, scope["path"]
            reason = f"http-{refusal.status}"
            self._service.count_refusal(reason, refusal.text, peer=peer, path=path)
            await send_refusal(send, refusal)
            return
        except Rejected as rejected:
            sender = self._principal(scope)
            reply = await self._service.refuse_signed(rejected, sender, scope["path"])
            await self._answer(scope, send, reply, Packaging.NONE)
            return
        reply = await self._service.handle(inbound)
        if reply.handed_over is None:
            await self._answer(scope, send, reply, inbound.packaging)
            return
        delivered = False
        try:
            await self._answer(scope, send, reply, inbound.packaging)
            delivered = await was_delivered(scope, DELIVERED_WITHIN)
        finally:
            await reply.handed_over(delivered)

    async def _described(self, scope: Scope) -> bytes | None:
        """The WSDL, or the schema beside it, that a request asks for; None for any other
        request.

        Raises:
            HttpRefusal: There is no such description.
        """
        if scope["method"] not in ("GET", "HEAD"):
            return None
        query = scope["query_string"].decode("latin-1")
        if scope["path"].startswith(ResourceKind.CHANNEL.value):
            return await self._channel_described(scope, query)
        if scope["path"].startswith(TOPIC_PATHS[0]):  # WS-Messenger's have no description.
            return self._topic_described(scope, query)
        messenger = service_named(messenger_service(scope["path"]))
        if messenger is not None and query.lower() == "wsdl":
            path = scope["path"].removesuffix("/")
            return write_wsdl(f"{public_base(scope, self._settings)}{path}", (messenger,))
        if not is_endpoint(scope["path"]):
            return schema_named(query) if messenger is not None else None
        if asks_for_description(query):
            address = f"{public_base(scope, self._settings)}/soap"
            return write_description(address, self._event_types)
        services = services_named(query)
        if not services and query.lower().startswith("wsdl="):
            there = ", ".join(dict.fromkeys((*(one.query for one in DESCRIBED), GRID_EVENTS_QUERY)))
            raise HttpRefusal(
                404, f"There is no such description: ?wsdl is all, ?wsdl= of {there}."
            )
        if not services:
            return schema_named(query)
        address = f"{public_base(scope, self._settings)}/soap"
        return self._wsdl(address, services, "/soap")

    def _topic_described(self, scope: Scope, query: str) -> bytes | None:
        """The description of the endpoint of a topic, with its own address, and with what it does
        with sequences.

        Raises:
            HttpRefusal: There is no such topic.
        """
        services = services_named(query)
        if not services:
            return schema_named(query)
        path = scope["path"]
        try:
            topic_of_path(path)
        except Refused as refused:
            raise HttpRefusal(404, str(refused)) from refused
        address = f"{public_base(scope, self._settings)}{quote(path)}"
        return self._wsdl(address, services, path)

    def _wsdl(self, address: str, services: Sequence[Service], path: str) -> bytes:
        service = self._service
        return write_wsdl(
            address, services, sequences=service.sequences_at(path), bound=service.bound
        )

    async def _channel_described(self, scope: Scope, query: str) -> bytes | None:
        """The description of a channel with a name: in the style RPC/encoded, for those of its own
        kind; the others find at the endpoint how they speak. For who may not use a channel there is
        none.

        Raises:
            HttpRefusal: There is no such channel.
        """
        if not (asks_for_description(query) or query.lower() == "wsdl"):
            return None
        resource = resource_at(scope["path"])
        name = resource.key if resource is not None else None
        if name is None or not self._is_channel(name) or not await self._may_know_channels(scope):
            raise HttpRefusal(404, "There is no such channel.")
        base = public_base(scope, self._settings)
        return write_description(ResourceKind.CHANNEL.address(base, name), self._event_types)

    async def _may_know_channels(self, scope: Scope) -> bool:
        """Whether who asks may publish or subscribe at channels, which are the default tenant's, or
        read what there is."""
        try:
            facts = transport_facts(scope, self._settings)
            principal = await self._identification.identify(facts)
        except Refused:
            principal = self._principal(scope)
        return not principal.tenant and not _OF_CHANNELS.isdisjoint(principal.rights)

    def _principal(self, scope: Scope) -> Principal:
        return self._identification.of_connection(transport_facts(scope, self._settings))

    async def _inbound(self, scope: Scope, receive: Receive) -> Inbound:
        """Receive the message of a request, and unpack it if it came in a package.

        Raises:
            HttpRefusal: HTTP has a word for what is wrong.
            Rejected: The package cannot be taken apart.
        """
        headers = scope["headers"]
        media_type = soap_media_type(headers)
        packaged = is_package(media_type)
        most = self._limits.message if packaged else self._limits.envelope
        facts = transport_facts(scope, self._settings)
        try:
            principal = await self._identification.identify(facts)
            admit = partial(self._admit_body, principal)
            octets = await read_body(receive, scope, self._limits, decoded=most, admit=admit)
            if not octets:
                self._identification.challenge_empty(principal)
        except Refused as refused:
            raise Rejected(Context(soap_hint(media_type)), refused) from refused
        if packaged:
            take_out = partial(unpack, media_type, octets, self._limits)
            try:
                unpacked = await self._service.parse(len(octets), take_out, principal)
            except Refused as busy:
                raise Rejected(Context(soap_hint(media_type)), busy) from busy
        else:
            unpacked = unpack(media_type, octets, self._limits)
        return Inbound(
            octets=unpacked.envelope,
            principal=principal,
            base=public_base(scope, self._settings),
            path=_path(scope),
            hint=unpacked.soap,
            declared=unpacked.soap if unpacked.packaging is Packaging.DIME else None,
            action=unpacked.action or _header(headers, b"soapaction").strip().strip('"') or None,
            hops=_all(headers, _HOPS),
            origin=_header(headers, _ORIGIN) or None,
            via=_header(headers, _VIA) or None,
            attachments=unpacked.attachments,
            packaging=unpacked.packaging,
            certificate=facts.certificate,
            headers=headers,
            gone=partial(until_gone, receive),
            identify_again=partial(self._identification.identify, facts),
        )

    async def _answer(self, scope: Scope, send: Send, reply: Reply, packaging: Packaging) -> None:
        if not reply.body:
            await _respond(send, reply.status, [], b"")
            return
        content_type, body = pack(reply.body, reply.soap, reply.action, packaging)
        headers = [(b"content-type", content_type.encode())]
        if reply.status == 401:
            offered = self._identification.challenges(request_of(scope, self._settings))
            headers += ((b"www-authenticate", one.encode()) for one in offered)
        if reply.retry_after is not None:
            headers.append((b"retry-after", str(max(1, math.ceil(reply.retry_after))).encode()))
        await _respond(send, reply.status, headers, body)


async def _respond(
    send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body})


def _path(scope: Scope) -> str:
    """The path of a request; WS-Messenger's clients (Apache Airavata 0.11) put a topic there as it
    is, so what looks like a query is a part of its name."""
    path: str = scope["path"]
    if scope["query_string"] and path.startswith(MESSENGER_TOPIC_PATHS):
        return f"{path}?{unquote(scope['query_string'].decode('latin-1'))}"
    return path


def _header(headers: list[tuple[bytes, bytes]], wanted: bytes) -> str:
    for name, value in headers:
        if name == wanted:
            return value.decode("latin-1")
    return ""


def _all(headers: list[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    """Join all values of a header that should stand once; None where there is none. Hops are read
    from it: a second header must not hide the first."""
    values = [value for name, value in headers if name == wanted]
    return ", ".join(value.decode("latin-1").strip() for value in values) if values else None
