"""Handlers of requests to subscribe, and of those to a subscription's manager."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from functools import partial

from filters import DEFAULT_TOPIC, Reason, Refused, Topic
from gateway.delivery import Entry
from gateway.exchange import Handlers, Inbound
from gateway.observing.subscribe_requests import SubscribeRequests
from gateway.publishing.synchronization import Synchronizing
from gateway.publishing.topics import TopicsSeen
from gateway.security.principals import tenant_of
from gateway.security.quotas import PrincipalRate
from gateway.subscriptions.creation import SubscriptionCreation
from gateway.subscriptions.lifecycle.lifecycle import Lifecycle, SubscriptionUnknown
from gateway.subscriptions.lifecycle.renewal import Renewal
from gateway.subscriptions.named_subscriptions import NamedSubscriptions
from mediation.model.messages import Notification, Rights, Subscription
from mediation.model.requests import (
    Done,
    GetStatus,
    Incoming,
    Pause,
    Renew,
    Response,
    Resume,
    StoreMessage,
    Subscribe,
    Subscribed,
    SubscribePulling,
    Synchronize,
    Unsubscribe,
)

RESENT_AT_A_TIME = 32
"""Current messages that are sent before others have their turn."""


RightsOf = Callable[[Subscribe | SubscribePulling, Incoming, Inbound], Awaitable[Rights | None]]
"""Says what a subscriber proves to have a right to, of what its filter names. It raises `Refused`
where that is not enough."""


class SubscriptionOperations:
    """Subscribes, and manages subscriptions.

    Args:
        synchronizing: Finds the current messages that a filter takes.
        looks: Counts requests for current messages.
        trusts: Whether an owner of subscriptions is trusted.
        resend: Delivers notifications to one subscription once more.
        requests: Keeps the last requests to subscribe.
        rights_of: Proves the rights of a new one to topics that are somebody's.
        may_get: Whether a subscription may get what was published on a topic.
        exceeded: Told when the filter of a subscription exceeded its budget on a message, by its
            id.
    """

    def __init__(
        self,
        creation: SubscriptionCreation,
        lifecycle: Lifecycle,
        renewal: Renewal,
        named: NamedSubscriptions,
        topics: TopicsSeen,
        *,
        synchronizing: Synchronizing,
        looks: PrincipalRate,
        trusts: Callable[[str], bool],
        resend: Callable[[Entry, Sequence[Notification]], None],
        exceeded: Callable[[Entry, str], None],
        requests: SubscribeRequests,
        rights_of: RightsOf | None = None,
        may_get: Callable[[Topic, Subscription], bool] | None = None,
    ) -> None:
        self._creation = creation
        self._lifecycle = lifecycle
        self._renewal = renewal
        self._subscriptions = named
        self._topics = topics
        self._synchronizing = synchronizing
        self._looks = looks
        self._trusts = trusts
        self._resend = resend
        self._exceeded = exceeded
        self._requests = requests
        self._rights_of = rights_of
        self._may_get = may_get

    def handlers(self) -> Handlers:
        return {
            Subscribe: self.subscribe,
            SubscribePulling: self.subscribe,
            Renew: self.renew,
            GetStatus: self.status,
            Unsubscribe: self.unsubscribe,
            Pause: self.pause,
            Resume: self.resume,
            Synchronize: self.synchronize,
            StoreMessage: self.store_message,
        }

    async def subscribe(
        self,
        request: Subscribe | SubscribePulling,
        incoming: Incoming,
        inbound: Inbound,
        channel: str = "",
    ) -> Subscribed:
        now = datetime.now(UTC)
        self._topics.namespaces.check_filter(request.filter)
        prove = None
        if self._rights_of is not None:
            prove = partial(self._rights_of, request, incoming, inbound)
        subscription = await self._creation.subscribe(
            request,
            incoming.context,
            inbound.principal,
            base=inbound.base,
            now=now,
            prove=prove,
            channel=channel,
        )
        self._requests.note(subscription.id, inbound.path, inbound.octets)
        return Subscribed(subscription, now)

    # Of a subscription's manager.

    async def renew(self, request: Renew, incoming: Incoming, inbound: Inbound) -> Subscribed:
        now = datetime.now(UTC)
        entry = await self._named(incoming, inbound, now, in_grace=True)
        subscription = await self._renewal.renew(entry, request.expires, inbound.principal, now=now)
        return Subscribed(subscription, now)

    async def status(self, _request: GetStatus, incoming: Incoming, inbound: Inbound) -> Subscribed:
        now = datetime.now(UTC)
        entry = await self._named(incoming, inbound, now)
        return Subscribed(entry.subscription, now)

    async def unsubscribe(
        self, _request: Unsubscribe, incoming: Incoming, inbound: Inbound
    ) -> Done:
        entry = await self._named(incoming, inbound, datetime.now(UTC), in_grace=True)
        await self._lifecycle.end(entry)
        return Done()

    async def pause(self, _request: Pause, incoming: Incoming, inbound: Inbound) -> Done:
        entry = await self._named(incoming, inbound, datetime.now(UTC))
        await self._lifecycle.set_paused(entry, True)
        return Done()

    async def resume(self, _request: Resume, incoming: Incoming, inbound: Inbound) -> Done:
        entry = await self._named(incoming, inbound, datetime.now(UTC))
        await self._lifecycle.set_paused(entry, False)
        return Done()

    async def synchronize(
        self, _request: Synchronize, incoming: Incoming, inbound: Inbound
    ) -> Done:
        """Deliver the current messages of a subscription once more."""
        entry = await self._named(incoming, inbound, datetime.now(UTC))
        self._looks.take(inbound.principal)
        subscription = entry.subscription
        found = await self._synchronizing.find(
            () if subscription.policy.channel else self._latest_for(subscription),
            subscription.filter,
            subscription.key,
            None if self._trusts(subscription.owner) else subscription.owner,
        )
        if found.exceeded is not None:
            self._exceeded(entry, found.exceeded)
        for first in range(0, len(found.notifications), RESENT_AT_A_TIME):
            if entry.ended:
                raise SubscriptionUnknown
            self._resend(entry, found.notifications[first : first + RESENT_AT_A_TIME])
            await asyncio.sleep(0)
        return Done()

    def _latest_for(self, subscription: Subscription) -> Sequence[Notification]:
        """The current messages that *subscription* has a right to."""
        latest, may_get = self._topics.latest(tenant_of(subscription.owner)), self._may_get
        if may_get is None:
            return latest
        return [one for one in latest if may_get(one.topic or DEFAULT_TOPIC, subscription)]

    async def store_message(
        self, _request: StoreMessage, incoming: Incoming, inbound: Inbound
    ) -> Response:
        """Refuse a StoreMessage that came to no mailbox: subscriptions store none."""
        await self._named(incoming, inbound, datetime.now(UTC))
        raise Refused(Reason.ACTION_UNSUPPORTED, "The operation is not offered.")

    async def _named(
        self, incoming: Incoming, inbound: Inbound, now: datetime, *, in_grace: bool = False
    ) -> Entry:
        """The subscription that a request names; one whose lease has just ended where *in_grace*.

        Raises:
            SubscriptionUnknown: No subscription has such a name.
        """
        entry = await self._subscriptions.find(incoming, inbound, now)
        end = entry.subscription.lease.expires
        if end is not None and end <= now and not in_grace:
            raise SubscriptionUnknown
        return entry
