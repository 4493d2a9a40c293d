"""Subscriptions, the state of their deliveries, and the steps that explain it."""

from collections.abc import Iterable
from dataclasses import fields
from datetime import datetime

from pydantic import BaseModel, Field

from filters import Expression
from gateway.delivery.status import DeliveryStatus
from gateway.model.moments import moment_or_none
from gateway.security.resource_addresses import shown
from gateway.store import Totals
from gateway.subscriptions.explaining import Step
from gateway.subscriptions.listing import SubscriptionReport
from mediation.filtering import of_producer
from mediation.model.delivery_modes import DeliveryMode
from mediation.model.messages import Subscription
from mediation.model.versions import Form, Soap
from mediation.profiles import profiles_of
from mediation.specifications import SPECIFICATIONS

EVENT_SUBSCRIPTIONS = "/events/subscriptions"
"""The path of subscriptions to CloudEvents."""
_SOAP: dict[Form, str] = {Soap.V1_1: "1.1", Soap.V1_2: "1.2"}


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


class ExpressionView(BaseModel, extra="forbid"):
    """A condition, and all that its meaning depends on."""

    text: str
    dialect: str
    namespaces: dict[str, str]
    view: str = Field(description="The document that it is evaluated over: payload, or another.")


class FilterView(BaseModel, extra="forbid"):
    """The filter as the gateway evaluates it; all of it must hold."""

    topics: list[ExpressionView]
    contents: list[ExpressionView]
    others: list[ExpressionView]


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
    filter: FilterView
    raw: bool
    mode: ModeView
    paused: bool
    order_key: str | None = Field(
        description="The key of which messages are sent in order; null: all are."
    )
    hold_while_paused: bool = Field(
        description="While it is paused: what is published waits for it, and does not pass it by."
    )
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


class StepView(BaseModel, extra="forbid"):
    """One thing that must be so for messages to arrive."""

    name: str
    holds: bool | None = Field(description="null where it is not known.")
    text: str
    details: list[str]


def subscription_view(report: SubscriptionReport) -> SubscriptionView:
    """The view of a subscription with the state of its deliveries."""
    subscription, status = report.entry.subscription, report.status
    filter_ = subscription.filter
    return SubscriptionView(
        id=subscription.id,
        owner=subscription.owner,
        channel=subscription.policy.channel or None,
        spec=subscription.spec.version.value,
        soap=_SOAP.get(subscription.spec.form),
        consumer=shown(subscription.consumer.address),
        manager=shown(manager_address(subscription)),
        end_to=shown(subscription.end_to.address) if subscription.end_to else None,
        topics=[one.text for one in filter_.topics],
        contents=[one.text for one in (*filter_.contents, *filter_.others) if not of_producer(one)],
        producer_properties=[one.text for one in filter_.contents if of_producer(one)],
        filter=FilterView(
            topics=_expressions(filter_.topics),
            contents=_expressions(filter_.contents),
            others=_expressions(filter_.others),
        ),
        raw=subscription.policy.raw,
        mode=_mode(subscription.policy.delivery),
        paused=subscription.policy.paused,
        order_key=subscription.policy.order_key or None,
        hold_while_paused=subscription.policy.hold_while_paused,
        profiles=list(profiles_of(subscription)),
        created=subscription.lease.created,
        expires=subscription.lease.expires,
        state=status.state.value,
        delivery=_delivery(status),
        counts=_counts(report.totals),
    )


def step_view(step: Step) -> StepView:
    """The view of one step of an explanation."""
    return StepView(name=step.name, holds=step.holds, text=step.text, details=list(step.details))


def manager_address(subscription: Subscription) -> str:
    """The address at which a subscription is shown, extended and ended: by SOAP, or, of one to
    CloudEvents, by HTTP."""
    address, key = subscription.manager, subscription.key
    if SPECIFICATIONS[subscription.spec.version].bodies is None:
        return address
    return f"{address.removesuffix(f'/subscriptions/{key}')}{EVENT_SUBSCRIPTIONS}/{key}"


def _expressions(expressions: Iterable[Expression]) -> list[ExpressionView]:
    return [
        ExpressionView(
            text=one.text, dialect=one.dialect, namespaces=dict(one.namespaces), view=one.view
        )
        for one in expressions
    ]


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
        last_error_at=moment_or_none(status.last_error_at),
        last_attempt=moment_or_none(status.last_attempt),
        next_attempt=moment_or_none(status.next_attempt),
        breaker_until=moment_or_none(status.breaker_until),
        black_listed_until=moment_or_none(status.black_listed_until),
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
