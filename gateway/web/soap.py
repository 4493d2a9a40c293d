"""SOAP over HTTP: the front of the SOAP service for every path where its messages arrive."""

import math
from functools import partial

from starlette.types import Receive, Scope, Send

from filters import Refused
from gateway.egress import HOPS_HEADER
from gateway.http import (
    HttpLimits,
    HttpRefusal,
    HttpSettings,
    Networks,
    client_address,
    public_base,
    read_body,
    send_refusal,
    soap_media_type,
    was_delivered,
)
from gateway.packaging import is_package, pack, soap_hint, unpack
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
        if _asks_for_wsdl(scope):
            body = write_wsdl(f"{public_base(scope, self._settings)}/soap")
            content_type = http_headers(Soap.V1_1, "")[0][1]
            await _respond(send, 200, [(b"content-type", content_type.encode())], body)
            return
        try:
            if scope["method"] != "POST":
                raise HttpRefusal(405, "SOAP messages are sent with POST.", {"Allow": "POST"})
            arrived = await self._arrived(scope, receive)
        except HttpRefusal as refusal:
            self._service.count_refusal(f"http-{refusal.status}")
            await send_refusal(send, refusal)
            return
        except Rejected as rejected:
            await _answer(send, self._service.refuse(rejected), Packaging.NONE)
            return
        reply = await self._service.handle(arrived)
        if reply.handed_over is None:
            await _answer(send, reply, arrived.packaging)
            return
        delivered = False
        try:
            await _answer(send, reply, arrived.packaging)
            delivered = await was_delivered(scope, DELIVERED_WITHIN)
        finally:
            await reply.handed_over(delivered)

    async def _arrived(self, scope: Scope, receive: Receive) -> Arrived:
        headers = scope["headers"]
        media_type = soap_media_type(headers)
        packaged = is_package(media_type)
        most = self._limits.message if packaged else self._limits.envelope
        octets = await read_body(receive, scope, self._limits, decoded=most)
        address = client_address(scope, self._settings)
        peer = Peer(address, address in self._trusted)
        if packaged:
            take_out = partial(unpack, media_type, octets, self._limits)
            try:
                unpacked = await self._service.parse(len(octets), take_out, peer)
            except Refused as busy:
                raise Rejected(Context(soap_hint(media_type)), busy) from busy
        else:
            unpacked = unpack(media_type, octets, self._limits)
        return Arrived(
            unpacked.envelope,
            peer,
            public_base(scope, self._settings),
            scope["path"],
            hint=unpacked.soap,
            declared=unpacked.soap if unpacked.packaging is Packaging.DIME else None,
            charset=unpacked.charset,
            action=unpacked.action or _header(headers, b"soapaction").strip().strip('"') or None,
            hops=_all(headers, HOPS_HEADER.lower().encode()),
            attachments=unpacked.attachments,
            packaging=unpacked.packaging,
            gone=partial(_gone, receive),
        )


async def _gone(receive: Receive) -> None:
    """Return when the peer has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _answer(send: Send, reply: Reply, packaging: Packaging) -> None:
    if not reply.body:
        await _respond(send, reply.status, [], b"")
        return
    content_type, body = pack(reply.body, reply.soap, reply.action, packaging)
    headers = [(b"content-type", content_type.encode())]
    if reply.retry_after is not None:
        headers.append((b"retry-after", str(max(1, math.ceil(reply.retry_after))).encode()))
    await _respond(send, reply.status, headers, body)


def _asks_for_wsdl(scope: Scope) -> bool:
    return (
        scope["method"] in ("GET", "HEAD")
        and scope["path"] in ("/soap", "/soap/")
        and scope["query_string"].lower() == b"wsdl"
    )


async def _respond(
    send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    headers.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _header(headers: list[tuple[bytes, bytes]], wanted: bytes) -> str:
    for name, value in headers:
        if name == wanted:
            return value.decode("latin-1")
    return ""


def _all(headers: list[tuple[bytes, bytes]], wanted: bytes) -> str | None:
    """All values of a header that should stand once; None where it does not stand at all."""
    values = [value.decode("latin-1").strip() for name, value in headers if name == wanted]
    return ", ".join(values) if values else None
