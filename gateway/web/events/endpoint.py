"""``POST /events``: CloudEvents come in, in any mode of HTTP; and the handshake of web hooks."""

import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import Any

import structlog
from starlette.routing import BaseRoute, Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from adapters import AdapterUnavailable
from filters import Reason, Refused, Topic
from gateway.egress import HOPS_HEADER, ORIGIN_HEADER, VIA_HEADER
from gateway.exchange import Inbound
from gateway.http import (
    HttpLimits,
    HttpRefusal,
    HttpSettings,
    header_value,
    public_base,
    read_body,
    transport_facts,
)
from gateway.parsing import Parsing
from gateway.security.identify import Identification
from gateway.security.intake import EVENTS
from gateway.security.principals import Principal
from gateway.soap.service import SoapService
from gateway.soap.topic_paths import topic_named
from gateway.web.csrf import is_of_another_site
from gateway.web.refusals import PROBLEM, challenges_of, headers_of, problem, status_of
from mediation.cloudevents import BATCH, MOST_IN_BATCH, STRUCTURED, notification_of, read_message
from mediation.model.messages import Notification
from mediation.model.requests import Context, Incoming, Operation, Publish
from mediation.model.versions import EventForm, Version

PATH = "/events"
_BELOW = f"{PATH}/topic/"
_METHODS = "POST, OPTIONS"
RECEIPT_HEADER = "Dragoman-Receipt"
_REQUEST_ORIGIN = b"webhook-request-origin"
_log = structlog.get_logger("dragoman.events")


def event_routes(endpoint: ASGIApp) -> list[BaseRoute]:
    """The routes of events, whatever the method: *endpoint* says what is wrong with one."""
    return [Route(PATH, endpoint), _TopicRoute(endpoint)]


class _TopicRoute(BaseRoute):
    """Routes ``/events/`` and the paths of topics, whose names may have any character."""

    def __init__(self, endpoint: ASGIApp) -> None:
        self._endpoint = endpoint

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        path = scope["path"] if scope["type"] == "http" else ""
        if path == f"{PATH}/" or path.startswith(_BELOW):
            return Match.FULL, {"endpoint": self._endpoint}
        return Match.NONE, {}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._endpoint(scope, receive, send)


class EventEndpoint:
    """Takes events in, as SOAP's endpoint does: by the same rates, and durable when answered."""

    def __init__(
        self,
        service: SoapService,
        parsing: Parsing,
        *,
        limits: HttpLimits,
        settings: HttpSettings,
        identification: Identification,
        admit_body: Callable[[Principal, int], None] = lambda *_: None,
    ) -> None:
        self._admit_body = admit_body
        self._service = service
        self._parsing = parsing
        self._limits = limits
        self._settings = settings
        self._identification = identification

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        facts = transport_facts(scope, self._settings)
        principal = self._identification.of_connection(facts)  # Until its headers are read.
        if scope["method"] == "OPTIONS":
            await _respond(send, 200, _permission(scope["headers"], principal))
            return
        try:
            if is_of_another_site(scope):
                raise HttpRefusal(403, "Events are not taken from another site's page.")
            try:
                principal = await self._identification.identify(facts)
            except Refused as refused:
                self._service.note_unproved(principal, "Publish", refused)
                raise
            if scope["method"] != "POST":
                raise HttpRefusal(405, "Events are sent with POST.", {"Allow": _METHODS})
            admit = partial(self._admit_body, principal)
            body = await read_body(receive, scope, self._limits, admit=admit)
            answered = await self._admitted(scope, body, principal, facts.certificate)
        except HttpRefusal as refusal:
            self._note(f"http-{refusal.status}", refusal.text, scope, principal)
            await _refuse(send, refusal.status, refusal.text, None, refusal.headers)
        except Refused as refused:
            self._note(refused.reason.value, str(refused), scope, principal)
            headers = headers_of(refused)
            if refused.reason is Reason.MEDIA_TYPE:
                headers["Accept-Post"] = f"{STRUCTURED}, {BATCH}, */*"
            offered = challenges_of(refused, scope, self._identification, self._settings)
            status, reason = status_of(refused), refused.reason.value
            await _refuse(send, status, refused.text, reason, headers, offered)
        except Exception:
            _log.exception("events.internal-error")
            await _refuse(send, 500, "Something went wrong here; it is in our log.", "internal", {})
        else:
            await _respond(send, 202, answered)

    def _note(self, reason: str, text: str, scope: Scope, principal: Principal) -> None:
        self._service.count_refusal(reason, text, peer=principal.address, path=scope["path"])

    async def _admitted(
        self, scope: Scope, body: bytes, principal: Principal, certificate: bytes | None
    ) -> dict[str, str]:
        """As `_take`, when a request of the tenant is admitted."""
        admission = self._service.admission
        if not admission.needed(principal.tenant):
            return await self._take(scope, body, principal, certificate)
        async with admission.request(principal.tenant, len(body)):
            return await self._take(scope, body, principal, certificate)

    async def _take(
        self, scope: Scope, body: bytes, principal: Principal, certificate: bytes | None
    ) -> dict[str, str]:
        """Publish the events of a request; they are durable on return. The headers of the answer:
        the receipt, where one is asked for.

        Raises:
            Refused: None of them is published.
        """
        if self._service.draining:
            raise AdapterUnavailable("The gateway is stopping.")
        headers, topic = scope["headers"], _topic_of(scope["path"])
        now = datetime.now(UTC)

        def parse(learnt: set[str] | None) -> tuple[Notification, ...]:
            return tuple(
                notification_of(
                    event,
                    publisher=principal.source,
                    time=now,
                    topic=topic,
                    learnt=learnt,
                    limits=self._limits.documents,
                )
                for event in read_message(headers, body)
            )

        try:
            notifications = await self._parsing.run_parser(
                len(body), parse, trusted=not principal.limits.quotas, owner=principal.owner
            )
        except Refused:
            if not body:  # In binary mode it may be an event.
                self._identification.challenge_empty(principal)
            raise
        if not notifications:  # An empty batch is one.
            return {}
        context = Context(
            EventForm.BATCHED if len(notifications) > 1 else EventForm.STRUCTURED,
            version=Version.CLOUDEVENTS,
            operation=Operation.PUBLISH,
        )
        inbound = Inbound(
            octets=body,
            principal=principal,
            base=public_base(scope, self._settings),
            path=scope["path"],
            certificate=certificate,
            headers=headers,
            hops=_header(headers, HOPS_HEADER),
            origin=_header(headers, ORIGIN_HEADER),
            via=_header(headers, VIA_HEADER),
        )
        await self._service.execute(inbound, Incoming(context, Publish(notifications)))
        receipts = self._service.receipts
        if receipts is None or not receipts.are_asked(headers):
            return {}
        ids = [one.id for one in notifications]
        receipt = await receipts.of_events(body, ids, inbound)
        return {RECEIPT_HEADER: receipt, "Preference-Applied": "receipt"}


def _topic_of(path: str) -> Topic | None:
    name = path.removeprefix(_BELOW).strip() if path.startswith(_BELOW) else ""
    return topic_named(name) if name else None


def _permission(headers: Iterable[tuple[bytes, bytes]], principal: Principal) -> dict[str, str]:
    """The headers that allow a sender of web hooks to send (HTTP 1.1 Web Hooks for Event Delivery
    1.0.2, section 4.2): any, at the rate that it has anyway."""
    allowed = {"Allow": _METHODS}
    if any(name == _REQUEST_ORIGIN for name, _ in headers):
        allowed["WebHook-Allowed-Origin"] = "*"
        allowed["WebHook-Allowed-Rate"] = (
            str(round(EVENTS * 60)) if principal.limits.quotas else "*"
        )
    return allowed


def _header(headers: Iterable[tuple[bytes, bytes]], wanted: str) -> str | None:
    """All values of a header; hops are read from one: a second must not hide the first."""
    lower = wanted.lower().encode()
    values = [value.decode("latin-1").strip() for name, value in headers if name == lower]
    return ", ".join(values) if values else None


async def _refuse(
    send: Send,
    status: int,
    text: str,
    reason: str | None,
    headers: dict[str, str],
    challenges: Iterable[str] = (),
) -> None:
    body = json.dumps(problem(status, text, reason)).encode()
    await _respond(send, status, {**headers, "Content-Type": PROBLEM}, body, challenges)


async def _respond(
    send: Send,
    status: int,
    headers: dict[str, str],
    body: bytes = b"",
    challenges: Iterable[str] = (),
) -> None:
    raw = [(name.lower().encode(), header_value(value).encode()) for name, value in headers.items()]
    raw += ((b"www-authenticate", one.encode()) for one in challenges)
    raw.append((b"content-length", str(len(body)).encode()))
    await send({"type": "http.response.start", "status": status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


def describe_events(schema: dict[str, Any]) -> None:
    """Add the endpoint to *schema*, an OpenAPI document."""
    event = {
        "specversion": "1.0",
        "id": "A234-1",
        "source": "/sensors/4",
        "type": "com.example.tide",
        "topic": "tides/north",
        "data": {"level": 1.5},
    }
    any_data = {"schema": {"type": "string", "format": "binary"}}
    problem_content = {PROBLEM: {"schema": {"type": "object"}}}
    refused = {"description": "No event, or not taken now.", "content": problem_content}
    post = {
        "tags": ["CloudEvents"],
        "summary": "Publish CloudEvents",
        "description": "Binary mode (attributes in `ce-` headers), structured, or batched with "
        f"{MOST_IN_BATCH} events at most. The topic is the attribute `topic`, else it may stand in "
        "the path, as `/events/topic/NAME`.",
        "requestBody": {
            "required": True,
            "content": {
                STRUCTURED: {"schema": {"type": "object"}, "example": event},
                BATCH: {"schema": {"type": "array", "items": {"type": "object"}}},
                "*/*": any_data,
            },
        },
        "responses": {
            "202": {
                "description": "The events are accepted, and durable. Where the request says "
                f"`Prefer: receipt`, and the gateway signs, `{RECEIPT_HEADER}` has a receipt.",
            },
            **dict.fromkeys(("400", "413", "415", "429", "503"), refused),
        },
    }
    schema.setdefault("paths", {}).setdefault(PATH, {})["post"] = post
