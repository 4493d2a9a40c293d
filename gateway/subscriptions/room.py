"""The rooms of subscriptions: kept, managed, ended, and matched with what is published."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from adapters import XPathFilterAdapter
from filters import Filter, Topic
from gateway.delivery import WorkSharing
from gateway.delivery.room import DeliveryRoom
from gateway.discovery.rights import TopicRights
from gateway.egress import AddressPolicy, Schemes, TransportByScheme
from gateway.exchange import Handlers
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.observing.samples import Sample
from gateway.observing.subscribe_requests import SubscribeRequests
from gateway.publishing.archive import Archive
from gateway.publishing.room import ProducerRoom
from gateway.rooms import Room, Work
from gateway.security.audit import Audit
from gateway.security.quotas import SubscriptionQuotas
from gateway.settings.settings import Settings
from gateway.store import Store
from gateway.store.owner_bytes import OwnerBytes
from gateway.subscriptions.archive_reading import Rules
from gateway.subscriptions.challenges import Challenges
from gateway.subscriptions.consumers import Consumers
from gateway.subscriptions.creation import StartOf, SubscriptionCreation
from gateway.subscriptions.dead_letters import DeadLetters, PublishAgain
from gateway.subscriptions.explaining import Explainer
from gateway.subscriptions.filter_budgets import FilterBudgets
from gateway.subscriptions.lifecycle.endings import Endings
from gateway.subscriptions.lifecycle.existing_subscriptions import ExistingSubscriptions
from gateway.subscriptions.lifecycle.leases import LeaseTerms
from gateway.subscriptions.lifecycle.lifecycle import Lifecycle
from gateway.subscriptions.lifecycle.renewal import Renewal
from gateway.subscriptions.lifecycle.subscription_end import SubscriptionEnds
from gateway.subscriptions.listing import SubscriptionReports, SubscriptionSelector
from gateway.subscriptions.mailbox_feeds import MailboxFeeds
from gateway.subscriptions.management import ManagementOperations, SubscriptionManagement
from gateway.subscriptions.matching import InternalSubscriber, Matching, MayPublish, MayReceive
from gateway.subscriptions.message_tracing import MessageTracing
from gateway.subscriptions.named_subscriptions import NamedSubscriptions
from gateway.subscriptions.operations import SubscriptionOperations
from gateway.subscriptions.replaying import Replays
from gateway.subscriptions.replication import Replication
from gateway.subscriptions.resources import SubscriptionResources
from gateway.subscriptions.sequences.acknowledgements import AcknowledgementOperations
from gateway.subscriptions.sequences.subscriber_sequences import SubscriberSequences
from gateway.subscriptions.system_topics import MayRead, SystemTopics
from gateway.subscriptions.table import SubscriptionTable
from gateway.subscriptions.topic_subscribers import TopicSubscribers
from gateway.subscriptions.webhooks import Handshake, WebHooks

if TYPE_CHECKING:
    from gateway.observing.spans import Spans

ENDS_CLOSE = 2.0
"""Seconds that SubscriptionEnd messages get when the gateway stops."""


class SubscriptionRoom(Room):
    """Subscriptions, from Subscribe to their end, and the requests about them.

    Args:
        table: The subscriptions, of which nobody else makes any.
        schemes: The schemes of consumers' addresses.
        base: The gateway's URL, without a slash at its end.
        address: Its own address, for events without a producer reference.
        durable: The messaging system keeps what is not settled.
        trusts: Whether an owner of subscriptions is trusted.
        rights: Of topics that are somebody's; None where all are everybody's.
        may_read: Says who may have events of the gateway itself.
        start_of: Has a subscription begin with what the archive has.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        table: SubscriptionTable,
        adapter: XPathFilterAdapter,
        sharing: WorkSharing,
        mailboxes: Mailboxes,
        transport: TransportByScheme,
        schemes: Schemes,
        delivery: DeliveryRoom,
        producer: ProducerRoom,
        owner_bytes: OwnerBytes,
        *,
        base: str,
        address: str,
        durable: bool,
        trusts: Callable[[str], bool],
        rights: TopicRights | None,
        audit: Audit,
        may_read: MayRead,
        start_of: StartOf,
    ) -> None:
        self.table = table
        self._start_of = start_of
        self._audit = audit
        self._system_events = delivery.dispatchers.scheduler.system_events
        self.system_topics = SystemTopics(
            self._system_events, table, delivery.dispatchers, may_read, lambda: adapter.state
        )
        self._store = store
        self._adapter = adapter
        self._sharing = sharing
        self._consumers = Consumers(schemes, mailboxes)
        self._dispatchers = delivery.dispatchers
        self._protocol = delivery.sequence_protocol
        self._probations = delivery.probations
        self._terms = lease_terms(settings)
        self._drain = settings.drain
        self._hold_while_paused = settings.hold_while_paused
        self._reach_consumers(settings, transport, delivery, base, address, durable=durable)
        self._keep_subscriptions(mailboxes)
        self._create_subscriptions(settings, owner_bytes)
        self._end_subscriptions(trusts)
        self._answer_managers(producer)
        self._answer_subscribers(producer, trusts, rights)

    def _reach_consumers(
        self,
        settings: Settings,
        transport: TransportByScheme,
        delivery: DeliveryRoom,
        base: str,
        address: str,
        *,
        durable: bool,
    ) -> None:
        """Make the parts that send anything but notifications to consumers."""
        consumers, probations = self._consumers, self._probations
        handshake = Handshake(settings.webhook_handshake)
        self.web_hooks = WebHooks(transport, consumers, probations, base=base, handshake=handshake)
        self.challenges = Challenges(
            transport,
            probations,
            self.web_hooks.consents,
            agreed=delivery.dispatchers.scheduler.agree,
            wanted=Handshake(settings.consumer_challenge),
        )
        self.sequences = SubscriberSequences(
            self._store,
            self._protocol,
            delivery.sequence_sending.messages,
            transport,
            consumers,
            probations,
            durable=durable,
            keeps_house=lambda: self._sharing.keeps_house,
            shared=self._sharing.shared,
        )
        self.acknowledgements = AcknowledgementOperations(
            self._store, self._protocol.acknowledgements, self._go_on
        )
        self.ends = SubscriptionEnds(transport, consumers, probations, producer=address)

    def _keep_subscriptions(self, mailboxes: Mailboxes) -> None:
        """Make the parts that keep subscriptions in the store, the table and the filter set."""
        self.lifecycle = Lifecycle(
            self._store,
            self.table,
            self._adapter,
            self._consumers,
            mailboxes,
            self._dispatchers,
            self._sharing,
            self.sequences,
            terms=self._terms,
            hold_while_paused=self._hold_while_paused,
            notify_end=self.ends.notify,
            audit=self._audit,
            system_events=self._system_events,
        )
        self.renewal = Renewal(self.lifecycle, self._terms)
        self.replication = Replication(
            self._store,
            self.table,
            self._adapter,
            self._consumers,
            self._dispatchers,
            self.lifecycle,
            shared=self._sharing.shared,
        )
        self.feeds = MailboxFeeds(self.table, self.lifecycle, self.renewal, self.replication)

    def _create_subscriptions(self, settings: Settings, owner_bytes: OwnerBytes) -> None:
        existing = ExistingSubscriptions(self._store, self.table, self._dispatchers, self.renewal)
        self.creation = SubscriptionCreation(
            self.table,
            self._adapter,
            self._consumers,
            self.web_hooks,
            self.challenges,
            self.sequences,
            self.lifecycle,
            existing,
            self.replication,
            terms=self._terms,
            quotas=_quotas(settings),
            owner_bytes=owner_bytes,
            may_subscribe=self.system_topics.check,
            start_of=self._start_of,
        )

    def _end_subscriptions(self, trusts: Callable[[str], bool]) -> None:
        """Make the parts that end subscriptions which nobody asked to end."""
        self.endings = Endings(
            self._store,
            self.table,
            self.lifecycle,
            self._dispatchers,
            self._probations,
            shared=self._sharing.shared,
            trusts=trusts,
        )
        self.budgets = FilterBudgets(self.endings.cancel)

    def _answer_managers(self, producer: ProducerRoom) -> None:
        """Make the parts that list and end subscriptions, and tell of messages."""
        self.reports = SubscriptionReports(self._store, self.table, self._dispatchers)
        selector = SubscriptionSelector(self.table, self._dispatchers)
        self.management = SubscriptionManagement(
            self.table,
            self.lifecycle,
            self.renewal,
            self.replication,
            self.reports,
            selector,
        )
        self._management = ManagementOperations(self.management, producer.looks)
        self.requests = SubscribeRequests()
        self.tracing = MessageTracing(self._dispatchers.scheduler.traces, self._store)

    def _answer_subscribers(
        self, producer: ProducerRoom, trusts: Callable[[str], bool], rights: TopicRights | None
    ) -> None:
        """Make the handlers of Subscribe, and of requests to the managers of subscriptions."""
        named = NamedSubscriptions(self.table, self.renewal, self.replication)
        self.resources = SubscriptionResources(named, self.lifecycle, self.renewal)
        self.synchronizing = producer.synchronizing(self._adapter.evaluate)
        self.operations = SubscriptionOperations(
            self.creation,
            self.lifecycle,
            self.renewal,
            named,
            producer.topics,
            synchronizing=self.synchronizing,
            looks=producer.looks,
            trusts=trusts,
            resend=self._dispatchers.resend,
            exceeded=self.budgets.exceeded_now,
            requests=self.requests,
            rights_of=rights.of_request if rights else None,
            may_get=rights.may_get_current if rights else None,
        )

    def filters(self) -> Mapping[str, Filter]:
        """The filters to match, by the keys of their subscriptions."""
        entries = [entry for entry in self.table.entries if not entry.halted]
        return {one.subscription.key: one.subscription.filter for one in entries}

    def topic_subscribers(self, id_of: Callable[[Topic], str | None]) -> TopicSubscribers:
        """The subscribers of protected topics, whose advertisement *id_of* tells."""
        return TopicSubscribers(self.table, self.endings.cancel, id_of)

    def explainer(
        self,
        settings: Settings,
        producer: ProducerRoom,
        policy: AddressPolicy,
        sharing: WorkSharing,
    ) -> Explainer:
        """Explains why a subscription got a message, or not."""
        return Explainer(
            self._store,
            self._dispatchers,
            producer.topics,
            policy,
            producer.documents.of,
            proxied=settings.egress_proxy is not None,
            delivered_by=sharing.described,
        )

    def _go_on(self, id_: str) -> None:
        """Go on with a subscription of which something is acknowledged."""
        entry = self.table.by_id(id_)
        if entry is not None:
            self._dispatchers.hasten(entry)
        self.sequences.wake()

    def handlers(self) -> Handlers:
        return {**self.operations.handlers(), **self._management.handlers()}

    def works(self) -> Iterable[Work]:
        topics = self.system_topics
        return self.lifecycle.run, self.sequences.run, topics.run, topics.watch

    def metrics(self) -> Iterable[Sample]:
        yield from self.budgets.metrics()
        yield from self.table.metrics()
        yield from self.sequences.metrics()
        yield from self.system_topics.metrics()

    async def start(self) -> None:
        await self.replication.load()
        await self.endings.learn_who_agreed(self.table.entries)

    async def linger(self) -> None:
        # What consumers do not acknowledge now is sent again after the next start.
        await self._protocol.acknowledgements.close(self._drain)


class EndingRoom(Room):
    """Subscriptions that the gateway itself ends, and the messages about it; it is closed before
    the messaging system, which is told of each end."""

    def __init__(self, subscriptions: SubscriptionRoom) -> None:
        self._endings = subscriptions.endings
        self._ends = subscriptions.ends

    async def close(self) -> None:
        await self._endings.close()
        await self._ends.close(ENDS_CLOSE)


class MatchingRoom(Room):
    """Hands what the messaging system yields to the subscriptions that match it.

    Args:
        inside: Parts of the gateway itself that get messages, by topic.
        rights: Of topics that are somebody's; None where all are everybody's.
    """

    def __init__(
        self,
        subscriptions: SubscriptionRoom,
        adapter: XPathFilterAdapter,
        delivery: DeliveryRoom,
        inside: Mapping[Topic, InternalSubscriber],
        rights: TopicRights | None,
        may_receive: MayReceive | None = None,
        spans: "Spans | None" = None,
        may_publish: MayPublish | None = None,
    ) -> None:
        self._matching = Matching(
            adapter,
            subscriptions.table,
            delivery.dispatchers,
            subscriptions.budgets,
            inside,
            rights,
            may_receive,
            spans,
            may_publish,
        )

    def works(self) -> Iterable[Work]:
        return (self._matching.run,)

    def metrics(self) -> Iterable[Sample]:
        return self._matching.metrics()


class DeadLetterRoom(Room):
    """Dead letters, and the bounds of what they and others keep.

    Args:
        producer: The gateway's own address, for events without a producer reference.
        publish_again: Publishes a message that was set aside.
    """

    def __init__(
        self,
        settings: Settings,
        store: Store,
        subscriptions: SubscriptionRoom,
        mailboxes: Mailboxes,
        sharing: WorkSharing,
        delivery: DeliveryRoom,
        owner_bytes: OwnerBytes,
        *,
        producer: str,
        publish_again: PublishAgain,
    ) -> None:
        self._sharing = sharing
        self._most = settings.dead_letter_bytes
        self._most_of_owner = settings.dead_letter_bytes_per_owner
        self.letters = DeadLetters(
            store,
            subscriptions.table,
            subscriptions.replication,
            mailboxes,
            sharing,
            producer=producer,
            owner_bytes=owner_bytes,
            shrink=delivery.dispatchers.shrink,
            publish_again=publish_again,
        )

    def works(self) -> Iterable[Work]:
        yield partial(
            self.letters.run,
            most=self._most,
            most_of_owner=self._most_of_owner,
            keeps_house=lambda: self._sharing.keeps_house,
        )


class ReplayRoom(Room):
    """Replays of the archive into subscriptions.

    Args:
        rules: Say who may get what is replayed.
    """

    def __init__(
        self,
        archive: Archive | None,
        store: Store,
        subscriptions: SubscriptionRoom,
        delivery: DeliveryRoom,
        adapter: XPathFilterAdapter,
        producer: ProducerRoom,
        sharing: WorkSharing,
        rules: Rules,
    ) -> None:
        self.replays = Replays(
            archive,
            store,
            subscriptions.table,
            subscriptions.lifecycle,
            delivery.dispatchers,
            sharing,
            adapter,
            producer.documents.of,
            rules,
        )

    def works(self) -> Iterable[Work]:
        return (self.replays.run,)

    def metrics(self) -> Iterable[Sample]:
        return self.replays.metrics()


def lease_terms(settings: Settings) -> LeaseTerms:
    """The terms of leases, for subscriptions and registrations alike."""
    return LeaseTerms(settings.default_lease, settings.longest_lease, grace=settings.grace)


def _quotas(settings: Settings) -> SubscriptionQuotas:
    return SubscriptionQuotas(
        settings.max_subscriptions_per_owner,
        settings.max_subscriptions_per_destination,
        settings.max_subscriptions,
    )
