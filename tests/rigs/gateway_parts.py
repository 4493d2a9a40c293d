"""Parts of a gateway that runs in this process, for tests that look into it."""

from typing import TypeVar

from adapters import XPathFilterAdapter
from gateway.channels.channels import Channels
from gateway.channels.links import Links
from gateway.channels.naming import Naming
from gateway.channels.room import ChannelRoom, DirectoryRoom
from gateway.delivery import Dispatchers, Probations
from gateway.delivery.room import DeliveryRoom
from gateway.discovery.rights import TopicRights
from gateway.discovery.room import DiscoveryRoom
from gateway.discovery.service import DiscoveryService
from gateway.egress import AddressPolicy, TransportByScheme
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.room import MailboxRoom
from gateway.observing.rates import Rates
from gateway.parsing import Parsing
from gateway.publishing.archive import Archive
from gateway.publishing.operations import PublishingOperations
from gateway.publishing.room import ArchiveRoom, ProducerRoom, PublishingRoom
from gateway.publishing.spool import Spool
from gateway.publishing.synchronization import Synchronizing
from gateway.publishing.topics import TopicsSeen
from gateway.rooms import Room
from gateway.security.intake import Intake
from gateway.sequences.room import SequenceRoom
from gateway.sequences.sequences import Sequences
from gateway.server.application import Application
from gateway.server.messaging import MessagingRoom
from gateway.server.storage import StorageRoom
from gateway.server.transports import TransportRoom
from gateway.soap.room import SoapRoom
from gateway.soap.service import SoapService
from gateway.sources.demand import Demand
from gateway.sources.registrations import Registrations
from gateway.sources.room import KeeperRoom, SourceRoom
from gateway.sources.sources import Sources
from gateway.store import Store
from gateway.store.disk_reserve import Reserve
from gateway.subscriptions.creation import SubscriptionCreation
from gateway.subscriptions.dead_letters import DeadLetters
from gateway.subscriptions.filter_budgets import FilterBudgets
from gateway.subscriptions.lifecycle.lifecycle import Lifecycle
from gateway.subscriptions.lifecycle.renewal import Renewal
from gateway.subscriptions.lifecycle.subscription_end import SubscriptionEnds
from gateway.subscriptions.management import SubscriptionManagement
from gateway.subscriptions.room import DeadLetterRoom, SubscriptionRoom
from gateway.subscriptions.table import SubscriptionTable
from gateway.web.room import AdministrationRoom

R = TypeVar("R", bound=Room)


class GatewayParts:
    """Parts of the rooms of *application*; those of a room that is not there are None."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.settings = application.settings
        self.serving = application.serving

    @property
    def policy(self) -> AddressPolicy:
        return self._room(TransportRoom).policy

    def _find(self, kind: type[R]) -> R | None:
        return next((room for room in self.application.rooms if isinstance(room, kind)), None)

    def _room(self, kind: type[R]) -> R:
        found = self._find(kind)
        assert found is not None, kind
        return found

    @property
    def store(self) -> Store:
        return self._room(StorageRoom).store

    @property
    def reserve(self) -> Reserve:
        return self._room(StorageRoom).reserve

    @property
    def adapter(self) -> XPathFilterAdapter:
        return self._room(MessagingRoom).adapter

    @property
    def mailboxes(self) -> Mailboxes:
        return self._room(MailboxRoom).mailboxes

    @property
    def transport(self) -> TransportByScheme:
        return self._room(TransportRoom).by_scheme

    @property
    def dispatchers(self) -> Dispatchers:
        return self._room(DeliveryRoom).dispatchers

    @property
    def probations(self) -> Probations:
        return self._room(DeliveryRoom).probations

    @property
    def spool(self) -> Spool:
        return self._room(PublishingRoom).spool

    @property
    def publishing(self) -> PublishingOperations:
        return self._room(PublishingRoom).operations

    @property
    def sources(self) -> Sources:
        return self._room(SourceRoom).sources

    @property
    def registrations(self) -> Registrations:
        return self._room(SourceRoom).registrations

    @property
    def demand(self) -> Demand:
        return self._room(KeeperRoom).demand

    @property
    def channels(self) -> Channels:
        return self._room(ChannelRoom).channels

    @property
    def links(self) -> Links:
        return self._room(ChannelRoom).links

    @property
    def subscriptions(self) -> SubscriptionTable:
        return self._room(SubscriptionRoom).table

    @property
    def lifecycle(self) -> Lifecycle:
        return self._room(SubscriptionRoom).lifecycle

    @property
    def renewal(self) -> Renewal:
        return self._room(SubscriptionRoom).renewal

    @property
    def creation(self) -> SubscriptionCreation:
        return self._room(SubscriptionRoom).creation

    @property
    def management(self) -> SubscriptionManagement:
        return self._room(SubscriptionRoom).management

    @property
    def budgets(self) -> FilterBudgets:
        return self._room(SubscriptionRoom).budgets

    @property
    def subscription_ends(self) -> SubscriptionEnds:
        return self._room(SubscriptionRoom).ends

    @property
    def synchronizing(self) -> Synchronizing:
        return self._room(SubscriptionRoom).synchronizing

    @property
    def dead_letters(self) -> DeadLetters:
        return self._room(DeadLetterRoom).letters

    @property
    def soap(self) -> SoapService:
        return self._room(SoapRoom).service

    @property
    def intake(self) -> Intake:
        return self._room(StorageRoom).intake

    @property
    def topics(self) -> TopicsSeen:
        return self._room(ProducerRoom).topics

    @property
    def parsing(self) -> Parsing:
        return self._room(TransportRoom).parsing

    @property
    def discovery(self) -> DiscoveryService | None:
        room = self._find(DiscoveryRoom)
        return None if room is None else room.service

    @property
    def rights(self) -> TopicRights | None:
        room = self._find(DiscoveryRoom)
        return None if room is None else room.rights

    @property
    def sequences(self) -> Sequences | None:
        room = self._find(SequenceRoom)
        return None if room is None else room.sequences

    @property
    def rates(self) -> Rates:
        return self._room(AdministrationRoom).rates

    @property
    def archive(self) -> Archive | None:
        room = self._find(ArchiveRoom)
        return None if room is None else room.archive

    @property
    def naming(self) -> Naming | None:
        room = self._find(DirectoryRoom)
        return None if room is None else room.naming
