"""The parts of a gateway, in the groups in which `composition` makes them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from adapters import Capabilities, XPathFilterAdapter
from gateway.channels.channels import Channels
from gateway.channels.links import Links
from gateway.channels.naming import Naming
from gateway.delivery import (
    Dispatcher,
    Dispatchers,
    PartitionShare,
    Probations,
    Schedule,
    WorkSharing,
)
from gateway.discovery.rights import TopicRights
from gateway.discovery.service import DiscoveryService
from gateway.egress import AddressPolicy, TransportByScheme
from gateway.egress.origins import Origins
from gateway.egress.plugins import GuardedTransport
from gateway.egress.soap_tcp_transport import SoapTcpTransport
from gateway.http import ConnectionGate, HttpLimits
from gateway.mailboxes.deposits import Deposits
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.removal import MailboxRemoval
from gateway.parsing import Parsing
from gateway.publishing.archive import Archive
from gateway.publishing.event_copies import Copies
from gateway.publishing.operations import PublishingOperations
from gateway.publishing.producer_documents import ProducerDocuments
from gateway.publishing.spool import Spool
from gateway.publishing.synchronization import Synchronizing
from gateway.publishing.topics import TopicsSeen
from gateway.security.identify import Identification
from gateway.security.intake import Intake
from gateway.security.networks import Networks
from gateway.sequences.sequences import Sequences
from gateway.server.data_folder import FolderLock
from gateway.server.listeners import SoapTcpListeners
from gateway.soap.service import SoapService
from gateway.sources.demand import Demand
from gateway.sources.keeper import Keeper
from gateway.sources.registrations import Registrations
from gateway.sources.sources import Sources
from gateway.sources.windows import WindowsOperations
from gateway.store import Store
from gateway.store.disk_reserve import Reserve
from gateway.store.owner_bytes import OwnerBytes
from gateway.subscriptions.consumers import Consumers
from gateway.subscriptions.creation import SubscriptionCreation
from gateway.subscriptions.dead_letters import DeadLetters
from gateway.subscriptions.endings import Endings
from gateway.subscriptions.filter_budgets import FilterBudgets
from gateway.subscriptions.lifecycle import Lifecycle
from gateway.subscriptions.mailbox_feeds import MailboxFeeds
from gateway.subscriptions.management import SubscriptionManagement
from gateway.subscriptions.matching import Matching
from gateway.subscriptions.naming import NamedSubscriptions
from gateway.subscriptions.renewal import Renewal
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.reports import SubscriptionReports
from gateway.subscriptions.sequences import SubscriberSequences
from gateway.subscriptions.subscription_end import SubscriptionEnds
from gateway.subscriptions.table import SubscriptionTable
from gateway.subscriptions.webhooks import WebHooks
from gateway.web.parts import Web


@dataclass(frozen=True, slots=True)
class Listening:
    """The addresses on which the process listens.

    Attributes:
        own: The host and port.
        admin: Those of the administration's own listener, where it has one.
        tcp_ports: The ports of SOAP.TCP, by scheme.
    """

    own: tuple[str, int]
    admin: tuple[str, int] | None = None
    tcp_ports: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Peers:
    """Trusted networks, and the addresses of the gateway: ``base`` is its URL without a slash at
    the end, ``bases`` are all at which it is reached."""

    trusted: Networks
    identification: Identification
    base: str
    policy: AddressPolicy
    bases: frozenset[str]

    @property
    def producer(self) -> str:
        """The gateway's own address, for events without a producer reference."""
        return f"{self.base}/soap"


@dataclass(frozen=True, slots=True)
class Storage:
    """The data folder and the store, open."""

    folder: FolderLock
    store: Store
    reserve: Reserve


@dataclass(frozen=True, slots=True)
class Messaging:
    """The messaging system, not started. ``spool`` is the way to it."""

    adapter: XPathFilterAdapter
    capabilities: Capabilities
    sharing: WorkSharing
    archive: Archive | None
    copies: Copies | None
    spool: Spool
    table: SubscriptionTable
    discovery: DiscoveryService | None
    rights: TopicRights | None


@dataclass(frozen=True, slots=True)
class Sending:
    """Transports, and what decides about sending."""

    owner_bytes: OwnerBytes
    mailboxes: Mailboxes
    consumers: Consumers
    parsing: Parsing
    origins: Origins
    soap_tcp: SoapTcpTransport
    transport: TransportByScheme
    guarded: tuple[GuardedTransport, ...]
    probations: Probations
    web_hooks: WebHooks
    sequences: SubscriberSequences
    schedule: Schedule
    dispatchers: Dispatchers


@dataclass(frozen=True, slots=True)
class Subscribing:
    """Subscriptions, what ends them, and what they are matched and delivered with."""

    lifecycle: Lifecycle
    renewal: Renewal
    replication: Replication
    creation: SubscriptionCreation
    named: NamedSubscriptions
    feeds: MailboxFeeds
    removal: MailboxRemoval
    reports: SubscriptionReports
    management: SubscriptionManagement
    subscription_ends: SubscriptionEnds
    endings: Endings
    budgets: FilterBudgets
    dead_letters: DeadLetters
    matching: Matching
    make_dispatcher: Callable[[PartitionShare], Dispatcher]


@dataclass(frozen=True, slots=True)
class Holding:
    """The sources, what keeps them, the publishers that registered; our entry in a directory, if
    it has one; the links of channels."""

    sources: Sources
    keeper: Keeper
    registrations: Registrations
    demand: Demand
    naming: Naming | None
    links: Links


@dataclass(frozen=True, slots=True)
class Answering:
    """The SOAP service, and the rooms behind it."""

    topics: TopicsSeen
    producer_documents: ProducerDocuments
    intake: Intake
    deposits: Deposits
    publishing: PublishingOperations
    holding: Holding
    synchronizing: Synchronizing
    soap: SoapService
    sequences: Sequences | None
    channels: Channels
    windows: WindowsOperations


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Gates and routes for peers and operators. Each listener has a gate of its own, so that
    strangers who fill one keep no operator out."""

    limits: HttpLimits
    gate: ConnectionGate
    admin_gate: ConnectionGate
    listeners: SoapTcpListeners
    web: Web
