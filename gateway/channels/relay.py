"""``POST /relay/TOKEN``: the way to a listener or a channel behind a firewall.

An operator maps a token to a location inside (`relay_tokens`). What is posted there goes to the
location: its body, its Content-Type and its SOAPAction, once, and the answer comes back. So a
directory holds the relay's address, and the one inside stays unknown (SoapRMI Events, 2001,
"Firewalls").
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import structlog
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from filters import Refused
from gateway.channels.relay_tokens import Relay, RelayTokens, RelayUnknown
from gateway.egress import (
    HOPS_HEADER,
    ORIGIN_HEADER,
    VIA_HEADER,
    Answer,
    FailureKind,
    LoopRefused,
    Request,
    SendFailed,
    Target,
    Transport,
    hops_header,
    read_hops,
    read_origin,
)
from gateway.http import HttpLimits, HttpRefusal, header_value, read_body, send_refusal
from gateway.observing.samples import Sample, counters
from gateway.security.resource_addresses import shown

PREFIX = "/relay/"
SECONDS = 20.0
"""The time that a location has, its answer included."""
AT_A_TIME = 64
"""Messages that are under way to one location; more are told to come again."""
LONGEST_TOKEN = 256
_FORWARDED = (
    (b"content-type", "Content-Type"),
    (b"soapaction", "SOAPAction"),
    (VIA_HEADER.lower().encode(), VIA_HEADER),
)
_OUTCOMES = {502: "failed", 503: "busy", 504: "failed"}
"""What is counted of a refusal with this status; any other is refused."""
_RETURNED = ("content-type", "content-encoding", "retry-after")
_log = structlog.get_logger("dragoman.relay")


def relay_routes(endpoint: ASGIApp) -> list[BaseRoute]:
    """The routes of relays, whatever the method: *endpoint* says what is wrong with one."""
    return [_RelayRoute(endpoint)]


class _RelayRoute(BaseRoute):
    def __init__(self, endpoint: ASGIApp) -> None:
        self._endpoint = endpoint

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] == "http" and scope["path"].startswith(PREFIX):
            return Match.FULL, {"endpoint": self._endpoint}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._endpoint(scope, receive, send)


class Relays:
    """Relays messages, as an ASGI application.

    Args:
        tokens: Those that there are, and where what is posted to each goes.
        authorise_sender: Refuses who may not publish; `RelayUnknown` to whom there are no relays;
            `HttpRefusal` who has to say who it is.
    """

    def __init__(
        self,
        tokens: RelayTokens,
        transport: Transport,
        *,
        limits: HttpLimits,
        authorise_sender: Callable[[Scope], Awaitable[None]],
        seconds: float = SECONDS,
        at_a_time: int = AT_A_TIME,
    ) -> None:
        self._tokens = tokens
        self._transport = transport
        self._limits = limits
        self._authorise_sender = authorise_sender
        self._seconds = seconds
        self._at_a_time = at_a_time
        self.outcomes: dict[str, int] = {}
        """The number of messages by what became of them."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            answer = await self._relay(scope, receive)
        except HttpRefusal as refusal:
            await send_refusal(send, refusal)
            return
        headers = [
            (name.encode(), header_value(answer.headers[name]).encode())
            for name in _RETURNED
            if name in answer.headers
        ]
        headers.append((b"content-length", str(len(answer.body)).encode()))
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": answer.body})

    async def _relay(self, scope: Scope, receive: Receive) -> Answer:
        """The answer of the location that a request is for.

        Raises:
            HttpRefusal: There is none.
        """
        try:
            await self._authorise_sender(scope)
        except RelayUnknown:
            raise self._unknown() from None
        except HttpRefusal:
            self._count("refused")
            raise
        except Refused as refused:
            self._count("refused")
            raise HttpRefusal(403, refused.text) from None
        said = scope["path"].removeprefix(PREFIX).removesuffix("/")
        relay = await self._tokens.named(said[:LONGEST_TOKEN])
        if relay is None:
            raise self._unknown()
        if scope["method"] != "POST":
            self._count("refused")
            raise HttpRefusal(405, "Messages are sent with POST.", {"Allow": "POST"})
        try:
            # Before it takes a place: who sends slowly keeps nobody out.
            body = await read_body(receive, scope, self._limits)
            answer = await self._in_turn(relay, scope, body)
        except HttpRefusal as refusal:
            self._count(_OUTCOMES.get(refusal.status, "refused"))
            raise
        self._count("relayed")
        return answer

    def _unknown(self) -> HttpRefusal:
        self._count("unknown")
        return HttpRefusal(404, "There is no such relay.")

    async def _in_turn(self, relay: Relay, scope: Scope, body: bytes) -> Answer:
        if relay.under_way >= self._at_a_time:
            raise HttpRefusal(503, "Too many messages are under way.", {"Retry-After": "5"})
        relay.under_way += 1
        try:
            return await self._send(relay.target, scope, body)
        finally:
            relay.under_way -= 1

    async def _send(self, target: Target, scope: Scope, body: bytes) -> Answer:
        headers = dict(reversed(scope["headers"]))
        try:
            hops = read_hops(_text(headers, HOPS_HEADER))
        except LoopRefused as refused:
            raise HttpRefusal(508, refused.text) from refused
        passed = [
            (name, headers[key].decode("latin-1")) for key, name in _FORWARDED if key in headers
        ]
        request = Request(
            target,
            body,
            (),
            soap=None,
            origin=read_origin(_text(headers, ORIGIN_HEADER)),
            own_headers=(*passed, hops_header(hops)),
        )
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._transport.send(request)
        except TimeoutError:
            raise HttpRefusal(504, "There was no answer in time.") from None
        except SendFailed as failed:
            _log.warning("relay.failed", location=shown(target.url), why=failed.detail)
            late = failed.kind is FailureKind.TIMEOUT
            raise HttpRefusal(504 if late else 502, "There was no answer.") from failed
        except ValueError as error:
            raise HttpRefusal(400, "A header has a control character.") from error
        if not 200 <= answer.status < 600 or 300 <= answer.status < 400:
            _log.warning(
                "relay.failed", location=shown(target.url), why=f"answered {answer.status}"
            )
            raise HttpRefusal(502, "The answer is of no use.")
        return answer

    def _count(self, outcome: str) -> None:
        self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1

    def metrics(self) -> Iterator[Sample]:
        """Messages, by what became of them."""
        yield counters("relayed", "Messages to relays, by outcome.", "outcome", self.outcomes)


def _text(headers: dict[bytes, bytes], name: str) -> str | None:
    value = headers.get(name.lower().encode())
    return None if value is None else value.decode("latin-1")
