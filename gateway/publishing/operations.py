"""Handlers of requests to publish, and to be told of topics and of the producer."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from importlib.metadata import version
from time import time
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

import structlog

from adapters import PublicationRefused
from filters import DEFAULT_TOPIC, Reason, Refused, Topic, topic_dialects
from gateway.egress.hops import (
    HOPS_PROPERTY,
    ORIGIN_PROPERTY,
    read_hops,
    read_origin,
    read_origins,
    read_via,
)
from gateway.egress.returning_events import Origins
from gateway.exchange import Handlers, Inbound
from gateway.model.channels import CHANNEL_PROPERTY, channel_address
from gateway.observing.recent_messages import Arrival, RecentMessages
from gateway.observing.samples import LATENCY_BOUNDS, Histogram, Sample, counter, histogram
from gateway.observing.system_events import is_system_topic
from gateway.observing.taps import Taps
from gateway.observing.traces import MessageTraces
from gateway.publishing.event_copies import Copies
from gateway.publishing.set_aside import SetAsideMessages, TopicReading
from gateway.publishing.spool import Publisher, Spool
from gateway.publishing.topics import TopicsSeen
from gateway.security.audit import NO_AUDIT, PUBLISHED, Audit
from gateway.security.authorise import sees_all_topics, sees_topic
from gateway.security.identify import OPERATOR
from gateway.security.intake import Intake
from gateway.security.principals import Principal
from gateway.security.quotas import PrincipalRate
from gateway.store import Store, answered_in_time
from mediation.grid_events import VIA_PROPERTY
from mediation.model.messages import Notification
from mediation.model.requests import (
    Acknowledged,
    CurrentMessage,
    DescribeDevice,
    DescribeEvents,
    Device,
    Events,
    GetCurrentMessage,
    Identified,
    Identify,
    Incoming,
    Publish,
    Published,
    SetAside,
)
from mediation.model.versions import Version
from mediation.names import DRAGOMAN_SYSTEM
from mediation.packaging.records import check_references, has_references
from mediation.tenants import tenant_of_topic, topic_in, topic_without_tenant

if TYPE_CHECKING:
    from gateway.observing.spans import Spans

Select = Callable[[tuple[Notification, ...]], Awaitable[tuple[Notification, ...]]]
"""Makes of notifications that were admitted those that are published."""
LOOKS, LOOKS_AT_ONCE = 2.0, 20.0
"""Requests about all topics or current messages that a stranger may send: a second, and at once."""


@lru_cache(maxsize=1)
def release() -> str:
    """The release of Dragoman that runs."""
    return version("dragoman")


def look_rate() -> PrincipalRate:
    """The rate of requests that look at all topics or current messages."""
    return PrincipalRate(LOOKS, LOOKS_AT_ONCE, "Too many requests.")


PLAIN_EVENT, IN_SEQUENCE = "event", "sequence"
"""What publishers speak whose events name no specification, or come in sequences."""
DIALECTS: Mapping[Version | None, str] = {None: PLAIN_EVENT, **{one: one.value for one in Version}}
"""Looked up for each publication, in a fourth of the time that `value` takes."""
OCTETS = tuple(4.0**power for power in range(4, 13))
"""The upper bounds of the buckets of notifications' octets: 256 to 16 MiB."""
_log = structlog.get_logger("dragoman.publishing")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicationChecks:
    """What other rooms check of a publication; None where the room is not there.

    Attributes:
        registered: Refuses what nobody registered to publish.
        note: Keeps what a message that was published says of its publisher.
        prove: Refuses what its publisher has no right to publish, on topics that are somebody's.
        prove_reader: Refuses who has no right to the last message on such a topic.
        signed: Refuses what is not signed, of a tenant, on topics that take signed events.
    """

    registered: Callable[[Sequence[Notification]], Awaitable[None]] | None = None
    note: Callable[[Incoming, Inbound], Awaitable[None]] | None = None
    prove: Callable[[Publish, Incoming, Inbound], Awaitable[Publish]] | None = None
    prove_reader: Callable[[Topic, Incoming, Inbound], Awaitable[None]] | None = None
    signed: Callable[[Sequence[Notification], str, str], Awaitable[None]] | None = None


class PublishingOperations:
    """Publishes, and tells of topics.

    Args:
        looks: Counts requests to be told of topics.
        mailboxes_each: How many mailboxes a stranger may have, for DescribeEvents.
        longest_lease: How long a stranger's subscription lasts at most, in the same way.
        endpoint: The address of the channel without a name.
        traces: Keeps what becomes of messages.
        taps: Who watches what is accepted.
        spans: Tells the trace of each notification; None where none is told.
        recent: Keeps the last messages; None where none are kept.
        copies: Copies what was accepted; None where nothing is copied.
        checks: What other rooms check of a publication.
        store: Keeps what is set aside.
        reading: How topics are read.
    """

    def __init__(
        self,
        publisher: Publisher,
        topics: TopicsSeen,
        *,
        intake: Intake,
        origins: Origins,
        store: Store,
        reading: TopicReading,
        looks: PrincipalRate,
        mailboxes_each: int,
        longest_lease: timedelta,
        endpoint: str,
        traces: MessageTraces,
        taps: Taps,
        recent: RecentMessages | None,
        copies: Copies | None,
        checks: PublicationChecks,
        spans: "Spans | None" = None,
        audit: Audit = NO_AUDIT,
    ) -> None:
        self._spans = spans
        self._audit = audit
        self._endpoint = endpoint
        self._traces = traces
        self._taps = taps
        self._recent = recent
        self._check, self._note = checks.registered, checks.note
        self._prove, self._prove_reader = checks.prove, checks.prove_reader
        self._signed = checks.signed
        self._publisher = publisher
        self._topics = topics
        self._intake = intake
        self._origins = origins
        self._looks = looks
        self._mailboxes_each = mailboxes_each
        self._longest_lease = longest_lease
        self._copies = copies
        self.set_aside = SetAsideMessages(store, reading, self._publish_again)
        """Messages whose topics cannot be read."""
        self._asks_store = isinstance(publisher, Spool) or any(
            each is not None
            for each in (checks.registered, checks.note, checks.prove, checks.signed)
        )
        self.accepted = 0
        """Notifications that the messaging system, or the spool, holds durably."""
        self.sizes = Histogram(OCTETS)
        """Octets of their payloads."""
        self.commits = Histogram(LATENCY_BOUNDS)
        """Seconds from reading a request to publish until what it brought was durable."""
        self.repeated = 0
        """Notifications that other gateways sent once more, and that were not accepted again."""

    def handlers(self) -> Handlers:
        return {
            Publish: self.publish,
            DescribeEvents: self.describe_events,
            GetCurrentMessage: self.current_message,
            Identify: self.identify,
            DescribeDevice: self.describe_device,
        }

    def metrics(self) -> Iterator[Sample]:
        """Events that were taken in."""
        yield counter("accepted", "Notifications accepted from publishers.", self.accepted)
        text = "Bytes of notifications accepted from publishers, with their attachments."
        yield histogram("accepted_bytes", text, self.sizes)
        text = "Seconds from reading a request to publish until its notifications were durable."
        yield histogram("commit_seconds", text, self.commits)

    # Publishing.

    async def publish(
        self,
        request: Publish,
        incoming: Incoming,
        inbound: Inbound,
        select: Select | None = None,
    ) -> Published | Acknowledged | None:
        """Publish notifications, or what *select* makes of them; they are durable on return. Only
        some specifications answer it."""
        publishing = self._publish(request, incoming, inbound, select)
        asks_store = self._asks_store or request.set_aside
        return await (answered_in_time(publishing) if asks_store else publishing)

    async def _publish_again(self, notifications: tuple[Notification, ...]) -> None:
        """Publish what had been set aside, where it may be published now.

        Raises:
            Refused: It may not.
        """
        _refuse_topics_of_tenants(notifications)
        await self._check_topics(Publish(notifications))
        await self._check_signed(notifications, OPERATOR)
        await self.accept(notifications, notifications[0].source)

    async def _publish(
        self, request: Publish, incoming: Incoming, inbound: Inbound, select: Select | None
    ) -> Published | Acknowledged | None:
        await self._check_topics(request)
        answer = await self.take_in(request, incoming, inbound, select)
        if self._note is not None:
            await self._note(incoming, inbound)
        return answer

    async def _check_topics(self, request: Publish) -> None:
        if any(is_system_topic(one.topic) for one in request.notifications):
            text = f"Topics of {DRAGOMAN_SYSTEM} are for events of the gateway itself."
            raise Refused(Reason.NOT_ALLOWED, text)
        if self._check is not None:
            await self._check(request.notifications)
        self._topics.namespaces.check(each.topic or DEFAULT_TOPIC for each in request.notifications)

    async def admit(
        self, request: Publish, incoming: Incoming, inbound: Inbound
    ) -> tuple[Notification, ...]:
        """Check notifications that are to be published later, by `accept`: what may be refused is
        refused now, what cannot be read is set aside. They keep their ids, for which their
        publisher's right is proved."""
        await self._check_topics(request)
        notifications, aside, _ = self._admitted(request, inbound)
        if refusals := self._publisher.refusals_of(notifications):
            raise PublicationRefused(refusals)
        await self._check_signed(notifications, inbound.principal)
        notifications = await self._proved(request, notifications, incoming, inbound)
        if aside:
            await self.set_aside.keep(aside, inbound.principal)
        return _of_tenant(notifications, inbound.principal.tenant)

    async def _proved(
        self,
        request: Publish,
        notifications: tuple[Notification, ...],
        incoming: Incoming,
        inbound: Inbound,
    ) -> tuple[Notification, ...]:
        """What became of the notifications of *request*, with the seals of those on protected
        topics."""
        if self._prove is None:
            return notifications
        named = replace(request, notifications=notifications)
        return (await self._prove(named, incoming, inbound)).notifications

    async def _check_signed(
        self, notifications: Sequence[Notification], publisher: Principal
    ) -> None:
        """Refuse what must be signed, and is not so that it counts."""
        if self._signed is not None:
            await self._signed(notifications, publisher.tenant, publisher.owner)

    def _admitted(
        self, request: Publish, inbound: Inbound
    ) -> tuple[tuple[Notification, ...], tuple[SetAside, ...], int]:
        """Count and check the notifications of *request*, and what is set aside; and how many
        gateways they passed."""
        principal, notifications = inbound.principal, request.notifications
        kept = tuple([one.notification for one in request.set_aside])
        if principal.tenant and kept:  # Operators publish what is set aside, in no tenant.
            raise Refused(Reason.TOPIC_INVALID, request.set_aside[0].why)
        _refuse_topics_of_tenants(notifications)
        self._intake.admit_events(principal, len(notifications) + len(kept))
        self._intake.admit_bytes(principal, sum(each.octets for each in (*notifications, *kept)))
        hops = 0
        if inbound.hops is not None:
            hops, via = read_hops(inbound.hops), read_via(inbound.via)
            origin, count = inbound.origin, len(notifications)
            origins = (read_origin(origin),) * count
            if origin and "," in origin and not kept:
                origins = read_origins(origin, count) or origins
            notifications = _with_hops(notifications, hops, origins, via)
            kept = _with_hops(kept, hops, (read_origin(origin),) * len(kept), via)
        for notification in (*notifications, *kept):
            if has_references(notification):
                check_references(notification)  # On acceptance, not when the broker is to carry it.
        aside = tuple(
            [
                replace(one, notification=each)
                for one, each in zip(request.set_aside, kept, strict=True)
            ]
        )
        return notifications, aside, hops

    async def take_in(
        self,
        request: Publish,
        incoming: Incoming,
        inbound: Inbound,
        select: Select | None = None,
    ) -> Published | Acknowledged | None:
        """Publish what the gateway itself asked for: as `publish`, without asking whether somebody
        registered."""
        notifications, aside, hops = self._admitted(request, inbound)
        if aside and select is not None:  # Redriven, it would be for others than those at it.
            raise Refused(Reason.TOPIC_INVALID, aside[0].why)
        if select is not None:
            notifications = await select(notifications)
        if not hops:
            await self._check_signed(notifications, inbound.principal)
        # A seal is for what is published: what a channel makes of it.
        notifications = await self._proved(request, notifications, incoming, inbound)
        notifications = _of_tenant(notifications, inbound.principal.tenant)
        if notifications:  # Else it is a heartbeat, or nothing is selected.
            dialect = DIALECTS[incoming.context.version]
            await self._accept_traced(notifications, inbound, hops, dialect)
            self.commits.observe(max(0.0, time() - notifications[0].time.timestamp()))
            if self._recent is not None:
                self._recent.came(notifications, _arrival_of(inbound))
        if aside:
            await self.set_aside.keep(aside, inbound.principal)
        if request.acknowledged:
            return Acknowledged()
        if request.answered:
            return Published(request.first_id)
        return None

    async def _accept_traced(
        self, notifications: Sequence[Notification], inbound: Inbound, hops: int, dialect: str
    ) -> None:
        """As `_accept_once`, with the spans of *notifications* around it, where they are told."""
        if self._spans is None:
            await self._accept_once(notifications, inbound, hops, dialect)
            return
        carried, spans = self._spans.receive(notifications, inbound.headers, dialect)
        try:
            await self._accept_once(carried, inbound, hops, dialect)
        except BaseException as error:
            self._spans.received(spans, error)
            raise
        self._spans.received(spans)

    async def _accept_once(
        self, notifications: Sequence[Notification], inbound: Inbound, hops: int, dialect: str
    ) -> None:
        """Accept *notifications*, but for those that another gateway sent once more."""

        async def accept(new: Sequence[Notification]) -> None:
            source, kept = inbound.principal.source, inbound.asked
            # Here, for a copy of what came before is none that somebody repeats.
            if hops and self._signed is not None:
                own = [replace(one, topic=_own_topic(one.topic)) for one in new]
                await self._signed(own, inbound.principal.tenant, inbound.principal.owner)
            await self.accept(new, source, kept=kept, dialect=dialect, sender=inbound.principal)

        copies = _by_origin(notifications) if hops else {}
        if not copies:
            await accept(notifications)
            return
        taken = await self._origins.accept_once(
            copies,
            _sender(inbound, notifications),
            accept,
            was_here=lambda some: self._were_here(some, hops),
        )
        self.repeated += len(notifications) - taken

    def _were_here(self, notifications: Sequence[Notification], hops: int) -> bool:
        """Whether what has passed this gateway was at the channel that *notifications* are for: the
        addresses that they passed say it. Where there are fewer of these than gateways, some said
        none, and what was here came here, unless a channel with a name is meant."""
        properties = notifications[0].properties
        passed = properties.get(VIA_PROPERTY, "").split()
        channel = properties.get(CHANNEL_PROPERTY, "")
        if not passed or channel_address(self._endpoint, channel) in passed:
            return True
        return len(passed) < hops and not channel

    async def accept(
        self,
        notifications: Sequence[Notification],
        by: str = "",
        *,
        kept: bool = False,
        dialect: str = "",
        sender: Principal | None = None,
    ) -> None:
        """Publish what was admitted from *by*, who speaks *dialect*; it is durable on return. With
        *kept* nobody waits for the answer: what the messaging system refuses is set aside. The
        audit log has the *sender*.

        Raises:
            PublicationRefused: The messaging system will never take some; the others are durable.
        """
        try:
            await self._publisher.publish(notifications, kept=kept)
        except PublicationRefused as refused:
            self._note_accepted(refused.taken(notifications), by, dialect, sender)
            raise
        self._note_accepted(notifications, by, dialect, sender)

    def _note_accepted(
        self,
        notifications: Sequence[Notification],
        by: str,
        dialect: str,
        sender: Principal | None,
    ) -> None:
        if self._audit.documents:
            who, address = (by, "") if sender is None else (sender.owner or by, sender.address)
            for notification in notifications:
                self._audit.note_documents(who, address, PUBLISHED, notification)
        self.accepted += len(notifications)
        now = time()
        for notification in notifications:
            self.sizes.observe(notification.octets)
            self._traces.accepted(notification, by, now, dialect)
            if self._taps.watchers:
                self._taps.accepted(notification, by, now)
            if self._recent is not None:
                self._recent.accepted(notification, by, now)
            topic = str(notification.topic or "")
            _log.debug("event.accepted", message=notification.id, topic=topic, by=by)
        # A channel's are not for those who ask for current messages elsewhere.
        self._topics.see([one for one in notifications if CHANNEL_PROPERTY not in one.properties])
        if self._copies is not None:
            self._copies.offer(notifications)

    # Topics and the producer.

    async def describe_events(
        self, _request: DescribeEvents, _incoming: Incoming, inbound: Inbound
    ) -> Events:
        self._looks.take(inbound.principal)
        known, principal = self._topics.known(inbound.principal.tenant), inbound.principal
        if sees_all_topics(principal):
            return self._events(known)
        return self._events(
            await asyncio.to_thread(lambda: list(filter(partial(sees_topic, principal), known)))
        )

    async def describe_device(
        self, request: DescribeDevice, _incoming: Incoming, inbound: Inbound
    ) -> Device:
        serial = str(uuid5(NAMESPACE_URL, inbound.base))
        now = datetime.now(UTC)
        return Device(request, release(), serial, inbound.base, now, self._events(()))

    async def identify(
        self, _request: Identify, _incoming: Incoming, _inbound: Inbound
    ) -> Identified:
        return Identified(release())

    async def current_message(
        self, request: GetCurrentMessage, incoming: Incoming, inbound: Inbound
    ) -> CurrentMessage:
        self._looks.take(inbound.principal)
        self._topics.namespaces.check((request.topic,))
        if self._prove_reader is not None:
            await self._prove_reader(request.topic, incoming, inbound)
        notification = self._topics.current(request.topic, inbound.principal.tenant)
        if notification is None:
            raise Refused(Reason.NO_CURRENT_MESSAGE, "There is no current message on the topic.")
        return CurrentMessage(notification)

    def _events(self, topics: Sequence[Topic]) -> Events:
        return Events(
            tuple(topics),
            tuple(topic_dialects()),
            self._mailboxes_each,
            self._longest_lease,
            self._topics.namespaces.fixed,
        )


def _refuse_topics_of_tenants(notifications: Sequence[Notification]) -> None:
    """Refuse topics as the messaging system knows them: a tenant's publisher names its own.

    Raises:
        Refused: ``TOPIC_INVALID``.
    """
    if any(tenant_of_topic(each.topic) for each in notifications):
        raise Refused(Reason.TOPIC_INVALID, "The namespace of the topic is not for publishers.")


def _of_tenant(notifications: tuple[Notification, ...], tenant: str) -> tuple[Notification, ...]:
    """*notifications* with their topics as the messaging system knows those of *tenant*."""
    if not tenant:
        return notifications
    return tuple(replace(each, topic=topic_in(tenant, each.topic)) for each in notifications)


def _own_topic(topic: Topic | None) -> Topic | None:
    """The topic as its tenant knows it."""
    return None if topic is None else topic_without_tenant(topic)


def _sender(inbound: Inbound, notifications: Sequence[Notification]) -> str:
    """Who sent *notifications*, and to which channel: what is sent to two channels is two."""
    channel = notifications[0].properties.get(CHANNEL_PROPERTY)
    sender = inbound.principal.source
    return sender if channel is None else f"{sender}#{channel}"


def _with_hops(
    notifications: tuple[Notification, ...], hops: int, origins: Sequence[str], via: str
) -> tuple[Notification, ...]:
    """*notifications* with the number of gateways that they passed, which events they copy, and the
    addresses that they passed, unless the message itself says these."""
    if not hops:
        return notifications
    said = {VIA_PROPERTY: via} if via else {}
    told = {HOPS_PROPERTY: str(hops)}
    return tuple(
        replace(
            notification,
            properties={
                **said,
                **notification.properties,
                **told,
                **({ORIGIN_PROPERTY: origin} if origin else {}),
            },
        )
        for notification, origin in zip(notifications, origins, strict=True)
    )


def _by_origin(notifications: Sequence[Notification]) -> dict[str, list[Notification]]:
    """*notifications* by the events that they copy; empty where one does not say which."""
    copies: dict[str, list[Notification]] = {}
    for one in notifications:
        copies.setdefault(one.properties.get(ORIGIN_PROPERTY, ""), []).append(one)
    return {} if "" in copies else copies


def _arrival_of(inbound: Inbound) -> Arrival:
    return Arrival(inbound.path, inbound.headers, inbound.octets, len(inbound.attachments))
