"""The one SOAP endpoint: octets to a request, what it does, an answer in what the peer spoke."""

import asyncio
import contextlib
import math
from datetime import UTC, datetime

import structlog
from starlette.types import Receive, Scope, Send

from adapters import AdapterUnavailable
from filters import Reason, Refused, Topic, parse_clark
from filters.topics import Step
from gateway.egress import (
    HOPS_HEADER,
    AddressPolicy,
    Request,
    SendFailed,
    Transport,
    parse_target,
    read_hops,
)
from gateway.http import (
    HttpLimits,
    HttpRefusal,
    HttpSettings,
    MediaType,
    Networks,
    client_address,
    public_base,
    read_body,
    send_refusal,
    soap_media_type,
)
from gateway.ids import message_urn
from gateway.operations import Call, Operations
from gateway.parsing import Parsing
from gateway.peers import Peer
from mediation import (
    WSA_NONE,
    Arrival,
    Context,
    EndpointReference,
    Incoming,
    Operation,
    Rejected,
    Soap,
    Subscribe,
    Wsa,
    http_headers,
    is_anonymous,
    read,
    reference_headers,
    write_fault,
    write_response,
)
from mediation.wsdl import write_wsdl

TOPIC_PATH = "/soap/topic/"
UNDECODED = "\ufffd"
"""What the server makes of octets in a path that are not UTF-8."""
RETRY_AFTER = 2.0
"""Seconds after which a peer may try again what we could not take."""
REPLIES_AT_A_TIME = 64
HttpAnswer = tuple[int, list[tuple[bytes, bytes]], bytes]
ACCEPTED: HttpAnswer = (202, [(b"content-length", b"0")], b"")
_ON_THE_CONNECTION = frozenset(
    {Reason.REPLY_ADDRESS, Reason.TOO_LARGE, Reason.RATE, Reason.UNAVAILABLE, Reason.INTERNAL}
)
_log = structlog.get_logger("dragoman.soap")


def topic_of_path(path: str) -> Topic | None:
    """The topic that ``/soap/topic/<name>`` names: a path in the ad hoc namespace, or Clark
    notation; decoded once already.

    Raises:
        Refused: ``TOPIC_INVALID``.
    """
    name = path.removeprefix(TOPIC_PATH).strip() if path.startswith(TOPIC_PATH) else ""
    if not name:
        return None
    steps: tuple[Step, ...] = ()
    with contextlib.suppress(ValueError):
        if "{" in name:
            steps = parse_clark(name).steps
        else:
            steps = tuple(Step(None, step) for step in name.split("/"))
    fits = 0 < len(steps) <= 64 and len(name) <= 4096
    if not fits or not all(map(_is_name, steps)) or UNDECODED in name:
        raise Refused(Reason.TOPIC_INVALID, "The URL does not name a topic.")
    return Topic(steps)


def _is_name(step: Step) -> bool:
    return bool(step.name) and step.name.isprintable() and (step.namespace or "").isprintable()


class SoapEndpoint:
    """An ASGI application for every path where SOAP messages arrive."""

    def __init__(
        self,
        operations: Operations,
        parsing: Parsing,
        transport: Transport,
        policy: AddressPolicy,
        *,
        limits: HttpLimits,
        settings: HttpSettings,
        trusted: Networks,
    ) -> None:
        self._operations = operations
        self._parsing = parsing
        self._transport = transport
        self._policy = policy
        self._limits = limits
        self._settings = settings
        self._trusted = trusted
        self._replies: set[asyncio.Task[None]] = set()
        self.requests: dict[str, int] = {}
        """Requests by operation; refusals by their reason."""
        self.refusals: dict[str, int] = {}
        self.draining = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if _asks_for_wsdl(scope):
            body = write_wsdl(f"{public_base(scope, self._settings)}/soap")
            await _respond(send, 200, _headers(Soap.V1_1, "", body), body)
            return
        try:
            if scope["method"] != "POST":
                raise HttpRefusal(405, "SOAP messages are sent with POST.", {"Allow": "POST"})
            media_type = soap_media_type(scope["headers"])
            octets = await read_body(receive, scope, self._limits)
        except HttpRefusal as refusal:
            self._count_refusal(f"http-{refusal.status}")
            await send_refusal(send, refusal)
            return
        await _respond(send, *await self._answer(scope, media_type, octets))

    async def _answer(self, scope: Scope, media_type: MediaType, octets: bytes) -> HttpAnswer:
        hint = Soap.V1_2 if media_type.name == "application/soap+xml" else Soap.V1_1
        context = Context(hint)
        peer = self._peer(scope)
        try:
            incoming = await self._read(scope, media_type, octets, hint, peer)
            context = incoming.context
            return await self._perform(scope, incoming, peer)
        except Rejected as rejected:
            return self._fault(rejected.refused, rejected.context)
        except Refused as refused:
            return self._fault(refused, context)
        except Exception:
            _log.exception("soap.internal-error")
            internal = Refused(Reason.INTERNAL, "Something went wrong here; it is in our log.")
            return self._fault(internal, context)

    async def _read(
        self, scope: Scope, media_type: MediaType, octets: bytes, hint: Soap, peer: Peer
    ) -> Incoming:
        headers = scope["headers"]
        action = media_type.action or _header(headers, b"soapaction").strip().strip('"')
        topic, unreadable = None, None
        try:
            topic = topic_of_path(scope["path"])
        except Refused as refused:
            unreadable = refused
        arrival = Arrival(
            source=peer.source,
            time=datetime.now(UTC),
            fresh_id=message_urn(),
            url_topic=topic,
            http_action=action or None,
        )
        incoming = await self._parsing.run(
            len(octets),
            lambda learnt: read(
                octets, arrival, soap_hint=hint, charset=media_type.charset, learnt=learnt
            ),
            trusted=peer.trusted,
        )
        if unreadable is not None:  # Said in the envelope's version of SOAP, which is known now.
            raise Rejected(incoming.context, unreadable)
        return incoming

    def _peer(self, scope: Scope) -> Peer:
        address = client_address(scope, self._settings)
        return Peer(address, address in self._trusted)

    async def _perform(self, scope: Scope, incoming: Incoming, peer: Peer) -> HttpAnswer:
        context = incoming.context
        operation = context.operation.value if context.operation else "unknown"
        self.requests[operation] = self.requests.get(operation, 0) + 1
        if self.draining:
            raise AdapterUnavailable("The gateway is stopping.")
        hops = read_hops(_all(scope["headers"], HOPS_HEADER.lower().encode()))
        base = public_base(scope, self._settings)
        call = Call(incoming, peer, base, scope["path"], hops)
        elsewhere = self._reply_elsewhere(incoming)
        response = await self._operations.execute(call)
        if response is None:
            return ACCEPTED
        extra = ""
        if elsewhere is not None and context.wsa is not None:
            extra = reference_headers(elsewhere, context.wsa).decode()
        action, body = write_response(
            response, context, message_id=message_urn(), reply_headers=extra
        )
        if elsewhere is None:
            return 200, _headers(context.soap, action, body), body
        self._reply(elsewhere, context.soap, action, body)
        return ACCEPTED

    def _reply_elsewhere(self, incoming: Incoming) -> EndpointReference | None:
        """Where the answer goes, if not on the connection that the request came on.

        Raises:
            Refused: ``REPLY_ADDRESS``: the policy does not allow the address.
        """
        headers, request = incoming.context.headers, incoming.request
        self._elsewhere(headers.fault_to, "wsa:FaultTo")
        reply_to = headers.reply_to
        if (
            reply_to is not None
            and isinstance(request, Subscribe)
            and request.consumer.address == reply_to.address
        ):
            return None  # agsh/onvif names its consumer there and waits on the connection.
        return self._elsewhere(reply_to, "wsa:ReplyTo")

    def _fault_elsewhere(self, refused: Refused, context: Context) -> EndpointReference | None:
        """Where a fault goes, if not on the connection: what HTTP has a status for, and whether an
        event was accepted, is said there always."""
        headers, operation = context.headers, context.operation
        if operation in (None, Operation.PUBLISH) or refused.reason in _ON_THE_CONNECTION:
            return None
        to = headers.fault_to
        if to is None and operation is not Operation.SUBSCRIBE:  # It may be agsh/onvif's.
            to = headers.reply_to
        try:
            return self._elsewhere(to, "")
        except Refused:
            return None

    def _elsewhere(self, epr: EndpointReference | None, name: str) -> EndpointReference | None:
        """*epr*, unless it means the connection.

        Raises:
            Refused: ``REPLY_ADDRESS``: the policy does not allow the address. ``UNAVAILABLE``.
        """
        if epr is None or is_anonymous(epr.address):
            return None
        if epr.address == WSA_NONE and epr.wsa is Wsa.V2005_08:
            return epr
        try:
            self._policy.check(parse_target(epr.address))
        except Refused as refused:
            raise Refused(
                Reason.REPLY_ADDRESS, "The reply address is refused.", names=(name,)
            ) from refused
        if len(self._replies) >= REPLIES_AT_A_TIME:
            raise AdapterUnavailable("Too many replies are under way.")
        return epr

    def _reply(self, to: EndpointReference, soap: Soap, action: str, body: bytes) -> None:
        if to.address == WSA_NONE:
            return
        request = Request(parse_target(to.address), body, http_headers(soap, action))

        async def send() -> None:
            try:
                await self._transport.send(request)
            except SendFailed as failure:
                _log.warning("soap.reply-failed", kind=failure.kind.value)

        task = asyncio.get_running_loop().create_task(send())
        self._replies.add(task)
        task.add_done_callback(self._replies.discard)

    def _fault(self, refused: Refused, context: Context) -> HttpAnswer:
        self._count_refusal(refused.reason.value)
        retry_after = refused.retry_after
        if retry_after is None and refused.reason is Reason.UNAVAILABLE:
            retry_after = RETRY_AFTER
        _log.info(
            "soap.refused",
            reason=refused.reason.value,
            operation=context.operation.value if context.operation else None,
            element=context.element[:200],
            value=refused.value[:200],
        )
        elsewhere = self._fault_elsewhere(refused, context)
        status, body = write_fault(
            refused,
            context,
            now=datetime.now(UTC),
            message_id=message_urn(),
            retry_after=retry_after,
            to=elsewhere,
        )
        if elsewhere is not None:
            self._reply(elsewhere, context.soap, "", body)
            return ACCEPTED
        headers = _headers(context.soap, "", body)
        if retry_after is not None:
            headers.append((b"retry-after", str(max(1, math.ceil(retry_after))).encode()))
        return status, headers, body

    def _count_refusal(self, reason: str) -> None:
        self.refusals[reason] = self.refusals.get(reason, 0) + 1


def _asks_for_wsdl(scope: Scope) -> bool:
    return (
        scope["method"] in ("GET", "HEAD")
        and scope["path"] in ("/soap", "/soap/")
        and scope["query_string"].lower() == b"wsdl"
    )


async def _respond(
    send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
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


def _headers(soap: Soap, action: str, body: bytes) -> list[tuple[bytes, bytes]]:
    """The content type as `http_headers` says it; SOAPAction belongs to requests alone."""
    content_type = http_headers(soap, action)[0][1]
    return [
        (b"content-type", content_type.encode()),
        (b"content-length", str(len(body)).encode()),
    ]
