"""The subscriptions, and what matches, delivers and ends them."""

from collections.abc import Callable, Mapping

from filters import Topic
from gateway.delivery import WINDOW, Dispatcher, PartitionShare
from gateway.discovery.service import DiscoveryService
from gateway.mailboxes.removal import MailboxRemoval
from gateway.security.quotas import SubscriptionQuotas
from gateway.server.parts import (
    Messaging,
    Peers,
    Sending,
    Storage,
    Subscribing,
)
from gateway.settings.settings import WITHIN, Settings
from gateway.subscriptions.creation import SubscriptionCreation
from gateway.subscriptions.dead_letters import DeadLetters
from gateway.subscriptions.endings import Endings
from gateway.subscriptions.filter_budgets import FilterBudgets
from gateway.subscriptions.leases import LeaseTerms
from gateway.subscriptions.lifecycle import Lifecycle
from gateway.subscriptions.mailbox_feeds import MailboxFeeds
from gateway.subscriptions.management import SubscriptionManagement
from gateway.subscriptions.matching import Inside, Matching
from gateway.subscriptions.naming import NamedSubscriptions
from gateway.subscriptions.renewal import Renewal
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.reports import SubscriptionReports
from gateway.subscriptions.resumption import Resumption
from gateway.subscriptions.selection import SubscriptionSelector
from gateway.subscriptions.subscription_end import SubscriptionEnds
from gateway.subscriptions.topic_subscribers import TopicSubscribers


def keep_subscriptions(
    settings: Settings, storage: Storage, messaging: Messaging, sending: Sending, peers: Peers
) -> Subscribing:
    """Make the subscriptions, and what matches, delivers and ends them."""
    ends = SubscriptionEnds(
        sending.transport, sending.consumers, sending.probations, producer=peers.producer
    )
    table, terms, shared = messaging.table, lease_terms(settings), messaging.sharing.shared
    lifecycle = Lifecycle(
        storage.store,
        table,
        messaging.adapter,
        sending.consumers,
        sending.mailboxes,
        sending.dispatchers,
        messaging.sharing,
        sending.sequences,
        terms=terms,
        notify_end=ends.notify,
    )
    renewal = Renewal(table, lifecycle, terms)
    replication = Replication(
        storage.store,
        table,
        messaging.adapter,
        sending.consumers,
        sending.dispatchers,
        lifecycle,
        shared=shared,
    )
    feeds = MailboxFeeds(table, lifecycle, renewal, replication)
    endings = Endings(
        storage.store,
        table,
        lifecycle,
        sending.dispatchers,
        sending.probations,
        shared=shared,
        trusts=peers.identification.trusts_owner,
    )
    budgets = FilterBudgets(endings.cancel)
    if messaging.discovery is not None:
        messaging.discovery.subscribers = TopicSubscribers(
            messaging.table, endings.cancel, messaging.discovery.protected.id_of
        )
    reports = SubscriptionReports(storage.store, messaging.table, sending.dispatchers)
    selector = SubscriptionSelector(messaging.table, sending.dispatchers)
    return Subscribing(
        lifecycle=lifecycle,
        renewal=renewal,
        replication=replication,
        creation=_creation(settings, storage, messaging, sending, lifecycle, renewal, replication),
        named=NamedSubscriptions(renewal, replication),
        feeds=feeds,
        removal=MailboxRemoval(storage.store, sending.mailboxes, feeds),
        reports=reports,
        management=SubscriptionManagement(table, lifecycle, replication, reports, selector),
        subscription_ends=ends,
        endings=endings,
        budgets=budgets,
        dead_letters=DeadLetters(
            storage.store,
            table,
            replication,
            sending.mailboxes,
            messaging.sharing,
            producer=peers.producer,
            owner_bytes=sending.owner_bytes,
            shrink=sending.dispatchers.shrink,
        ),
        matching=Matching(
            messaging.adapter,
            messaging.table,
            sending.dispatchers,
            budgets,
            _inside(messaging.discovery),
            messaging.rights,
        ),
        make_dispatcher=_dispatcher_maker(settings, storage, messaging, sending, endings),
    )


def _inside(discovery: DiscoveryService | None) -> Mapping[Topic, Inside]:
    """What of the gateway itself gets messages, by topic."""
    return {} if discovery is None else dict.fromkeys(discovery.node.topics, discovery)


def _creation(
    settings: Settings,
    storage: Storage,
    messaging: Messaging,
    sending: Sending,
    lifecycle: Lifecycle,
    renewal: Renewal,
    replication: Replication,
) -> SubscriptionCreation:
    return SubscriptionCreation(
        messaging.table,
        messaging.adapter,
        sending.consumers,
        sending.dispatchers,
        sending.web_hooks,
        sending.sequences,
        lifecycle,
        renewal,
        Resumption(storage.store, messaging.table, renewal),
        replication,
        terms=lease_terms(settings),
        quotas=SubscriptionQuotas(
            settings.max_subscriptions_per_owner,
            settings.max_subscriptions_per_destination,
            settings.max_subscriptions,
        ),
        owner_bytes=sending.owner_bytes,
    )


def _dispatcher_maker(
    settings: Settings,
    storage: Storage,
    messaging: Messaging,
    sending: Sending,
    endings: Endings,
) -> Callable[[PartitionShare], Dispatcher]:
    """A function that makes the dispatcher of a share of the work."""
    prefetch = messaging.capabilities.prefetch
    # A broker hands out few at a time, and whom they wait for too long has them in the store.
    # Our own system hands out many, which may repeat after a crash.
    window = WINDOW if settings.scheme in WITHIN else max(WINDOW, prefetch)

    def make(share: PartitionShare) -> Dispatcher:
        return Dispatcher(
            storage.store,
            sending.dispatchers.scheduler,
            prefetch=prefetch,
            window=window,
            give_up=endings.give_up,
            never_agreed=endings.never_agreed,
            schedule=sending.schedule,
            end_on_overflow=settings.backlog_policy == "end",
            share=share,
            owner_bytes=sending.owner_bytes,
        )

    return make


def lease_terms(settings: Settings) -> LeaseTerms:
    """How long leases may be, for subscriptions and registrations alike."""
    return LeaseTerms(settings.default_lease, settings.longest_lease, grace=settings.grace)
