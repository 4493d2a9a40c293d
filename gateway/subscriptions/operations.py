"""Handlers of requests to subscribe, and of those to a subscription's manager."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from filters import Reason, Refused
from gateway.delivery import Entry
from gateway.exchange import Handlers, Inbound
from gateway.model.mailboxes import Mailbox
from gateway.publishing.operations import PublishingOperations
from gateway.publishing.synchronization import Synchronizing
from gateway.publishing.topics import TopicsSeen
from gateway.security.quotas import PrincipalRate
from gateway.subscriptions.lifecycle import KEPT_ALIVE, Subscriptions, SubscriptionUnknown
from mediation import (
    SUBSCRIPTION_DOCUMENT,
    Destroy,
    Done,
    GetProperties,
    GetStatus,
    Incoming,
    Notification,
    Pause,
    Properties,
    Renew,
    Response,
    Resume,
    SetTerminationTime,
    StoreMessage,
    Subscribe,
    Subscribed,
    SubscribePulling,
    Synchronize,
    TerminationTime,
    Unsubscribe,
    subscription_properties,
)

RESENT_AT_A_TIME = 32
"""Current messages that are sent before others have their turn."""


class SubscriptionOperations:
    """Subscribes, and manages subscriptions.

    Args:
        publishing: Tells of the producer where GetProperties names no subscription.
        synchronizing: Finds the current messages that a filter takes.
        looks: Counts requests for properties and current messages.
        trusts: Whether an owner of subscriptions is trusted.
        resend: Delivers notifications to one subscription once more.
        exceeded: Told when the filter of a subscription exceeded its budget on a message, by its
            id.
    """

    def __init__(
        self,
        subscriptions: Subscriptions,
        topics: TopicsSeen,
        *,
        publishing: PublishingOperations,
        synchronizing: Synchronizing,
        looks: PrincipalRate,
        trusts: Callable[[str], bool],
        resend: Callable[[Entry, Sequence[Notification]], None],
        exceeded: Callable[[Entry, str], None],
    ) -> None:
        self._subscriptions = subscriptions
        self._topics = topics
        self._publishing = publishing
        self._synchronizing = synchronizing
        self._looks = looks
        self._trusts = trusts
        self._resend = resend
        self._exceeded = exceeded

    def handlers(self) -> Handlers:
        return {
            Subscribe: self.subscribe,
            SubscribePulling: self.subscribe,
            Renew: self.renew,
            SetTerminationTime: self.set_termination_time,
            GetStatus: self.status,
            GetProperties: self.properties,
            Unsubscribe: self.unsubscribe,
            Destroy: self.unsubscribe,
            Pause: self.pause,
            Resume: self.resume,
            Synchronize: self.synchronize,
            StoreMessage: self.store_message,
        }

    async def subscribe(
        self, request: Subscribe | SubscribePulling, incoming: Incoming, inbound: Inbound
    ) -> Subscribed:
        now = datetime.now(UTC)
        subscription = await self._subscriptions.subscribe(
            request, incoming.context, inbound.principal, base=inbound.base, now=now
        )
        return Subscribed(subscription, now)

    # Of a subscription's manager.

    async def renew(self, request: Renew, incoming: Incoming, inbound: Inbound) -> Subscribed:
        now = datetime.now(UTC)
        entry = await self._named(incoming, inbound, now, in_grace=True)
        subscription = await self._subscriptions.renew(
            entry, request.expires, inbound.principal, now=now
        )
        return Subscribed(subscription, now)

    async def set_termination_time(
        self, request: SetTerminationTime, incoming: Incoming, inbound: Inbound
    ) -> TerminationTime:
        """A requested time that is over means at once (WS-ResourceLifetime 1.2, section 4)."""
        now = datetime.now(UTC)
        entry = await self._named(incoming, inbound, now, in_grace=True)
        at = request.expires.at(now)
        if at is not None and at <= now:
            await self._subscriptions.end(entry)
            return TerminationTime(now, now)
        subscription = await self._subscriptions.renew(
            entry, request.expires, inbound.principal, now=now
        )
        return TerminationTime(subscription.lease.expires, now)

    async def status(self, _request: GetStatus, incoming: Incoming, inbound: Inbound) -> Subscribed:
        now = datetime.now(UTC)
        entry = await self._named(incoming, inbound, now)
        return Subscribed(entry.subscription, now)

    async def properties(
        self, request: GetProperties, incoming: Incoming, inbound: Inbound
    ) -> Response:
        """The resource properties of a subscription, or of the producer where none is named."""
        self._looks.take(inbound.principal)
        if not _names_any(incoming, inbound):
            return await self._publishing.properties(request)
        now = datetime.now(UTC)
        entry = await self._named(incoming, inbound, now)
        values = subscription_properties(entry.subscription, now)
        return Properties(values, request.names, SUBSCRIPTION_DOCUMENT)

    async def unsubscribe(
        self, _request: Unsubscribe | Destroy, incoming: Incoming, inbound: Inbound
    ) -> Done:
        entry = await self._named(incoming, inbound, datetime.now(UTC), in_grace=True)
        await self._subscriptions.end(entry)
        return Done()

    async def pause(self, _request: Pause, incoming: Incoming, inbound: Inbound) -> Done:
        entry = await self._named(incoming, inbound, datetime.now(UTC))
        await self._subscriptions.set_paused(entry, True)
        return Done()

    async def resume(self, _request: Resume, incoming: Incoming, inbound: Inbound) -> Done:
        entry = await self._named(incoming, inbound, datetime.now(UTC))
        await self._subscriptions.set_paused(entry, False)
        return Done()

    async def synchronize(
        self, _request: Synchronize, incoming: Incoming, inbound: Inbound
    ) -> Done:
        """Deliver the current messages of a subscription once more."""
        entry = await self._named(incoming, inbound, datetime.now(UTC))
        self._looks.take(inbound.principal)
        subscription = entry.subscription
        found = await self._synchronizing.find(
            self._topics.latest(),
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

    async def store_message(
        self, _request: StoreMessage, incoming: Incoming, inbound: Inbound
    ) -> Response:
        """Refuse what came to no mailbox: it is not asked of a subscription either."""
        await self._named(incoming, inbound, datetime.now(UTC))
        raise Refused(Reason.ACTION_UNSUPPORTED, "The operation is not offered.")

    async def _named(
        self, incoming: Incoming, inbound: Inbound, now: datetime, *, in_grace: bool = False
    ) -> Entry:
        """The subscription that a request names; one whose lease has just ended where *in_grace*.

        Raises:
            SubscriptionUnknown: There is none.
        """
        await self._subscriptions.refresh()
        entry = self._subscriptions.find(_candidates(incoming, inbound), now=now)
        end = entry.subscription.lease.expires
        if end is not None and end <= now and not in_grace:
            raise SubscriptionUnknown
        return entry


class MailboxFeeds:
    """The subscriptions that mailboxes were made for, as requests to those mailboxes need them."""

    def __init__(self, subscriptions: Subscriptions) -> None:
        self._subscriptions = subscriptions

    async def keep_alive(self, mailbox: Mailbox, seconds: float) -> Entry | None:
        """Let the subscription of *mailbox* live on, whose reader waits for *seconds*."""
        await self._subscriptions.refresh()
        entry = self._subscriptions.made_with(mailbox)
        if entry is not None:
            await self._subscriptions.keep_alive(entry, seconds + KEPT_ALIVE)
        return entry

    async def end(self, mailbox: Mailbox) -> bool:
        """End the subscription of *mailbox*, and *mailbox* with it. Returns False where it has
        none."""
        await self._subscriptions.refresh()
        entry = self._subscriptions.made_with(mailbox)
        if entry is None:
            return False
        await self._subscriptions.end(entry)
        return True


def _candidates(incoming: Incoming, inbound: Inbound) -> tuple[str | None, ...]:
    """The peer's texts that may name a subscription, in the order of trust."""
    named = incoming.named
    return (*named.identifiers, inbound.path, named.to, named.body)


def _names_any(incoming: Incoming, inbound: Inbound) -> bool:
    return inbound.path.startswith("/subscriptions/") or any(
        "/subscriptions/" in (text or "") or "urn:uuid:" in (text or "")
        for text in _candidates(incoming, inbound)
    )
