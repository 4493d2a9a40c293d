"""``/events/subscriptions``: subscriptions to CloudEvents (CloudEvents Subscriptions API 0.1).

Its ``id`` is the key of a subscription: who has it may do everything with it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from filters import Expression, Filter, prefixes_in, quoted
from filters.dialects import ATTRIBUTE_FILTERS, XPATH_1_0
from gateway.delivery.batching import MOST_ELEMENTS
from gateway.exchange import Inbound, Result
from gateway.http import client_certificate, public_base
from gateway.routes import Dependency
from gateway.security.keys import public_id
from gateway.security.principals import Principal
from gateway.security.resource_addresses import key_in
from gateway.soap.service import SoapService
from gateway.subscriptions.lifecycle.lifecycle import SubscriptionUnknown
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.table import SubscriptionTable
from gateway.web.dependencies import Asking, refuse_when_stopping
from gateway.web.parameters import Prefix
from gateway.web.proofs import Proving
from gateway.web.validation import JsonRoute
from gateway.web.views.subscriptions import EVENT_SUBSCRIPTIONS, manager_address
from mediation.cloudevents import read_secret
from mediation.filtering import spoken_topic
from mediation.model.delivery_modes import DeliveryAssurance, DeliveryMode, Mode
from mediation.model.expiry import UNSPECIFIED, Expiry, parse_expiry
from mediation.model.messages import EndpointReference, Subscription
from mediation.model.requests import (
    Context,
    GetStatus,
    Incoming,
    Operation,
    Renew,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from mediation.model.requests import Request as Asked
from mediation.model.versions import DataForm, EventForm, Version, Wsa
from mediation.order_keys import order_key_of
from mediation.reliable_messaging import with_assurance
from mediation.specifications import SPECIFICATIONS
from mediation.start_positions import since_of

LONGEST_WAIT = 300.0
MOST_NAMESPACES = 10 * 1024
"""Bytes of the prefixes and namespaces that a subscription keeps."""
Text = Annotated[str, Field(min_length=1, max_length=8192)]
Expires = Annotated[float, Field(gt=0, le=1e9, allow_inf_nan=False)] | Text | None
_EXAMPLE: dict[str, Any] = {
    "sink": "https://consumer.example.org/events",
    "protocol": "HTTP",
    "protocolsettings": {"mode": "structured", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"},
    "types": ["com.example.tide"],
    "filters": [{"prefix": {"subject": "gauge"}}],
    "config": {"topic": "tides//.", "expires": "PT1H"},
}


class Sending(BaseModel, extra="forbid"):
    """The way in which events are sent."""

    method: Literal["POST"] = "POST"
    mode: Literal["binary", "structured", "batched"] = "structured"
    data: Literal["xml", "json"] = Field(
        "xml", description="What events have whose data is XML: that, or JSON that is made of it."
    )
    batchsize: int | None = Field(
        None, ge=1, le=MOST_ELEMENTS, description="Events of one message at most, when batched."
    )
    batchtime: float | None = Field(
        None,
        ge=0,
        le=LONGEST_WAIT,
        allow_inf_nan=False,
        description="Seconds that an event may wait for others, when batched; 0 without.",
    )
    secret: SecretStr | None = Field(
        None,
        max_length=200,
        description="Signs what is sent (Standard Webhooks); `whsec_` and 24 to 64 octets in "
        "base64. It is never shown again.",
    )


class Wanting(Proving, extra="forbid"):
    """What is wanted besides attributes, for how long, and by which right."""

    topic: Text | None = Field(None, description="A topic expression: a/b, a//., {urn:x}a.")
    xpath: Text | None = Field(None, description="XPath 1.0 that must hold for the payload.")
    namespaces: dict[Prefix, Text] = Field({}, max_length=100, description="Prefixes of both.")
    expires: Expires = Field(None, description="Seconds, or an xsd:duration or xsd:dateTime.")
    assurance: DeliveryAssurance = Field(
        DeliveryAssurance.AT_LEAST_ONCE,
        description="How often an event is wanted: at-most-once is one attempt, and nothing is "
        "stored; exactly-once takes a sequence, which CloudEvents do not have.",
    )
    since: Annotated[str, Field(max_length=4096)] | None = Field(
        None,
        description="A time with its zone, or a position of the archive: what was published from "
        "there on comes first.",
    )
    order_key: Annotated[str, Field(max_length=256)] | None = Field(
        None,
        description="`topic`, or `property:NAME`: events of one such key are sent in order, and "
        "those of different keys side by side; null: all are sent in order.",
    )


class Create(BaseModel):
    """A subscription that is wanted."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"example": _EXAMPLE})

    id: Any = Field(None, description="It is ignored.")
    sink: Text
    protocol: Literal["HTTP"]
    protocolsettings: Sending = Sending()
    source: Text | None = None
    types: Annotated[list[Text], Field(min_length=1, max_length=100)] | None = None
    filters: Annotated[list[dict[str, Any]], Field(max_length=100)] | None = None
    config: Wanting = Wanting()


class Extending(BaseModel):
    """What is wanted; members other than ``expires`` as they are."""

    model_config = ConfigDict(extra="allow")
    expires: Expires = None


class Extend(BaseModel):
    """A new end of the lease, which is all that can be changed. Other members of a subscription may
    be there as they were shown."""

    model_config = ConfigDict(
        extra="allow", json_schema_extra={"example": {"config": {"expires": "PT2H"}}}
    )
    config: Extending = Extending()


class SettingsView(BaseModel):
    method: str = "POST"
    mode: str
    data: str
    batchsize: int | None = None
    batchtime: float | None = None
    signed: bool = Field(description="Whether messages are signed with a secret.")
    rate: int | None = Field(
        None, description="Messages a minute that the consumer allows; without it any."
    )


class ConfigView(BaseModel):
    topic: str | None = None
    xpath: str | None = None
    namespaces: dict[str, str]
    expires: datetime | None = Field(None, description="Without it the subscription has no end.")
    assurance: str | None = Field(None, description="Without it at-least-once.")
    order_key: str | None = Field(None, description="Without it all are sent in order.")


class View(BaseModel):
    """A subscription. ``id`` is the key to it; lists and logs show ``name``."""

    id: str
    name: str
    sink: str
    protocol: str = "HTTP"
    protocolsettings: SettingsView
    source: str | None = None
    types: list[str] | None = None
    filters: list[dict[str, Any]] | None = None
    config: ConfigView


@dataclass(frozen=True, slots=True)
class EventSubscriptionParts:
    """What the routes of subscriptions to CloudEvents work with."""

    asking: Asking
    service: SoapService
    table: SubscriptionTable
    replication: Replication


router = APIRouter(
    prefix=EVENT_SUBSCRIPTIONS,
    tags=["CloudEvents"],
    dependencies=[Depends(refuse_when_stopping)],
    route_class=JsonRoute,
)
PARTS = Dependency[EventSubscriptionParts]()
Given = Annotated[EventSubscriptionParts, Depends(PARTS)]


@router.post("", status_code=201, response_model_exclude_none=True)
async def create_event_subscription(
    wanted: Create, request: Request, response: Response, parts: Given
) -> View:
    """Subscribe. The sink is asked whether it agrees (OPTIONS, `WebHook-Request-Origin`)."""
    base = public_base(request.scope, parts.asking.http)
    shown = client_certificate(request.scope, parts.asking.http)
    principal = await parts.asking.principal(request)
    subscription = await make(parts.service, wanted, principal, base, shown, await request.body())
    response.headers["Location"] = manager_address(subscription)
    return _view(subscription)


async def make(
    service: SoapService,
    wanted: Create,
    principal: Principal,
    base: str,
    certificate: bytes | None,
    content: bytes,
) -> Subscription:
    """Make the subscription that *principal* wants; *base* is the gateway's address, *certificate*
    what it showed in TLS, *content* the request in JSON.

    Raises:
        Refused: It cannot be made.
    """
    said = wanted.protocolsettings
    secret = read_secret(said.secret.get_secret_value()) if said.secret is not None else ""
    consumer = EndpointReference(wanted.sink, Wsa.V2005_08)
    delivery = with_assurance(_delivery(said), wanted.config.assurance, sequences=False)
    order_key = wanted.config.order_key
    subscribe = Subscribe(
        consumer,
        filter=_filter(wanted),
        expires=expiry_of(wanted.config.expires),
        data=DataForm(said.data),
        secret=secret,
        delivery=delivery,
        order_key="" if order_key is None else order_key_of(order_key, delivery),
        since=None if wanted.config.since is None else since_of(wanted.config.since),
    )
    inbound = Inbound(
        octets=b"",
        principal=principal,
        base=base,
        path=EVENT_SUBSCRIPTIONS,
        certificate=certificate,
        proof=wanted.config.proof(content),
    )
    context = Context(
        EventForm(said.mode), version=Version.CLOUDEVENTS, operation=Operation.SUBSCRIBE
    )
    return _subscribed(await service.execute(inbound, Incoming(context, subscribe)))


@router.get("/{key}", response_model_exclude_none=True)
async def show_event_subscription(key: str, request: Request, parts: Given) -> View:
    """A subscription as it is now."""
    await _check(parts, key)
    return _view(await _execute(parts, request, GetStatus(), Operation.GET_STATUS))


@router.put("/{key}", response_model_exclude_none=True)
async def extend_event_subscription(
    key: str, wanted: Extend, request: Request, parts: Given
) -> View:
    """Move the end of a subscription's lease. The whole subscription may be sent, as it was shown,
    with another `config.expires`, or the same."""
    await _check(parts, key)
    now = _view(await _execute(parts, request, GetStatus(), Operation.GET_STATUS))
    shown = now.model_dump(mode="json", exclude_none=True)
    said = wanted.model_dump(mode="json", exclude_unset=True)
    if said == shown:
        return now
    _check_unchanged(said, shown)
    renew = Renew(expiry_of(wanted.config.expires))
    return _view(await _execute(parts, request, renew, Operation.RENEW))


@router.delete("/{key}", status_code=204)
async def delete_event_subscription(key: str, request: Request, parts: Given) -> None:
    """Unsubscribe."""
    await _check(parts, key)
    inbound, incoming = await _asked(parts, request, Unsubscribe(), Operation.UNSUBSCRIBE)
    await parts.service.execute(inbound, incoming)


_METHODS = {"": "POST, OPTIONS", "/{key}": "GET, PUT, DELETE, OPTIONS"}
"""The methods of the collection, and of a subscription."""


def _offer_methods(path: str, allowed: str) -> None:
    """Answer OPTIONS, and other methods than those that are *allowed*."""

    @router.options(path, status_code=204, include_in_schema=False)
    async def say_methods(response: Response) -> None:
        response.headers["Allow"] = allowed

    others = sorted({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} - set(allowed.split(", ")))

    @router.api_route(path, methods=others, include_in_schema=False)
    async def refuse_method() -> None:
        raise HTTPException(405, "Method Not Allowed", {"Allow": allowed})


for _path, _allowed in _METHODS.items():
    _offer_methods(_path, _allowed)


def _check_unchanged(said: Mapping[str, Any], shown: Mapping[str, Any], within: str = "") -> None:
    """Refuse members that are not as they are *shown*, but for ``config.expires``; null is none.

    Raises:
        HTTPException: 422, naming one.
    """
    for name, value in said.items():
        member, there = f"{within}{name}", shown.get(name)
        if member == "config.expires" or value == there:
            continue
        if isinstance(value, dict) and isinstance(there, dict):
            _check_unchanged(value, there, f"{member}.")
            continue
        raise HTTPException(
            422,
            f"{quoted(member)} is not as it is, and cannot be changed: config.expires alone can. "
            "Make another subscription.",
        )


async def _check(parts: EventSubscriptionParts, key: str) -> None:
    """Refuse what is no bare key, and the key of a subscription in SOAP, to which this would
    otherwise lead as the address of its manager does."""
    await parts.replication.refresh()
    entry = parts.table.by_id(public_id(key.lower()))
    if (
        key_in(key) != key.lower()
        or entry is None
        or SPECIFICATIONS[entry.subscription.spec.version].bodies is None
    ):
        raise SubscriptionUnknown


async def _execute(
    parts: EventSubscriptionParts, request: Request, asked: Asked, operation: Operation
) -> Subscription:
    inbound, incoming = await _asked(parts, request, asked, operation)
    return _subscribed(await parts.service.execute(inbound, incoming))


def _subscribed(result: Result) -> Subscription:
    if not isinstance(result, Subscribed):  # pragma: no cover
        raise TypeError(result)
    return result.subscription


async def _asked(
    parts: EventSubscriptionParts, request: Request, asked: Asked, operation: Operation
) -> tuple[Inbound, Incoming]:
    inbound = Inbound(
        octets=b"",
        principal=await parts.asking.principal(request),
        base=public_base(request.scope, parts.asking.http),
        path=request.url.path,
    )
    context = Context(EventForm.STRUCTURED, version=Version.CLOUDEVENTS, operation=operation)
    return inbound, Incoming(context, asked)


def _filter(wanted: Create) -> Filter:
    config = wanted.config
    if config.namespaces and config.topic is None and config.xpath is None:
        raise HTTPException(422, "namespaces go with a topic or an xpath.")
    topics: tuple[Expression, ...] = ()
    contents: tuple[Expression, ...] = ()
    others: tuple[Expression, ...] = ()
    namespaces = tuple(sorted(config.namespaces.items()))
    if config.topic is not None:
        topics = (_with_used(spoken_topic(config.topic, config.namespaces)),)
    if config.xpath is not None:
        contents = (_with_used(Expression(config.xpath, XPATH_1_0, namespaces)),)
    _check_size(*topics, *contents)
    said = {"source": wanted.source, "types": wanted.types, "filters": wanted.filters}
    if any(value is not None for value in said.values()):
        given = {name: value for name, value in said.items() if value is not None}
        others = (Expression(json.dumps(given, ensure_ascii=False), ATTRIBUTE_FILTERS),)
    return Filter(topics, contents, others)


def _with_used(expression: Expression) -> Expression:
    """*expression* with the namespaces that it uses."""
    used = prefixes_in(expression.text)
    namespaces = tuple(pair for pair in expression.namespaces if pair[0] in used)
    return replace(expression, namespaces=namespaces)


def _check_size(*expressions: Expression) -> None:
    pairs = {pair for one in expressions for pair in one.namespaces}
    if sum(len(f"{prefix}{uri}".encode()) for prefix, uri in pairs) > MOST_NAMESPACES:
        raise HTTPException(
            422, f"config.namespaces: those that are used have {MOST_NAMESPACES} bytes at most."
        )


def _delivery(said: Sending) -> DeliveryMode:
    if said.mode == "batched":
        return DeliveryMode(Mode.BATCH, said.batchsize, said.batchtime)
    if said.batchsize is not None or said.batchtime is not None:
        raise HTTPException(422, "batchsize and batchtime go with the mode batched.")
    return DeliveryMode()


def expiry_of(said: float | str | None) -> Expiry:
    """The end of a lease as a request says it: seconds, a duration or an instant.

    Raises:
        MediationError: It is none of them.
    """
    if said is None:
        return UNSPECIFIED
    return parse_expiry(f"PT{said:.3f}S" if isinstance(said, float) else said)


def _view(subscription: Subscription) -> View:
    filter_, policy = subscription.filter, subscription.policy
    said = json.loads(filter_.others[0].text) if filter_.others else {}
    topic = filter_.topics[0] if filter_.topics else None
    content = filter_.contents[0] if filter_.contents else None
    namespaces = {
        prefix: uri for one in (topic, content) if one is not None for prefix, uri in one.namespaces
    }
    form = subscription.spec.form
    return View(
        id=subscription.key,
        name=subscription.id,
        sink=subscription.consumer.address,
        protocolsettings=SettingsView(
            mode=form.value if isinstance(form, EventForm) else "",
            data=policy.data.value,
            batchsize=policy.delivery.max_elements,
            batchtime=policy.delivery.max_time,
            signed=bool(subscription.secret),
            rate=policy.rate or None,
        ),
        source=said.get("source"),
        types=said.get("types"),
        filters=said.get("filters"),
        config=ConfigView(
            topic=topic.text if topic else None,
            xpath=content.text if content else None,
            namespaces=namespaces,
            expires=_utc(subscription.lease.expires),
            assurance=_told(policy.delivery.assurance),
            order_key=policy.order_key or None,
        ),
    )


def _told(assurance: DeliveryAssurance) -> str | None:
    return None if assurance is DeliveryAssurance.AT_LEAST_ONCE else assurance.value


def _utc(moment: datetime | None) -> datetime | None:
    return None if moment is None else moment.astimezone(UTC)
