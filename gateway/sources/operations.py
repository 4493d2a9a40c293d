"""Handlers of what producers send to the address of a source: events, and the end of its
subscription."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol
from urllib.parse import urlsplit

from filters import Reason, Refused
from gateway.exchange import Handlers, Inbound
from gateway.model.sources import EndTold
from gateway.publishing.operations import Select
from gateway.security.identify import Identification, producer_of, publishing_as, without_limits
from gateway.security.keys import message_urn
from gateway.security.resource_addresses import addressed
from gateway.security.rights import Right
from gateway.sources.held_leases import LONGEST_ERROR
from gateway.sources.sources import Entry, Sources, SourceUnknown
from gateway.sources.topics import default_topic
from mediation.client import ending_in
from mediation.eventing.management import PulledEvent
from mediation.model.messages import Notification
from mediation.model.requests import (
    Acknowledged,
    Context,
    EndOfSubscription,
    Incoming,
    Publish,
    Published,
)
from mediation.profiles import PRODUCERS

Publishing = Callable[
    [Publish, Incoming, Inbound, Select | None], Awaitable[Published | Acknowledged | None]
]


class AtChannel(Protocol):
    """What makes of events those that are published at the channel of a name."""

    async def __call__(self, name: str, *, stranger: str | None) -> Select: ...


class SourceOperations:
    """Takes in what producers send; it is durable when they are answered.

    Args:
        publish: Publishes, as for any publisher: what comes from sources of registrations.
        take_in: The same, on whatever topic: what an operator asked for.
        at_channel: What selects for channels, of sources that are their links; None: none is.
        identification: Says what who registered a publisher may publish now; None: all of it.
        base: The gateway's URL, without a slash at its end.
    """

    def __init__(
        self,
        sources: Sources,
        publish: Publishing,
        take_in: Publishing,
        at_channel: AtChannel | None = None,
        *,
        identification: Identification | None = None,
        base: str = "",
    ) -> None:
        self._identification = identification
        self._base = base
        self._at_channel = at_channel
        self._sources = sources
        self._publish = publish
        self._take_in = take_in

    def handlers(self) -> Handlers:
        """Of messages to `ResourceKind.SOURCE`."""
        return {Publish: self.take_in, EndOfSubscription: self.end}

    async def take_in(
        self, request: Publish, incoming: Incoming, inbound: Inbound
    ) -> Published | Acknowledged | None:
        """Publish what came. Ids are scoped by the source, so that an event that comes by two
        subscriptions of it, one after the other, is one."""
        entry, key = await self._named(incoming, inbound)
        events, endings = [], []
        for notification in request.notifications:
            why = ending_in(notification)
            if why is None:
                events.append(notification)
            else:
                endings.append(EndTold(key, why))
        answer: Published | Acknowledged | None = Acknowledged() if request.acknowledged else None
        if events or request.set_aside:
            answer = await self._publish_from(entry, request, events, incoming, inbound)
        else:
            self._sources.count_events(entry, 0)  # A heartbeat.
        managed = incoming.context.managed
        mark = managed.bookmark if managed is not None else None
        if mark is not None and PRODUCERS[entry.source.profile].management:
            await self._sources.bookmarks.keep(entry.source, mark)
        # Behind the events: a key that has ended may be unknown when they come again.
        for told in endings:
            await self._sources.end(entry, told)
        return answer

    async def take_pulled(self, entry: Entry, pulled: Sequence[PulledEvent]) -> None:
        """Publish events that the gateway has pulled, as if they had been sent together; they are
        durable on return. They have all passed the same gateways.

        Raises:
            Refused: They are not published.
        """
        source, now = entry.source, datetime.now(UTC)
        events = [
            Notification(
                event.id or message_urn(),
                "",
                event.payload,
                now,
                event.topic,
                event.action,
                expires=event.expires,
                properties=event.properties,
            )
            for event in pulled
        ]
        request = Publish(tuple(events))
        address = urlsplit(source.url).hostname or ""
        inbound = Inbound(
            octets=b"",
            principal=producer_of(address, source.owner),
            base=self._base,
            hops=pulled[0].hops,
            origin=pulled[0].origin,
            via=pulled[0].via,
            asked=True,
        )
        incoming = Incoming(Context(source.spec.soap), request)
        await self._publish_from(entry, request, events, incoming, inbound)

    async def _publish_from(
        self,
        entry: Entry,
        request: Publish,
        events: Sequence[Notification],
        incoming: Incoming,
        inbound: Inbound,
    ) -> Published | Acknowledged | None:
        """Publish *events* as those of the source; they are durable on return."""
        source, topic = entry.source, default_topic(entry.source)
        scope = f"urn:dragoman:source:{source.id}"
        notifications = tuple(
            replace(event, source=scope, topic=event.topic or topic) for event in events
        )
        aside = tuple(
            replace(one, notification=replace(one.notification, source=scope))
            for one in request.set_aside
        )
        if source.registration is not None:
            self._check_rights(source.owner, notifications)
        principal = publishing_as(inbound.principal, scope)
        if source.registration is None:
            # An operator's word is enough for as many events as there are.
            principal = without_limits(principal)
        publish = self._take_in if source.registration is None else self._publish
        select = None
        if source.channel and self._at_channel is not None:
            select = await self._at_channel(source.channel, stranger=inbound.principal.stranger)
        answer = await publish(
            replace(request, notifications=notifications, set_aside=aside),
            incoming,
            replace(inbound, principal=principal),
            select,
        )
        self._sources.count_events(entry, len(events))
        return answer

    def _check_rights(self, owner: str, events: Sequence[Notification]) -> None:
        """Refuse *events* on topics on which the *owner* of a registration has no right to publish,
        or none any more: its publisher says their topics itself, whatever it registered for.

        Raises:
            Refused: ``NOT_ALLOWED``.
        """
        if self._identification is None:
            return
        grants = self._identification.grants_of(owner)
        for event in events:
            if not grants.allows(Right.PUBLISH, event.topic):
                about = (
                    f"on the topic {event.topic}" if event.topic is not None else "without a topic"
                )
                raise Refused(
                    Reason.NOT_ALLOWED, f"Who registered has no right to publish {about}."
                )

    async def end(self, request: EndOfSubscription, incoming: Incoming, inbound: Inbound) -> None:
        """SubscriptionEnd."""
        entry, key = await self._named(incoming, inbound)
        words = " ".join(filter(None, ("SubscriptionEnd", request.status, request.reason)))
        await self._sources.end(entry, EndTold(key, words[:LONGEST_ERROR]))

    async def _named(self, incoming: Incoming, inbound: Inbound) -> tuple[Entry, str]:
        resource = addressed(inbound.path, incoming.context.headers.to)
        if resource is None or resource.key is None:  # pragma: no cover - the registry saw it
            raise SourceUnknown
        if inbound.principal.tenant:  # Sources are the default tenant's.
            raise SourceUnknown
        return await self._sources.find(resource.key), resource.key
