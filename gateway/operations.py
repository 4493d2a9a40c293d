"""What each request does: the application logic behind every transport."""

import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from filters import Reason, Refused, topic_dialects
from gateway.delivery import HOPS_PROPERTY, Entry
from gateway.peers import Peer
from gateway.quotas import QuotaExceeded, TokenBucket
from gateway.spool import Publisher
from gateway.subscriptions import Subscriptions, SubscriptionUnknown
from gateway.topics import TopicsSeen
from mediation import (
    PRODUCER_DOCUMENT,
    SUBSCRIPTION_DOCUMENT,
    CurrentMessage,
    Destroy,
    Done,
    Expiry,
    GetCurrentMessage,
    GetProperties,
    GetStatus,
    Incoming,
    Pause,
    Properties,
    Publish,
    Renew,
    Response,
    Resume,
    SetTerminationTime,
    Subscribe,
    Subscribed,
    TerminationTime,
    Unsubscribe,
    producer_properties,
    subscription_properties,
)
from mediation.records import encode

EVENTS, EVENTS_AT_ONCE = 500.0, 1000.0
"""Events that a network address may publish: a second, and at once."""
_IN_GRACE = (Renew, SetTerminationTime, Unsubscribe, Destroy)
"""What may still be asked of a subscription whose lease has just ended."""


@dataclass(frozen=True, slots=True)
class Call:
    """A request with what its transport knows of it.

    ``base`` is the public URL of the gateway as the peer sees it; ``path`` that of the request.
    """

    incoming: Incoming
    peer: Peer
    base: str
    path: str = ""
    hops: int = 0


class Operations:
    """Carries requests out."""

    def __init__(
        self, subscriptions: Subscriptions, publisher: Publisher, topics: TopicsSeen
    ) -> None:
        self._subscriptions = subscriptions
        self._publisher = publisher
        self._topics = topics
        self._rate = TokenBucket(EVENTS, EVENTS_AT_ONCE)
        self.accepted = 0
        """Notifications that the messaging system, or the spool, holds durably."""

    async def execute(self, call: Call) -> Response | None:
        """Carry *call* out; None where the specification answers nothing.

        Raises:
            Refused: with nothing changed.
        """
        now = datetime.now(UTC)
        request = call.incoming.request
        match request:
            case Publish():
                await self._publish(request, call)
                return None
            case Subscribe():
                subscription = await self._subscriptions.subscribe(
                    request, call.incoming.context, call.peer, base=call.base, now=now
                )
                return Subscribed(subscription, now)
            case GetCurrentMessage(topic):
                notification = self._topics.current(topic)
                if notification is None:
                    raise Refused(
                        Reason.NO_CURRENT_MESSAGE, "There is no current message on the topic."
                    )
                return CurrentMessage(notification)
            case GetProperties() if not self._names_any(call):
                values = producer_properties(self._topics.topics(), topic_dialects())
                return Properties(values, request.names, PRODUCER_DOCUMENT)
            case _:
                return await self._manage(call, now)

    async def _publish(self, request: Publish, call: Call) -> None:
        notifications = request.notifications
        self._check_rate(call.peer, len(notifications))
        if call.hops:
            hops = {HOPS_PROPERTY: str(call.hops)}
            notifications = tuple(
                replace(notification, properties={**notification.properties, **hops})
                for notification in notifications
            )
        for notification in notifications:
            if notification.producer is not None or notification.headers:
                encode(notification)  # Refused at the door if the broker could not carry it.
        await self._publisher.publish(notifications)
        self.accepted += len(notifications)
        self._topics.see(notifications)

    def _check_rate(self, peer: Peer, number: int) -> None:
        wait = 0.0
        if not peer.trusted:
            wait = self._rate.take(peer.owner, time.monotonic(), number=number)
        if wait:
            raise QuotaExceeded(Reason.RATE, "Too many events.", retry_after=wait)

    @staticmethod
    def _candidates(call: Call) -> tuple[str | None, ...]:
        named = call.incoming.named
        return (*named.identifiers, call.path, named.to, named.body)

    def _names_any(self, call: Call) -> bool:
        return call.path.startswith("/subscriptions/") or any(
            "/subscriptions/" in (text or "") or "urn:uuid:" in (text or "")
            for text in self._candidates(call)
        )

    async def _manage(self, call: Call, now: datetime) -> Response:
        """The operations of a subscription's manager."""
        await self._subscriptions.refresh()
        entry = self._subscriptions.find(self._candidates(call), now=now)
        request = call.incoming.request
        end = entry.subscription.lease.expires
        if end is not None and end <= now and not isinstance(request, _IN_GRACE):
            raise SubscriptionUnknown
        match request:
            case Renew(expires):
                subscription = await self._subscriptions.renew(entry, expires, call.peer, now=now)
                return Subscribed(subscription, now)
            case GetStatus():
                return Subscribed(entry.subscription, now)
            case Unsubscribe() | Destroy():
                await self._subscriptions.end(entry)
                return Done()
            case Pause():
                await self._subscriptions.set_paused(entry, True)
                return Done()
            case Resume():
                await self._subscriptions.set_paused(entry, False)
                return Done()
            case GetProperties(names):
                values = subscription_properties(entry.subscription, now)
                return Properties(values, names, SUBSCRIPTION_DOCUMENT)
            case SetTerminationTime(expires):
                return await self._set_termination_time(entry, expires, call.peer, now)
            case _:  # pragma: no cover - `execute` takes the others
                raise Refused(Reason.ACTION_UNSUPPORTED, "The operation is not offered.")

    async def _set_termination_time(
        self, entry: Entry, expires: Expiry, peer: Peer, now: datetime
    ) -> Response:
        """A requested time that is over means at once (WS-ResourceLifetime 1.2, section 4)."""
        at = expires.at(now)
        if at is not None and at <= now:
            await self._subscriptions.end(entry)
            return TerminationTime(now, now)
        subscription = await self._subscriptions.renew(entry, expires, peer, now=now)
        return TerminationTime(subscription.lease.expires, now)
