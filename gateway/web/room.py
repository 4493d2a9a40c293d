"""The rooms of the web: CloudEvents and mailboxes over HTTP, and the JSON administration."""

from collections.abc import Iterable

from gateway.channels.room import ChannelRoom, RelayRoom
from gateway.delivery.room import DeliveryRoom
from gateway.http import HttpLimits
from gateway.identities.stored import StoredIdentities
from gateway.mailboxes.room import MailboxRoom
from gateway.observing.rates import Rates
from gateway.parsing import Parsing
from gateway.publishing.room import PublishingRoom
from gateway.rooms import Room, Work
from gateway.routes import BoundRouter, Routes
from gateway.security.intake import Intake
from gateway.security.quotas import PrincipalRate
from gateway.security.rights import Right
from gateway.sequences.room import SequenceRoom
from gateway.soap.service import SoapService
from gateway.sources.room import SourceRoom
from gateway.store.owner_bytes import OwnerBytes
from gateway.store.tenant_backlogs import TenantBacklogs
from gateway.subscriptions.creation import SUBSCRIBES, SUBSCRIBES_AT_ONCE
from gateway.subscriptions.explaining import Explainer
from gateway.subscriptions.room import DeadLetterRoom, ReplayRoom, SubscriptionRoom
from gateway.web import api, mailboxes, xregistry
from gateway.web.api import channels as channel_routes
from gateway.web.api import dead_letters as dead_letter_routes
from gateway.web.api import destinations, links, messages, spool, tap
from gateway.web.api import mailboxes as mailbox_routes
from gateway.web.api import overview as overview_routes
from gateway.web.api import recipients as recipient_routes
from gateway.web.api import relays as relay_routes
from gateway.web.api import sequences as sequence_routes
from gateway.web.api import sources as source_routes
from gateway.web.api import subscriptions as subscription_routes
from gateway.web.api import tenants as tenant_routes
from gateway.web.api import topics as topic_routes
from gateway.web.api import topology as topology_routes
from gateway.web.catalogue import TopicCatalogue
from gateway.web.dependencies import MASK, Asking
from gateway.web.destinations import Destinations
from gateway.web.events import EventEndpoint, consents, event_routes
from gateway.web.events import subscriptions as event_subscriptions
from gateway.web.identities import IDENTITIES
from gateway.web.kept_messages import KeptMessages
from gateway.web.mailbox_streams import Streams
from gateway.web.overview import Overviews
from gateway.web.recipients import Recipients
from gateway.web.schemas import schema_routes
from gateway.web.shared_failures import SharedFailures
from gateway.web.shared_rates import SharedRates
from gateway.web.tenant_overviews import TenantOverviews
from gateway.web.topology import Topologies
from gateway.web.waiting_messages import WaitingMessages
from mediation.grid_events import DeclaredTypes


class EventRoom(Room):
    """CloudEvents over HTTP: events in, subscriptions, consents."""

    def __init__(
        self,
        asking: Asking,
        service: SoapService,
        parsing: Parsing,
        intake: Intake,
        subscriptions: SubscriptionRoom,
        limits: HttpLimits,
        event_types: DeclaredTypes,
    ) -> None:
        self._web_hooks = subscriptions.web_hooks
        self._event_types = event_types
        self._endpoint = EventEndpoint(
            service,
            parsing,
            limits=limits,
            settings=asking.http,
            identification=asking.identification,
            admit_body=intake.check_body,
        )
        self._parts = event_subscriptions.EventSubscriptionParts(
            asking, service, subscriptions.table, subscriptions.replication
        )

    def public_routes(self) -> Routes:
        yield from event_routes(self._endpoint)
        yield from schema_routes(self._event_types)
        yield BoundRouter(
            event_subscriptions.router,
            event_subscriptions.PARTS.of(self._parts),
            Right.SUBSCRIBE,
            tenants=True,
        )
        yield BoundRouter(consents.router, consents.WEB_HOOKS.of(self._web_hooks), None)


class JsonMailboxRoom(Room):
    """Mailboxes for programs that speak no SOAP."""

    def __init__(
        self,
        asking: Asking,
        service: SoapService,
        parsing: Parsing,
        room: MailboxRoom,
        subscriptions: SubscriptionRoom,
        replica: str,
    ) -> None:
        self._parts = mailboxes.MailboxParts(
            asking=asking,
            mailboxes=room.mailboxes,
            removal=room.removal,
            table=subscriptions.table,
            renewal=subscriptions.renewal,
            replication=subscriptions.replication,
            feeds=subscriptions.feeds,
            parsing=parsing,
            service=service,
            streams=Streams(
                room.mailboxes,
                parsing,
                replica=replica,
                draining=asking.draining,
                visited=subscriptions.feeds.keep_alive_by_reading,
            ),
            making=PrincipalRate(SUBSCRIBES, SUBSCRIBES_AT_ONCE, "Too many mailboxes."),
        )

    def public_routes(self) -> Routes:
        given = mailboxes.PARTS.of(self._parts)
        return (BoundRouter(mailboxes.router, given, Right.SUBSCRIBE, tenants=True),)


class AdministrationRoom(Room):
    """The JSON administration, and the topics as a registry.

    Args:
        base: The gateway's public URL, for those who may ask at another listener than the public
            one.
    """

    def __init__(
        self,
        asking: Asking,
        service: SoapService,
        subscriptions: SubscriptionRoom,
        boxes: MailboxRoom,
        sources: SourceRoom,
        channels: ChannelRoom,
        relays: RelayRoom,
        sequences: SequenceRoom | None,
        dead_letters: DeadLetterRoom,
        replays: ReplayRoom,
        publishing: PublishingRoom,
        delivery: DeliveryRoom,
        topics: TopicCatalogue,
        explainer: Explainer,
        overviews: Overviews,
        tenant_overviews: TenantOverviews,
        topologies: Topologies,
        rates: Rates,
        shared_rates: SharedRates,
        shared_failures: SharedFailures,
        kept: KeptMessages,
        recipients: Recipients,
        waiting: WaitingMessages,
        owner_bytes: OwnerBytes,
        tenant_backlogs: TenantBacklogs,
        hosts: Destinations,
        identities: StoredIdentities | None,
        *,
        base: str,
    ) -> None:
        table, lifecycle = subscriptions.table, subscriptions.lifecycle
        management = subscriptions.management
        self._registry = xregistry.PARTS.of(xregistry.RegistryParts(base, topics))
        self.rates, self._shared_rates = rates, shared_rates
        self._shared_failures = shared_failures
        self._given = {
            **MASK.of(recipients.mask),
            **overview_routes.OVERVIEWS.of(overviews),
            **topology_routes.TOPOLOGIES.of(topologies),
            **subscription_routes.PARTS.of(
                subscription_routes.SubscriptionParts(
                    base,
                    asking,
                    service,
                    table,
                    lifecycle,
                    subscriptions.reports,
                    management,
                    explainer,
                    delivery.dispatchers.scheduler.attempts,
                    delivery.send_again,
                    kept,
                    recipients,
                    waiting,
                    subscriptions.requests,
                    replays.replays,
                )
            ),
            **mailbox_routes.PARTS.of(mailbox_routes.MailboxParts(boxes.mailboxes, boxes.removal)),
            **tenant_routes.PARTS.of(
                tenant_routes.TenantParts(
                    asking,
                    asking.identification.tenants,
                    table,
                    boxes.mailboxes,
                    owner_bytes,
                    tenant_backlogs,
                    tenant_overviews,
                )
            ),
            **IDENTITIES.of(identities),
            **source_routes.SOURCES.of(sources.sources),
            **channel_routes.PARTS.of(
                channel_routes.ChannelParts(
                    base, channels.channels, channels.links, table, management
                )
            ),
            **links.LINKS.of(channels.links),
            **relay_routes.PARTS.of(relay_routes.RelayParts(base, relays.tokens)),
            **sequence_routes.PARTS.of(
                sequence_routes.SequenceParts(
                    sequences.sequences if sequences else None,
                    subscriptions.sequences,
                    table,
                    lifecycle,
                )
            ),
            **dead_letter_routes.LETTERS.of(dead_letters.letters),
            **spool.SPOOL.of(publishing.spool),
            **destinations.PARTS.of(
                destinations.DestinationParts(asking, hosts, delivery.decisions, table)
            ),
            **tap.PARTS.of(
                tap.TapParts(
                    asking,
                    delivery.dispatchers.scheduler.taps,
                    delivery.dispatchers.scheduler.traces,
                    recipients.mask,
                )
            ),
            **messages.PARTS.of(
                messages.MessageParts(subscriptions.tracing, kept, recipients.mask)
            ),
            **recipient_routes.PARTS.of(recipient_routes.RecipientParts(kept, recipients)),
            **topic_routes.PARTS.of(
                topic_routes.TopicParts(base, topics, delivery.dispatchers.scheduler.traces)
            ),
        }

    def works(self) -> Iterable[Work]:
        return self.rates.run, self._shared_rates.run, self._shared_failures.run

    def administration_routes(self) -> Routes:
        yield BoundRouter(api.router, self._given, Right.OPERATE, reading=Right.READ)
        yield BoundRouter(xregistry.router, self._registry, Right.READ)
