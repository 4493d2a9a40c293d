"""The subscriptions of a source: requests in any specification that has SOAP, or calls, answered
from memory. No socket and no clock."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from hashlib import sha256
from uuid import uuid4

from filters import CompiledFilter, Reason, Refused, compile
from mediation.detect import read
from mediation.faults import write_fault
from mediation.model.delivery_modes import PUSH
from mediation.model.expiry import Expiry
from mediation.model.messages import Lease, Notification, Policy, Subscription
from mediation.model.requests import (
    Arrival,
    Context,
    Destroy,
    Done,
    GetProperties,
    GetStatus,
    Incoming,
    Pause,
    Properties,
    Rejected,
    Renew,
    Response,
    Resume,
    SetTerminationTime,
    Subscribe,
    Subscribed,
    TerminationTime,
    Unsubscribe,
)
from mediation.model.versions import Spec
from mediation.rendering import Recipient, filter_event_of, prepare
from mediation.responses import write_response
from mediation.soap.envelopes import http_headers
from mediation.specifications import SPECIFICATIONS, properties_in

DEFAULT_LEASE = timedelta(hours=1)
MOST = 10_000
"""Subscriptions of one source."""
_OF_ONE = (
    Renew, SetTerminationTime, GetStatus, GetProperties, Unsubscribe, Destroy, Pause, Resume,
)  # fmt: skip
"""Requests to the manager of a subscription."""
_KEY = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(slots=True)
class Subscriber:
    """A subscription, and what its messages are made with."""

    subscription: Subscription
    filter: CompiledFilter
    recipient: Recipient
    paused: bool = False

    @property
    def key(self) -> str:
        """The key of its manager's address."""
        return self.subscription.key

    def is_alive(self, now: datetime) -> bool:
        """Whether its lease is not over."""
        end = self.subscription.lease.expires
        return end is None or end > now

    def wants(self, notification: Notification, now: datetime) -> bool:
        """Whether it is to get *notification*."""
        return (
            not self.paused
            and self.is_alive(now)
            and self.filter.matches(filter_event_of(notification))
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer over HTTP. ``ended``: the subscriber that its request ended."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    ended: Subscriber | None = None


class Subscriptions:
    """The subscriptions of one source, and the answers to requests about them."""

    def __init__(self) -> None:
        self._by_key: dict[str, Subscriber] = {}

    def __iter__(self) -> Iterator[Subscriber]:
        return iter(tuple(self._by_key.values()))

    def __len__(self) -> int:
        return len(self._by_key)

    def discard(self, subscriber: Subscriber) -> None:
        """Forget a subscription."""
        self._by_key.pop(subscriber.key, None)

    def answer(
        self, octets: bytes, path: str, base: str, now: datetime, http_action: str | None = None
    ) -> Answer:
        """Answer a request.

        Args:
            path: Of the URL that it was sent to: a manager's has a key in it.
            base: The source's own address, which those of managers begin with.
        """
        arrival = Arrival("", now, f"urn:uuid:{uuid4()}", http_action=http_action)
        try:
            incoming = read(octets, arrival)
        except Rejected as rejected:
            return _fault(rejected.refused, rejected.context, now)
        context = incoming.context
        try:
            response, ended = self._carry_out(incoming, path, base, now)
            action, body = write_response(response, context, message_id=f"urn:uuid:{uuid4()}")
        except Refused as refused:
            return _fault(refused, context, now)
        return Answer(200, http_headers(context.soap, action), body, ended)

    def subscribe(self, request: Subscribe, spec: Spec, base: str, now: datetime) -> Subscription:
        """Make a subscription, or renew one where the specification has but one alike.

        Raises:
            Refused: It cannot be.
        """
        if request.delivery != PUSH:
            raise Refused(Reason.DELIVERY_MODE, "This source pushes events, one at a time.")
        key = str(uuid4())
        subscription = Subscription(
            key=key,
            id=sha256(key.encode()).hexdigest()[:12],
            owner="",
            spec=spec,
            consumer=request.consumer,
            lease=_granted(request.expires, now),
            filter=request.filter,
            end_to=request.end_to,
            policy=Policy(
                raw=request.raw,
                dialect=request.dialect,
                data=request.data,
                calling=request.calling,
            ),
            manager=f"{base}/subscriptions/{key}",
        )
        former = self._alike(subscription)
        if former is not None:
            former.subscription = replace(former.subscription, lease=subscription.lease)
            return former.subscription
        self._make_room(now)
        filter_ = compile(request.filter)
        self._by_key[key] = Subscriber(subscription, filter_, prepare(subscription))
        return subscription

    def find(self, names: tuple[str | None, ...], now: datetime) -> Subscriber:
        """The subscription that one of these texts names.

        Raises:
            Refused: ``SUBSCRIPTION_UNKNOWN``.
        """
        for key in (key for name in names if name for key in _KEY.findall(name)):
            found = self._by_key.get(key)
            if found is not None and found.is_alive(now):
                return found
        raise Refused(Reason.SUBSCRIPTION_UNKNOWN, "There is no such subscription.")

    def renew(self, subscriber: Subscriber, asked: Expiry, now: datetime) -> Subscription:
        """Move the end of a lease.

        Raises:
            Refused: It would be in the past.
        """
        renewed = replace(subscriber.subscription, lease=_granted(asked, now))
        subscriber.subscription = renewed
        return renewed

    def _carry_out(
        self, incoming: Incoming, path: str, base: str, now: datetime
    ) -> tuple[Response, Subscriber | None]:
        request, named = incoming.request, incoming.named
        if isinstance(request, Subscribe):
            made = self.subscribe(request, incoming.context.spec, base, now)
            return Subscribed(made, now), None
        if not isinstance(request, _OF_ONE):
            raise Refused(
                Reason.ACTION_UNSUPPORTED, "This is a source of events: subscribe, or renew."
            )
        one = self.find((*named.identifiers, path, named.to, named.body), now)
        match request:
            case Renew():
                return Subscribed(self.renew(one, request.expires, now), now), None
            case SetTerminationTime():
                until = self.renew(one, request.expires, now).lease.expires
                return TerminationTime(until, now), None
            case GetStatus():
                return Subscribed(one.subscription, now), None
            case GetProperties():
                version = incoming.context.spec.version
                document = properties_in(version).of_subscription(one.subscription, now)
                return Properties(document.values, request.names, document.root), None
            case Unsubscribe() | Destroy():
                self.discard(one)
                return Done(), one
            case _:
                one.paused = isinstance(request, Pause)
                return Done(), None

    def _alike(self, subscription: Subscription) -> Subscriber | None:
        identity = SPECIFICATIONS[subscription.spec.version].identity
        if identity is None:
            return None
        wanted = identity(subscription)
        for one in self._by_key.values():
            spec = one.subscription.spec
            if spec.version is subscription.spec.version and identity(one.subscription) == wanted:
                return one
        return None

    def _make_room(self, now: datetime) -> None:
        if len(self._by_key) < MOST:
            return
        for one in self:
            if not one.is_alive(now):
                self.discard(one)
        if len(self._by_key) >= MOST:
            raise Refused(Reason.QUOTA, "There are too many subscriptions.")


def _granted(asked: Expiry, now: datetime) -> Lease:
    if asked.never:
        return Lease(now, None, asked.as_duration)
    until = now + DEFAULT_LEASE if asked.unspecified else asked.at(now)
    if until is None or until <= now:
        raise Refused(Reason.EXPIRY_IN_THE_PAST, "The expiration is not in the future.")
    return Lease(now, until, asked.as_duration)


def _fault(refused: Refused, context: Context, now: datetime) -> Answer:
    message_id = f"urn:uuid:{uuid4()}"
    status, action, body = write_fault(refused, context, now=now, message_id=message_id)
    return Answer(status, http_headers(context.soap, action), body)
