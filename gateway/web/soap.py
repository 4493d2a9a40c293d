"""SOAP over HTTP: the front of the SOAP service for every path where its messages arrive."""

import math
from dataclasses import dataclass
from functools import partial

from starlette.types import Receive, Scope, Send

from filters import Refused
from gateway.egress import HOPS_HEADER
from gateway.http import (
    WHOLE,
    Answering,
    AsgiExchange,
    Exchange,
    HttpLimits,
    HttpRefusal,
    HttpSettings,
    MediaType,
    Networks,
    client_address,
    is_coded,
    public_base,
    read_body,
    send_refusal,
    soap_media_type,
)
from gateway.packaging import Unpacked, is_package, pack, soap_hint, unpack
from gateway.peers import Peer
from gateway.soap import Arrived, Reply, SoapService
from mediation import Context, Packaging, Rejected, Soap, http_headers
from mediation.wsdl import write_wsdl

DELIVERED_WITHIN = 5.0
"""Seconds that a peer has to take in an answer with messages of a mailbox."""


class SoapEndpoint:
    """An ASGI application."""

    def __init__(
        self,
        service: SoapService,
        *,
        limits: HttpLimits,
        settings: HttpSettings,
        trusted: Networks,
    ) -> None:
        self._service = service
        self._limits = limits
        self._settings = settings
        self._trusted = trusted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = AsgiExchange(scope, receive, send)
        if _asks_for_wsdl(scope):
            body = write_wsdl(f"{public_base(scope, self._settings)}/soap")
            content_type = http_headers(Soap.V1_1, "")[0][1]
            await exchange.respond(200, [(b"content-type", content_type.encode())], body)
            return
        try:
            if scope["method"] != "POST":
                raise HttpRefusal(405, "SOAP messages are sent with POST.", {"Allow": "POST"})
            head = self._head(scope)
            most = self._limits.message if head.said is None else self._limits.envelope
            octets = await read_body(receive, scope, self._limits, decoded=most)
            unpacked = head.said
            if unpacked is None:
                unpacked = await self._unpacked(head, octets)
                octets = unpacked.envelope
            arrived = head.arrived(octets, unpacked, exchange)
        except HttpRefusal as refusal:
            self._service.count_refusal(f"http-{refusal.status}")
            await send_refusal(send, refusal)
        except Rejected as rejected:
            await _answer(exchange, self._service.refuse(rejected), Packaging.NONE)
        else:
            await self._handle(arrived, exchange)

    def prepare(self, scope: Scope) -> Answering | None:
        """How messages behind this head are answered; None for packages, for what is compressed,
        and for what is refused."""
        fits = min(self._limits.envelope, self._limits.message) >= WHOLE
        if scope["method"] != "POST" or not fits or is_coded(scope["headers"]):
            return None
        try:
            head = self._head(scope)
        except HttpRefusal:
            return None
        said = head.said
        if said is None:
            return None

        async def answer(octets: bytes, exchange: Exchange) -> None:
            await self._handle(head.arrived(octets, said, exchange), exchange)

        return answer

    def _head(self, scope: Scope) -> "_Head":
        headers = scope["headers"]
        media_type = soap_media_type(headers)
        address = client_address(scope, self._settings)
        return _Head(
            media_type,
            None if is_package(media_type) else unpack(media_type, b"", self._limits),
            Peer(address, address in self._trusted),
            public_base(scope, self._settings),
            scope["path"],
            _header(headers, b"soapaction").strip().strip('"') or None,
            _all(headers, HOPS_HEADER.lower().encode()),
        )

    async def _unpacked(self, head: "_Head", octets: bytes) -> Unpacked:
        take_out = partial(unpack, head.media_type, octets, self._limits)
        try:
            return await self._service.parse(len(octets), take_out, head.peer)
        except Refused as busy:
            raise Rejected(Context(soap_hint(head.media_type)), busy) from busy

    async def _handle(self, arrived: Arrived, exchange: Exchange) -> None:
        reply = await self._service.handle(arrived)
        if reply.handed_over is None:
            await _answer(exchange, reply, arrived.packaging)
            return
        delivered = False
        try:
            await _answer(exchange, reply, arrived.packaging)
            delivered = await exchange.delivered(DELIVERED_WITHIN)
        finally:
            await reply.handed_over(delivered)


@dataclass(frozen=True, slots=True)
class _Head:
    """What the head of a request says of the message behind it.

    Attributes:
        said: Of a message that is in no package; None for a package.
        action: That of the header ``SOAPAction``.
    """

    media_type: MediaType
    said: Unpacked | None
    peer: Peer
    base: str
    path: str
    action: str | None
    hops: str | None

    def arrived(self, envelope: bytes, unpacked: Unpacked, exchange: Exchange) -> Arrived:
        return Arrived(
            envelope,
            self.peer,
            self.base,
            self.path,
            unpacked.soap,
            unpacked.charset,
            unpacked.soap if unpacked.packaging is Packaging.DIME else None,
            unpacked.action or self.action,
            self.hops,
            unpacked.attachments,
            unpacked.packaging,
            exchange.gone,
        )


async def _answer(exchange: Exchange, reply: Reply, packaging: Packaging) -> None:
    if not reply.body:
        await exchange.respond(reply.status, (), b"")
        return
    content_type, body = pack(reply.body, reply.soap, reply.action, packaging)
    headers = [(b"content-type", content_type.encode())]
    if reply.retry_after is not None:
        headers.append((b"retry-after", str(max(1, math.ceil(reply.retry_after))).encode()))
    await exchange.respond(reply.status, headers, body)


def _asks_for_wsdl(scope: Scope) -> bool:
    return (
        scope["method"] in ("GET", "HEAD")
        and scope["path"] in ("/soap", "/soap/")
        and scope["query_string"].lower() == b"wsdl"
    )


def _header(headers: list[tuple[bytes, bytes]], wanted: bytes) -> str:
    for name, value in headers:
        if name == wanted:
            return value.decode("latin-1")
    return ""


def _all(headers: list[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    """All values of a header that should stand once; None where it does not stand at all."""
    values = [value.decode("latin-1").strip() for name, value in headers if name == wanted]
    return ", ".join(values) if values else None
