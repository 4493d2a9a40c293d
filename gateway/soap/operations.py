"""What each request does: the application logic behind every transport."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import lru_cache
from importlib.metadata import version
from typing import NamedTuple
from uuid import NAMESPACE_URL, uuid5

from filters import Reason, Refused, topic_dialects
from gateway.delivery import HOPS_PROPERTY, Entry
from gateway.egress.origins import ORIGIN_PROPERTY, Origins
from gateway.mailboxes.mailboxes import Batch, Mailboxes, MailboxUnknown
from gateway.model.mailboxes import Mailbox, MailboxKind
from gateway.observing.samples import Sample, counter
from gateway.parsing import Parsing
from gateway.publishing.spool import Publisher
from gateway.publishing.synchronization import Synchronizing
from gateway.publishing.topics import TopicsSeen
from gateway.security.principals import Principal
from gateway.security.quotas import QuotaExceeded, TokenBucket
from gateway.security.resource_addresses import (
    MESSAGE_BOXES,
    ResourceAddress,
    ResourceKind,
    key_named,
)
from gateway.store.disk_reserve import Reserve
from gateway.subscriptions.subscriptions import (
    KEPT_ALIVE,
    Subscriptions,
    SubscriptionUnknown,
    key_in,
)
from mediation import (
    PRODUCER_DOCUMENT,
    SUBSCRIPTION_DOCUMENT,
    CreateMailbox,
    CurrentMessage,
    DescribeDevice,
    DescribeEvents,
    Destroy,
    DestroyMailbox,
    Device,
    Done,
    Events,
    Expiry,
    GetCurrentMessage,
    GetProperties,
    GetStatus,
    Identified,
    Identify,
    Incoming,
    MailboxMade,
    Named,
    Notification,
    Operation,
    Pause,
    Properties,
    Publish,
    Published,
    Renew,
    Response,
    Resume,
    SetTerminationTime,
    Subscribe,
    Subscribed,
    SubscribePulling,
    Synchronize,
    Take,
    TakeFor,
    Taken,
    TerminationTime,
    Unsubscribe,
    Version,
    producer_properties,
    subscription_properties,
)
from mediation.packaging.records import check_references, has_references

EVENTS, EVENTS_AT_ONCE = 500.0, 1000.0
"""Events that a network address may publish: a second, and at once."""
BYTES, BYTES_AT_ONCE = 4 * 2.0**20, 64 * 2.0**20
"""Bytes of these events, in the same way."""
LOOKS, LOOKS_AT_ONCE = 2.0, 20.0
"""Requests that look at all topics or current messages, that a stranger may send: a second, and at
once."""
OCTETS_OF_TOPIC = 256
"""Of what is told of a topic, about."""
AGAIN_AT_A_TIME = 32
"""Current messages that are sent before others have their turn."""
_LOOKING = (DescribeEvents, GetProperties, GetCurrentMessage)
_IN_GRACE = (Renew, SetTerminationTime, Unsubscribe, Destroy)
"""What may still be asked of a subscription whose lease has just ended."""


@lru_cache(maxsize=1)
def release() -> str:
    """The release of Dragoman that runs."""
    return version("dragoman")


class Call(NamedTuple):
    """A request with what its transport knows of it.

    ``base`` is the public URL of the gateway as the peer sees it; ``path`` that of the request.
    """

    incoming: Incoming
    principal: Principal
    base: str
    path: str = ""
    hops: int = 0
    resource: ResourceAddress | None = None
    """The resource that the message was sent to."""
    gone: Callable[[], Awaitable[None]] | None = None
    """Returns when the peer has gone."""
    origin: str = ""
    """Which event a message is a copy of, where another gateway said it."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a request came to: the answer, None where the specification answers nothing; and the
    messages of a mailbox in it, which leave the box when the answer was taken in."""

    response: Response | None
    batch: Batch | None = None


_NOTHING = Outcome(None)


class Operations:
    """Carries requests out."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        publisher: Publisher,
        topics: TopicsSeen,
        mailboxes: Mailboxes,
        *,
        parsing: Parsing,
        synchronizing: Synchronizing,
        trusts: Callable[[str], bool] = lambda _: False,
        origins: Origins | None = None,
        reserve: Reserve,
        mailboxes_only: bool = False,
    ) -> None:
        """Args:
        parsing: Where answers are made that tell of many topics.
        trusts: Whether an owner of subscriptions is trusted.
        reserve: Of the store's disk.
        """
        self._subscriptions = subscriptions
        self._publisher = publisher
        self._topics = topics
        self._mailboxes = mailboxes
        self._mailboxes_only = mailboxes_only
        self._parsing = parsing
        self._synchronizing = synchronizing
        self._trusts = trusts
        self._origins = origins or Origins()
        self._rate = TokenBucket(EVENTS, EVENTS_AT_ONCE)
        self._bytes = TokenBucket(BYTES, BYTES_AT_ONCE)
        self._reserve = reserve
        self._looks = TokenBucket(LOOKS, LOOKS_AT_ONCE)
        self.exceeded: Callable[[Entry, str], None] = lambda _entry, _message: None
        """Told when the filter of a subscription exceeded its budget on a message, by its id."""
        self.again: Callable[[Entry, Sequence[Notification]], None] = lambda _entry, _events: None
        """Delivers notifications to one subscription once more."""
        self.accepted = 0
        """Notifications that the messaging system, or the spool, holds durably."""
        self.repeated = 0
        """Those that other gateways sent once more, which were not taken again."""
        self.stored = 0
        """Messages that others put into mailboxes."""

    def metrics(self) -> Iterator[Sample]:
        """Events and messages that were taken in."""
        yield counter("accepted", "Notifications accepted from publishers.", self.accepted)
        yield counter("mailbox_stored", "Messages that others put into mailboxes.", self.stored)

    async def execute(self, call: Call) -> Outcome:
        """Carry *call* out.

        Raises:
            Refused: with nothing changed.
        """
        match call.incoming.request:
            case Take() as take:
                return await self._take(take, call)
            case TakeFor(address):
                return await self._take_for(address)
            case CreateMailbox():
                return Outcome(await self._make_mailbox(call))
            case DestroyMailbox():
                return Outcome(await self._destroy_mailbox(call))
            case _ if self._mailboxes_only:
                raise Refused(Reason.ACTION_UNSUPPORTED, "Only mailboxes are offered here.")
            case Publish() as publish:
                await self._publish(publish, call)
                if call.incoming.context.version is Version.MESSENGER:
                    return Outcome(Published(publish.notifications[0].id))
                return _NOTHING
            case _:
                return Outcome(await self._execute(call))

    async def _execute(self, call: Call) -> Response:
        now = datetime.now(UTC)
        request = call.incoming.request
        if isinstance(request, _LOOKING):
            self._check_looks(call.principal)
        match request:
            case Subscribe() | SubscribePulling():
                subscription = await self._subscriptions.subscribe(
                    request, call.incoming.context, call.principal, base=call.base, now=now
                )
                return Subscribed(subscription, now)
            case DescribeEvents():
                return self._events()
            case Identify():
                return Identified(release())
            case DescribeDevice():
                serial = str(uuid5(NAMESPACE_URL, call.base))
                return Device(request, release(), serial, call.base, now, self._events())
            case GetCurrentMessage(topic):
                notification = self._topics.current(topic)
                if notification is None:
                    raise Refused(
                        Reason.NO_CURRENT_MESSAGE, "There is no current message on the topic."
                    )
                return CurrentMessage(notification)
            case GetProperties() if not self._names_any(call):
                topics = self._topics.topics()
                values = await self._parsing.beside(
                    OCTETS_OF_TOPIC * len(topics),
                    lambda: producer_properties(topics, topic_dialects()),
                )
                return Properties(values, request.names, PRODUCER_DOCUMENT)
            case _:
                return await self._manage(call, now)

    def _events(self) -> Events:
        return Events(
            tuple(self._topics.topics()),
            tuple(topic_dialects()),
            self._mailboxes.most,
            self._subscriptions.longest_lease,
        )

    async def _publish(self, request: Publish, call: Call) -> None:
        notifications = request.notifications
        self._check_rate(call.principal, len(notifications))
        self._check_bytes(call.principal, sum(each.octets for each in notifications))
        if call.hops:
            hops = {HOPS_PROPERTY: str(call.hops)}
            if call.origin:
                hops[ORIGIN_PROPERTY] = call.origin
            notifications = tuple(
                replace(notification, properties={**notification.properties, **hops})
                for notification in notifications
            )
        for notification in notifications:
            if has_references(notification):
                check_references(notification)  # On acceptance, not when the broker is to carry it.
        if not (call.hops and call.origin):
            await self._take_in(notifications)
        elif not await self._origins.once(
            call.origin,
            call.principal.source,
            notifications,
            lambda: self._take_in(notifications),
        ):
            self.repeated += len(notifications)

    async def _take_in(self, notifications: Sequence[Notification]) -> None:
        await self._publisher.publish(notifications)
        self.accepted += len(notifications)
        self._topics.see(notifications)

    def _check_bytes(self, principal: Principal, octets: int) -> None:
        """Count the bytes that *principal* sends for others to store.

        Raises:
            QuotaExceeded: It sends too many.
            StoreUnavailable: The store's disk is nearly full.
        """
        self._reserve.take(octets)
        wait = 0.0
        if not principal.trusted:
            wait = self._bytes.take(principal.owner, time.monotonic(), number=float(octets))
        if wait:
            raise QuotaExceeded(Reason.RATE, "Too many bytes.", retry_after=wait)

    def _check_rate(self, principal: Principal, number: int) -> None:
        wait = 0.0
        if not principal.trusted:
            wait = self._rate.take(principal.owner, time.monotonic(), number=number)
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
                subscription = await self._subscriptions.renew(
                    entry, expires, call.principal, now=now
                )
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
            case Synchronize():
                await self._synchronize(entry, call.principal)
                return Done()
            case GetProperties(names):
                values = subscription_properties(entry.subscription, now)
                return Properties(values, names, SUBSCRIPTION_DOCUMENT)
            case SetTerminationTime(expires):
                return await self._set_termination_time(entry, expires, call.principal, now)
            case _:  # pragma: no cover - `execute` takes the others
                raise Refused(Reason.ACTION_UNSUPPORTED, "The operation is not offered.")

    async def _synchronize(self, entry: Entry, principal: Principal) -> None:
        """Deliver the current messages of a subscription once more."""
        self._check_looks(principal)
        subscription = entry.subscription
        trusted = self._trusts(subscription.owner)
        found = await self._synchronizing.find(
            self._topics.latest(),
            subscription.filter,
            subscription.key,
            None if trusted else subscription.owner,
        )
        if found.exceeded is not None:
            self.exceeded(entry, found.exceeded)
        for first in range(0, len(found.notifications), AGAIN_AT_A_TIME):
            if entry.ended:
                raise SubscriptionUnknown
            self.again(entry, found.notifications[first : first + AGAIN_AT_A_TIME])
            await asyncio.sleep(0)

    def _check_looks(self, principal: Principal) -> None:
        wait = 0.0 if principal.trusted else self._looks.take(principal.owner, time.monotonic())
        if wait:
            raise QuotaExceeded(Reason.RATE, "Too many requests.", retry_after=wait)

    async def _set_termination_time(
        self, entry: Entry, expires: Expiry, principal: Principal, now: datetime
    ) -> Response:
        """A requested time that is over means at once (WS-ResourceLifetime 1.2, section 4)."""
        at = expires.at(now)
        if at is not None and at <= now:
            await self._subscriptions.end(entry)
            return TerminationTime(now, now)
        subscription = await self._subscriptions.renew(entry, expires, principal, now=now)
        return TerminationTime(subscription.lease.expires, now)

    # Mailboxes.

    async def mailbox_for(
        self, resource: ResourceAddress, named: Named, principal: Principal
    ) -> Mailbox:
        """The box into which a message goes that came to *resource*.

        Raises:
            MailboxUnknown: There is none.
            QuotaExceeded: *principal* sends too much.
        """
        key = resource.key or next(filter(None, map(key_named, named.identifiers)), None)
        box = await self._mailboxes.find(key)
        self._check_rate(principal, 1)
        return box

    def count_sent(self, principal: Principal, further: int, octets: int) -> None:
        """What *principal* sends into a mailbox holds so many *further* events, and has so many
        *octets*.

        Raises:
            QuotaExceeded: It sends too much.
            StoreUnavailable: The store's disk is nearly full.
        """
        self._check_bytes(principal, octets)
        if further:
            self._check_rate(principal, further)

    async def _mailbox(self, call: Call) -> Mailbox:
        """The box that a request is about, named in any way in which peers do.

        Raises:
            MailboxUnknown: There is none.
            Refused: ``MAILBOX_UNKNOWN``: none is named.
        """
        named, resource = call.incoming.named, call.resource
        keys = [resource.key if resource is not None else None]
        keys += map(key_named, (*named.identifiers, named.to, named.body))
        keys += map(key_in, self._candidates(call))
        if not any(keys):  # Not `MailboxUnknown`: nobody is lenient with that.
            raise Refused(Reason.MAILBOX_UNKNOWN, "The request names no mailbox.")
        for key in dict.fromkeys(keys):
            if key is not None:
                with contextlib.suppress(MailboxUnknown):
                    return await self._mailboxes.find(key)
        raise MailboxUnknown

    async def _make_mailbox(self, call: Call) -> Response:
        version = call.incoming.context.version
        resource = (
            _RESOURCES.get(version, ResourceKind.PULL_POINT) if version else ResourceKind.PULL_POINT
        )
        kind = MailboxKind.MESSAGE_BOX if resource in MESSAGE_BOXES else MailboxKind.PULL_POINT
        self._check_rate(call.principal, 1)
        box = await self._mailboxes.make(kind, call.principal)
        return MailboxMade(box.key, resource.address(call.base, box.key))

    async def _destroy_mailbox(self, call: Call) -> Response:
        try:
            box = await self._mailbox(call)
        except MailboxUnknown:
            if self._is_lenient(call):  # WS-Messenger's client asks twice, and minds a refusal.
                return Done()
            raise
        await self._subscriptions.refresh()
        entry = self._subscriptions.filling(box)
        if box.kind is MailboxKind.SUBSCRIPTION and entry is not None:
            await self._subscriptions.end(entry)
        else:
            await self._mailboxes.destroy(box)
        return Done()

    async def _take(self, take: Take, call: Call) -> Outcome:
        now = datetime.now(UTC)
        try:
            box = await self._mailbox(call)
        except MailboxUnknown:
            if self._is_lenient(call):
                return Outcome(Taken((), False, now))
            raise
        pulls = call.incoming.context.operation is Operation.PULL_MESSAGES
        if not pulls:
            return await self._taken(box, take, call)
        # One at a time, and it keeps the subscription alive (ONVIF Core, "PullMessages").
        async with self._mailboxes.alone(box):
            await self._subscriptions.refresh()
            entry = self._subscriptions.filling(box)
            if entry is None:
                return await self._taken(box, take, call)
            await self._subscriptions.keep_alive(entry, take.wait + KEPT_ALIVE)
            outcome = await self._taken(box, take, call)
            expires = entry.subscription.lease.expires
            if isinstance(outcome.response, Taken):
                return replace(outcome, response=replace(outcome.response, expires=expires))
            return outcome

    async def _taken(self, box: Mailbox, take: Take, call: Call) -> Outcome:
        batch = await self._mailboxes.take(box, most=take.most, wait=take.wait, gone=call.gone)
        envelopes = tuple(held.envelope for held in batch.messages)
        return Outcome(Taken(envelopes, batch.more, datetime.now(UTC)), batch)

    async def _take_for(self, address: str) -> Outcome:
        box = await self._mailboxes.named(address)
        if box is None:
            return Outcome(None)
        batch = await self._mailboxes.take(box, most=1)
        if not batch.messages:
            return Outcome(None)
        envelope = batch.messages[0].envelope
        return Outcome(Taken((envelope,), batch.more, datetime.now(UTC)), batch)

    @staticmethod
    def _is_lenient(call: Call) -> bool:
        version, operation = call.incoming.context.version, call.incoming.context.operation
        return version is Version.MESSAGE_BOX_2011 or (
            version is Version.MESSAGE_BOX_2004 and operation is Operation.DESTROY_MESSAGE_BOX
        )


_RESOURCES = {
    Version.MESSAGE_BOX_2011: ResourceKind.MESSAGE_BOX_2011,
    Version.MESSAGE_BOX_2004: ResourceKind.MESSAGE_BOX_2004,
}
