"""The composition root: makes the rooms of a gateway, each whole, and puts them in order.

    _open_storage        the data folder, locked; the store
    _connect_messaging   the adapter, sharing with other gateways, the gateway as a producer
    _prepare_sending     mailboxes, transports, delivery
    _publish             sources, the spool, publishers' requests
    _subscribe           subscriptions, and what matches, delivers and ends them
    _answer              the other requests, and the SOAP service

Each step takes what the former ones made. Nothing runs before `Application.start`, but the first
two steps look into the store and the data folder.
"""

import asyncio
import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from functools import partial

from adapters import XPathFilterAdapter
from filters import Filter, Topic
from gateway.channels.room import ChannelRoom, DirectoryRoom, RelayRoom
from gateway.delivery import WorkSharing
from gateway.delivery.room import DeliveryRoom
from gateway.discovery.node_factory import DiscoveryUnusable
from gateway.discovery.room import DiscoveryRoom, TopicProtection, protect_topics
from gateway.discovery.settings import DiscoverySettings
from gateway.http import ConnectionGate, HttpSettings
from gateway.http.limits import limits_of
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.room import MailboxRoom
from gateway.observing.samples import Sample, gauge
from gateway.parsing import Parsing
from gateway.publishing.archive import Archive
from gateway.publishing.event_copies import Copies, load_copies
from gateway.publishing.operations import PublicationChecks
from gateway.publishing.room import (
    ArchiveRoom,
    CopiesRoom,
    ProducerRoom,
    PublishingRoom,
    topic_reading,
)
from gateway.publishing.spool import Spool
from gateway.replicas.join import join
from gateway.replicas.membership import StoreInUse
from gateway.replicas.room import SharingRoom
from gateway.resources.room import ResourceRoom
from gateway.rooms import Room
from gateway.security.networks import networks
from gateway.sequences.room import SequenceRoom
from gateway.server.application import Application, Serving
from gateway.server.data_folder import DataInUse
from gateway.server.housekeeping import HousekeepingRoom
from gateway.server.messaging import MessagingRoom, open_adapter
from gateway.server.peers import Listening, peers_of
from gateway.server.readiness import Readiness
from gateway.server.state import RunState
from gateway.server.storage import open_storage
from gateway.server.store_counts import Counting, count
from gateway.server.transports import TransportRoom
from gateway.settings.settings import Settings
from gateway.soap.registry import Registry
from gateway.soap.replies import Replies
from gateway.soap.room import SoapRoom, endpoint_rules, registry_of
from gateway.sources.room import KeeperRoom, SourceRoom
from gateway.subscriptions.matching import Inside
from gateway.subscriptions.room import (
    DeadLetterRoom,
    EndingRoom,
    MatchingRoom,
    SubscriptionRoom,
)
from gateway.subscriptions.table import SubscriptionTable
from gateway.tcp import SoapTcpConnection
from gateway.web.app import Site
from gateway.web.catalogue import TopicCatalogue
from gateway.web.dependencies import Asking
from gateway.web.metrics import Metrics
from gateway.web.room import AdministrationRoom, EventRoom, JsonMailboxRoom
from mediation.packaging.dime import DimeMessage


async def build(settings: Settings, listening: Listening) -> Application:
    """Make a gateway, which is to be started.

    Raises:
        DataInUse: Another process has the data folder, or the store.
        Refused: Something cannot be opened; the text says what.
    """
    async with contextlib.AsyncExitStack() as undo:
        composition = _Composition(settings, listening)
        await composition.make(undo)
        undo.pop_all()  # From now on it is the application that closes them.
    rooms = composition.rooms()
    return Application(settings, listening, composition.state, rooms, composition.serving(rooms))


class _Composition:
    """The rooms, in the order in which they are made."""

    def __init__(self, settings: Settings, listening: Listening) -> None:
        self.settings = settings
        self.listening = listening
        self.state = RunState()
        self.peers = peers_of(settings, listening)
        self.parsing = Parsing()
        self.table = SubscriptionTable()
        self.limits = limits_of(settings.documents)
        http = HttpSettings(
            settings.public_url,
            frozenset(name.lower() for name in settings.hosts),
            networks(settings.trusted_proxies),
            settings.messenger_prefixes,
            (settings.client_certificate_header or "").lower(),
        )
        self.asking = Asking(http, self.peers.identification, self.state.is_draining)

    async def make(self, undo: contextlib.AsyncExitStack) -> None:
        """Make all rooms; what is opened *undo* closes."""
        await self._open_storage(undo)
        await self._connect_messaging()
        self._prepare_sending()
        await self._publish()
        self._subscribe()
        self._answer()

    def rooms(self) -> list[Room]:
        """The rooms in the order in which they start; they are closed in the reverse order. An
        optional room is among them where the settings want it."""
        return [
            *self._below_soap(),
            self.events,
            self.json_mailboxes,
            self.administration,
            self.soap,
        ]

    def _below_soap(self) -> Iterator[Room]:
        rooms: tuple[Room | None, ...] = (
            self.storage,
            self.transports,
            self.archive,
            self.copies,
            self.mailboxes,
            self.delivery,
            self.producer,
            self.publishing,
            self.sources,
            self.channels,
            self.relays,
            self.directory,
            self.subscriptions,
            self.dead_letters,
            self.discovery,
            self.messaging,  # From now on it yields messages to those who subscribed before.
            self.sequences,
            self.keeper,
            self.resources,
            self.matching,
            self.ending,
            self.housekeeping,
            self.sharing_room,
        )
        return (room for room in rooms if room is not None)

    async def _open_storage(self, undo: contextlib.AsyncExitStack) -> None:
        trusts = self.peers.identification.trusts_owner
        self.storage = await open_storage(self.settings, self.listening, trusts, undo)
        self.store = self.storage.store

    async def _connect_messaging(self) -> None:
        settings = self.settings
        adapter = open_adapter(settings)
        self.capabilities = adapter.capabilities
        try:
            self.sharing: WorkSharing = await join(self.store, self.capabilities, settings.data)
        except StoreInUse as in_use:
            raise DataInUse(in_use.reason, in_use.text) from in_use
        self.protection = await self._protect_topics()
        self.archive = ArchiveRoom(Archive(settings.archive)) if settings.archive else None
        self.copies = (
            CopiesRoom(Copies(load_copies(settings.amqp_copies), self.store))
            if settings.amqp_copies
            else None
        )
        protection = self.protection
        self.producer = ProducerRoom(
            settings,
            self.parsing,
            sequences=endpoint_rules(settings)("/soap").sequences,
            hides=protection.topics.hides if protection else lambda _: False,
        )
        self.rights = protection.rights if protection else None
        self.filtering = XPathFilterAdapter(
            adapter,
            settled=self.archive.archive.offer if self.archive else None,
            refresh=self.sharing.refresh,
            share_of=self._share_of,
            once=self.rights.once if self.rights else None,
            producer=self.producer.documents.of,
        )
        self.messaging = MessagingRoom(self.filtering, self._filters)

    async def _protect_topics(self) -> TopicProtection | None:
        if not self.settings.discovery_node:
            return None
        return await protect_topics(
            _node_settings(self.settings),
            self.store,
            trusts=self.peers.identification.trusts_owner,
            addresses=self.peers.bases,
            named=self.settings.public_url is not None,
            shared=self.sharing.shared,
        )

    def _share_of(self, key: str) -> str | None:
        """The owner whose share of time a filter uses: a stranger has one share for all filters."""
        owner = self.table.owner(key)
        trusted = owner is None or self.peers.identification.trusts_owner(owner)
        return None if trusted else owner

    def _filters(self) -> Mapping[str, Filter]:
        """The filters with which the messaging system starts."""
        node = self.discovery.filters if self.discovery else {}
        return {**self.subscriptions.filters(), **node}

    def _prepare_sending(self) -> None:
        settings, peers = self.settings, self.peers
        trusts, owner_bytes = peers.identification.trusts_owner, self.storage.owner_bytes
        self.boxes = Mailboxes(
            self.store,
            settings.mailbox_quotas,
            shared=self.sharing.shared,
            trusts=trusts,
            owner_bytes=owner_bytes,
        )
        self.transports = TransportRoom(settings, peers, self.boxes, self.parsing, self._respond)
        self.delivery = DeliveryRoom(
            settings,
            self.store,
            self.transports.by_scheme,
            self.parsing,
            self.sharing,
            owner_bytes,
            options=self.transports.options,
            producer=peers.producer,
            trusts=trusts,
            entries=lambda: self.table.entries,
        )

    async def _respond(
        self, connection: SoapTcpConnection, message: DimeMessage, gone: asyncio.Event
    ) -> None:
        """Answer what a consumer sends on a connection that was opened to it."""
        await self.soap.listeners.respond(connection, message, gone)

    async def _publish(self) -> None:
        settings, sharing = self.settings, self.sharing
        spool = Spool(
            self.store,
            self.filtering,
            messages=settings.spool_messages,
            octets=settings.spool_bytes,
            spools=settings.spool,
            shared=sharing.shared,
            drains=lambda: sharing.keeps_house,
        )
        await spool.start()  # An earlier run with a spool may have left some.
        self.sources = SourceRoom(
            settings, self.store, self.peers.policy, sharing, self.producer, base=self.peers.base
        )
        self.reading_topics = topic_reading(settings)
        rights = self.rights
        self.publishing = PublishingRoom(
            settings,
            self.store,
            spool,
            self.producer,
            intake=self.storage.intake,
            origins=self.delivery.origins,
            traces=self.delivery.dispatchers.scheduler.traces,
            reading=self.reading_topics,
            checks=PublicationChecks(
                registered=self.sources.check,
                note=self.sources.note,
                prove=rights.prove_publisher if rights else None,
                prove_reader=rights.prove_reader if rights else None,
            ),
            copies=self.copies.copies if self.copies else None,
            endpoint=self.peers.producer,
            mailboxes_each=self.boxes.most,
        )

    def _subscribe(self) -> None:
        peers, store, sharing = self.peers, self.store, self.sharing
        self.subscriptions = SubscriptionRoom(
            self.settings,
            store,
            self.table,
            self.filtering,
            sharing,
            self.boxes,
            self.transports.by_scheme,
            self.transports.schemes,
            self.delivery,
            self.producer,
            self.storage.owner_bytes,
            base=peers.base,
            address=peers.producer,
            durable=self.capabilities.durable,
            trusts=peers.identification.trusts_owner,
            rights=self.rights,
        )
        self.ending = EndingRoom(self.subscriptions)
        self.discovery = self._discovery()
        inside: Mapping[Topic, Inside] = {}
        if self.discovery is not None:
            node = self.discovery.service
            inside = dict.fromkeys(node.node.topics, node)
        self.matching = MatchingRoom(
            self.subscriptions, self.filtering, self.delivery, inside, self.rights
        )
        self.dead_letters = DeadLetterRoom(
            self.settings,
            store,
            self.subscriptions,
            self.boxes,
            sharing,
            self.delivery,
            self.storage.owner_bytes,
            producer=peers.producer,
            publish_again=self.publishing.operations.set_aside.publish_again,
        )
        self.housekeeping = HousekeepingRoom(
            store, self.dead_letters.letters, self.delivery.dispatchers, sharing
        )
        endings = self.subscriptions.endings
        self.sharing_room = SharingRoom(
            sharing,
            self.delivery.dispatchers,
            self.table,
            learn=self.subscriptions.replication.learn,
            make_dispatcher=self.delivery.dispatcher_maker(
                self.capabilities.prefetch,
                give_up=endings.give_up,
                never_agreed=endings.never_agreed,
            ),
            drain=self.settings.drain,
        )

    def _discovery(self) -> DiscoveryRoom | None:
        if self.protection is None:
            return None
        subscribers = self.subscriptions.topic_subscribers(self.protection.topics.id_of)
        return DiscoveryRoom(
            _node_settings(self.settings),
            self.store,
            self.protection,
            self.publishing.spool,
            subscribers,
            shared=self.sharing.shared,
            keeps_house=lambda: self.sharing.keeps_house,
        )

    def _answer(self) -> None:
        settings, store, sharing = self.settings, self.store, self.sharing
        transport, policy = self.transports.by_scheme, self.peers.policy
        publishing, sources = self.publishing.operations, self.sources.sources
        probations = self.delivery.probations
        self.mailboxes = MailboxRoom(
            store,
            self.boxes,
            self.subscriptions.feeds,
            self.parsing,
            self.storage.intake,
            keeps_house=lambda: sharing.keeps_house,
            limits=settings.documents,
        )
        self.channels = ChannelRoom(
            settings,
            store,
            self.parsing,
            sharing,
            sources,
            publishing,
            self.subscriptions.operations,
            self.filtering.evaluate_for,
        )
        self.relays = RelayRoom(settings, store, transport, policy, sharing, self.limits)
        self.directory = None
        if settings.directory is not None:
            links, address = self.channels.links, self.peers.producer
            self.directory = DirectoryRoom(settings.directory, links, address)
        self.keeper = KeeperRoom(
            settings,
            sources,
            transport,
            policy,
            self.parsing,
            sharing,
            self.delivery,
            publishing,
            self.table,
            at_channel=self.channels.channels.selecting,
            base=self.peers.base,
        )
        self.resources = ResourceRoom(
            self.sources.resources,
            self.mailboxes.resources,
            self.subscriptions.resources,
            producer=self.producer.producer,
            looks=self.producer.looks,
            parsing=self.parsing,
        )
        replies = Replies(
            transport, policy, has_agreed=lambda target: probations.has_agreed(target.destination)
        )
        self.sequences = None
        if settings.takes_sequences:
            self.sequences = SequenceRoom(
                settings,
                store,
                publishing,
                self.storage.owner_bytes,
                may_name=replies.may_name,
                send=replies.send_again,
                shared=sharing.shared,
            )
        self.soap = SoapRoom(
            settings,
            self._registry(),
            self.parsing,
            self.storage.intake,
            self.peers.identification,
            self.mailboxes,
            self.channels,
            self.sequences,
            replies,
            topics=self.reading_topics.rules_for,
            http=self.asking.http,
            limits=self.limits,
            gate=ConnectionGate(self.limits, self.peers.trusted),
            base=self.peers.base,
        )
        self._answer_over_http()

    def _answer_over_http(self) -> None:
        service, subscriptions = self.soap.service, self.subscriptions
        self.events = EventRoom(
            self.asking,
            service,
            self.parsing,
            self.storage.intake,
            subscriptions,
            self.limits,
        )
        self.json_mailboxes = JsonMailboxRoom(
            self.asking,
            service,
            self.parsing,
            self.mailboxes,
            subscriptions,
            self.sharing.replica,
        )
        protected = self.protection.topics if self.protection else None
        self.administration = AdministrationRoom(
            self.asking,
            service,
            subscriptions,
            self.mailboxes,
            self.sources,
            self.channels,
            self.relays,
            self.sequences,
            self.dead_letters,
            self.publishing,
            self.delivery,
            TopicCatalogue(self.store, self.producer.topics, protected),
            subscriptions.explainer(self.settings, self.producer, self.peers.policy, self.sharing),
            base=self.peers.base,
        )

    def _registry(self) -> Registry:
        if self.settings.mailboxes_only:
            handlers = self.mailboxes.handlers()
            return Registry(handlers, otherwise="Only mailboxes are offered here.")
        return registry_of(
            self._below_soap(),
            sources=self.keeper.operations.handlers(),
            sequences=self.subscriptions.acknowledgements.handlers(),
            channels=self.channels.handlers_here(),
        )

    def serving(self, rooms: list[Room]) -> Serving:
        """What listens, for *rooms*."""
        counting = Counting(
            partial(count, self.store, self.delivery.dispatchers, self.publishing.spool),
            subscriptions=self.table.__len__,
        )
        sources = [room.metrics for room in rooms]
        sources.append(partial(_start_samples, time.time()))
        readiness = Readiness(
            self.state,
            self.store,
            self.filtering,
            self.sharing,
            self.table,
            scheme=self.settings.scheme,
        )
        gate, admin_gate = (ConnectionGate(self.limits, self.peers.trusted) for _ in range(2))
        site = Site(rooms, self.asking, readiness, Metrics(sources, counting.metrics))
        return Serving(self.limits, gate, admin_gate, self.soap.listeners, site)


def _node_settings(settings: Settings) -> DiscoverySettings:
    """The settings of the node that *settings* want.

    Raises:
        DiscoveryUnusable: There are none.
    """
    if settings.discovery is None:
        why = "the table is missing, with the key and the certificate of the node"
        raise DiscoveryUnusable("key", why)
    return settings.discovery


def _start_samples(started: float) -> Iterable[Sample]:
    yield gauge("start_time_seconds", "When the gateway started, in POSIX seconds.", started)
