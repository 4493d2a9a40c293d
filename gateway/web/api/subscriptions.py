"""``/api/v1/subscriptions``: which there are, how they fare, why, and their end; and new ones of
consumers of CloudEvents."""

from dataclasses import fields, replace
from datetime import datetime
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request
from pydantic import BaseModel, Field

from gateway.delivery import Entry
from gateway.delivery.status import DeliveryStatus
from gateway.http import HttpLimits, client_address, client_certificate
from gateway.security.resource_addresses import shown
from gateway.store import Totals
from gateway.subscriptions.explaining import Message
from gateway.subscriptions.reports import SubscriptionReport
from gateway.web.api.selecting import Chosen, Deleted, Listing
from gateway.web.events.subscriptions import Create, make, manager_of
from gateway.web.parts import Parts, refuse_when_stopping
from gateway.web.validation import JsonRoute
from gateway.web.values import at_moment
from mediation.filtering import of_producer
from mediation.model.delivery_modes import DeliveryMode
from mediation.model.messages import End
from mediation.model.versions import Form, Soap
from mediation.profiles import profiles_of

EXPLAIN_BODY = 2 * HttpLimits().envelope + 2**16
"""Bytes of a request with a message that a gateway takes, whose quotes JSON escapes."""
router = APIRouter(prefix="/subscriptions", tags=["subscriptions"], route_class=JsonRoute)


class Counts(BaseModel, extra="forbid"):
    """A subscription's deliveries, by their end."""

    matched: int
    delivered: int
    waiting: int
    dead: int
    expired: int
    cancelled: int
    skipped: int


class DeliveryView(BaseModel, extra="forbid"):
    """The state of the deliveries that this gateway makes. Errors are kept in memory: after a
    restart they are known again from the next attempt on."""

    failures: int = Field(description="Attempts in a row that failed.")
    last_error: str | None
    last_error_at: datetime | None
    last_attempt: datetime | None = Field(description="By this gateway, since it started.")
    next_attempt: datetime | None = Field(description="Of what waits; null where nothing does.")
    breaker_until: datetime | None = Field(
        description="While so much fails that only a probe is sent: when the next one is."
    )
    black_listed_until: datetime | None = Field(
        description="After time-outs in a row: until then nothing is sent, and what comes is a "
        "dead letter; see the setting `black_list_after`."
    )
    elsewhere: list[str] = Field(
        description="Other replicas that deliver for it, and their partitions: ask them, too."
    )


class ModeView(BaseModel, extra="forbid"):
    """What a sink of WS-Management, or a consumer of sequences, asked for. Times are seconds; null
    leaves it to the gateway."""

    mode: str = Field(description="push, push-with-ack, events or pull.")
    max_elements: int | None
    max_time: float | None
    max_envelope_size: int | None
    oversize: str = Field(
        description="What becomes of an event beyond max_envelope_size: CancelSubscription, Skip "
        "or Notify."
    )
    heartbeats: float | None
    bookmarks: bool
    encoding: str
    retry_every: float | None
    retries: int | None
    reliable: str = Field(
        description="The version of WS-ReliableMessaging in whose sequence deliveries go, each "
        "once and in order; empty: in none."
    )
    assurance: str = Field(description="at-most-once, at-least-once or exactly-once.")


class SubscriptionView(BaseModel, extra="forbid"):
    """A subscription, without its key."""

    id: str
    owner: str
    channel: str | None = Field(description="The channel with a name that it is at; else none.")
    spec: str
    soap: str | None = Field(description="1.1 or 1.2; null where none is spoken.")
    consumer: str
    manager: str = Field(
        description="The address of its manager, with its id in the place of its key; with the key "
        "in the answer to who makes it, and never again."
    )
    end_to: str | None
    topics: list[str]
    contents: list[str]
    producer_properties: list[str] = Field(
        description="Conditions over the properties of the producer: ProducerProperties of "
        "WS-Notification 1.3, Precondition of its drafts."
    )
    raw: bool
    mode: ModeView
    paused: bool
    profiles: list[str] = Field(
        description="The peculiarities of its peers by which it is served, as docs/profiles.md "
        "names them."
    )
    created: datetime
    expires: datetime | None
    state: str = Field(
        description="active, paused, expired, failing; unknown where other replicas deliver for "
        "it, too, and nothing is wrong here."
    )
    delivery: DeliveryView
    counts: Counts


class Asked(BaseModel, extra="forbid"):
    """Whether a subscription would get a message; or, with nothing said, how it stands with it."""

    payload: str | None = Field(None, description="An XML document.")
    topic: Annotated[str, Field(min_length=1, max_length=4096)] | None = Field(
        None, description="The topic that it would be published on: `storms/coast`."
    )
    namespaces: dict[str, str] | None = Field(
        None, max_length=100, description="The prefixes of `topic`."
    )


class StepView(BaseModel, extra="forbid"):
    """One thing that must be so for messages to arrive."""

    name: str
    holds: bool | None = Field(description="null where it is not known.")
    text: str
    details: list[str]


class Page(BaseModel, extra="forbid"):
    subscriptions: list[SubscriptionView]
    next: str | None = Field(None, description="Pass it as `after` for the next page.")


def _not_found() -> HTTPException:
    return HTTPException(404, "There is no such subscription.")


async def _named(id: str, web: Parts) -> Entry:
    entry = web.subscriptions.by_id(id)
    if entry is None:
        raise _not_found()
    return entry


Named = Annotated[Entry, Depends(_named)]


@router.get("")
async def list_subscriptions(web: Parts, listing: Annotated[Listing, Query()]) -> Page:
    """Subscriptions in the order of their ids: all, or those of a selection. A page of a selection
    may be short, or empty, and still have a `next`."""
    found, following = await web.management.page(
        listing.selection(), after=listing.after, limit=listing.limit
    )
    return Page(subscriptions=list(map(_view, found)), next=following)


@router.post("", status_code=201, dependencies=[Depends(refuse_when_stopping)])
async def create_subscription(wanted: Create, request: Request, web: Parts) -> SubscriptionView:
    """Subscribe a consumer of CloudEvents, in the words of `POST /events/subscriptions`. Its
    `manager` is the public address at which it is shown, extended and ended; who has it, may."""
    principal = web.identification.identify(client_address(request.scope, web.http))
    # Who may ask here may make any number.
    shown = client_certificate(request.scope, web.http)
    principal, content = replace(principal, trusted=True), await request.body()
    made = await make(web, wanted, principal, web.base, shown, content)
    for report in await web.reports.of([made.id]):
        return _view(report).model_copy(update={"manager": manager_of(made)})
    raise _not_found()


@router.delete("")
async def delete_subscriptions(web: Parts, chosen: Annotated[Chosen, Query()]) -> Deleted:
    """End some subscriptions, chosen in one of three ways: by `id`, as often as you like; by some
    of `topic`, `consumer`, `spec`, `state` and `owner`, all of which must hold; or with `all=true`.
    Nothing said never means all. Subscribers are told, where they asked for that."""
    found = await web.management.delete(
        chosen.chosen(),
        after=chosen.after,
        limit=chosen.limit,
        dry_run=chosen.dry_run,
        reason="The subscription was ended by an operator.",
    )
    return Deleted(number=len(found.ids), ids=list(found.ids), next=found.next)


@router.get("/{id}")
async def show_subscription(entry: Named, web: Parts) -> SubscriptionView:
    """One subscription, with what became of its deliveries."""
    for report in await web.reports.of([entry.id]):
        return _view(report)
    raise _not_found()


@router.post("/{id}/explain", max_body_size=EXPLAIN_BODY)
async def explain(entry: Named, asked: Asked, web: Parts) -> list[StepView]:
    """Why a subscription gets messages or does not, step by step; with a `payload`, whether it
    would get that."""
    if asked.payload is None and asked.topic is not None:
        raise HTTPException(422, "`topic` is for a `payload`: give one, too.")
    message = None
    if asked.payload is not None:
        namespaces = tuple(sorted((asked.namespaces or {}).items()))
        message = Message(asked.payload.encode(), asked.topic, namespaces)
    return [
        StepView(name=step.name, holds=step.holds, text=step.text, details=list(step.details))
        for step in await web.explainer.explain(entry, message)
    ]


@router.delete("/{id}", status_code=204)
async def delete_subscription(entry: Named, web: Parts) -> None:
    """End a subscription; its subscriber is told, where it asked for that."""
    await web.lifecycle.end(
        entry, why=End.CANCELLING, reason="The subscription was ended by an operator."
    )


def _counts(counted: Totals) -> Counts:
    return Counts(
        matched=counted.matched,
        delivered=counted.delivered,
        waiting=counted.matched - counted.settled(),
        dead=counted.dead,
        expired=counted.expired,
        cancelled=counted.cancelled,
        skipped=counted.skipped,
    )


def _delivery(status: DeliveryStatus) -> DeliveryView:
    return DeliveryView(
        failures=status.failures,
        last_error=status.last_error,
        last_error_at=at_moment(status.last_error_at),
        last_attempt=at_moment(status.last_attempt),
        next_attempt=at_moment(status.next_attempt),
        breaker_until=at_moment(status.breaker_until),
        black_listed_until=at_moment(status.black_listed_until),
        elsewhere=list(status.elsewhere),
    )


def _mode(delivery: DeliveryMode) -> ModeView:
    values = {field.name: getattr(delivery, field.name) for field in fields(delivery)}
    del values["at_most_once"]
    said = {
        "mode": delivery.mode.value,
        "oversize": delivery.oversize.value,
        "assurance": delivery.assurance.value,
    }
    return ModeView(**{**values, **said})


_SOAP: dict[Form, str] = {Soap.V1_1: "1.1", Soap.V1_2: "1.2"}


def _view(report: SubscriptionReport) -> SubscriptionView:
    subscription, status = report.entry.subscription, report.status
    filter_ = subscription.filter
    return SubscriptionView(
        id=subscription.id,
        owner=subscription.owner,
        channel=subscription.policy.channel or None,
        spec=subscription.spec.version.value,
        soap=_SOAP.get(subscription.spec.form),
        consumer=shown(subscription.consumer.address),
        manager=shown(manager_of(subscription)),
        end_to=shown(subscription.end_to.address) if subscription.end_to else None,
        topics=[one.text for one in filter_.topics],
        contents=[one.text for one in (*filter_.contents, *filter_.others) if not of_producer(one)],
        producer_properties=[one.text for one in filter_.contents if of_producer(one)],
        raw=subscription.policy.raw,
        mode=_mode(subscription.policy.delivery),
        paused=subscription.policy.paused,
        profiles=list(profiles_of(subscription)),
        created=subscription.lease.created,
        expires=subscription.lease.expires,
        state=status.state.value,
        delivery=_delivery(status),
        counts=_counts(report.totals),
    )
