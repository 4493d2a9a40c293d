"""The operations of all rooms, and the service that dispatches requests to them."""

import asyncio
from collections.abc import Callable
from functools import partial

from gateway.channels.channels import Channels
from gateway.channels.directory import Directory, DirectoryOptions
from gateway.channels.links import Link, Links
from gateway.channels.naming import Direction, Naming
from gateway.channels.operations import ChannelOperations
from gateway.delivery import resend
from gateway.mailboxes.deposits import Deposits
from gateway.mailboxes.operations import MailboxOperations
from gateway.mailboxes.resources import PullPointResources
from gateway.model.channels import Channel
from gateway.publishing.metadata import MetadataOperations
from gateway.publishing.operations import PublishingOperations, look_rate
from gateway.publishing.producer_documents import ProducerDocuments
from gateway.publishing.resources import Producer
from gateway.publishing.set_aside import Prefix, TopicReading
from gateway.publishing.synchronization import Synchronizing
from gateway.publishing.topic_files import read_namespaces
from gateway.publishing.topics import TopicsSeen
from gateway.resources.operations import ResourceOperations
from gateway.security.intake import Intake
from gateway.security.networks import networks
from gateway.security.resource_addresses import ResourceKind
from gateway.sequences.operations import SequenceOperations
from gateway.sequences.sequences import Sequences
from gateway.server.composition.subscribing import lease_terms
from gateway.server.parts import (
    Answering,
    Holding,
    Messaging,
    Peers,
    Sending,
    Storage,
    Subscribing,
)
from gateway.settings.settings import Settings
from gateway.settings.tables import LinkRow
from gateway.soap.endpoint_rules import rules_at, with_calls, with_sequences
from gateway.soap.registry import Registry
from gateway.soap.reliable import SequenceStep
from gateway.soap.replies import Replies
from gateway.soap.service import SoapService
from gateway.sources.admission import Admission
from gateway.sources.demand import Demand
from gateway.sources.exchanges import Exchanges
from gateway.sources.keeper import Keeper
from gateway.sources.operations import SourceOperations
from gateway.sources.pulling import Pulling
from gateway.sources.registering import RegistrationOperations
from gateway.sources.registrations import Registrations
from gateway.sources.resources import RegistrationResources
from gateway.sources.sources import Sources
from gateway.sources.windows import SourceBookmarks, WantedEvents, WindowsOperations
from gateway.subscriptions.acknowledging import AcknowledgementOperations
from gateway.subscriptions.management import ManagementOperations
from gateway.subscriptions.operations import SubscriptionOperations
from gateway.subscriptions.resources import SubscriptionResources
from mediation.grid_events import channel_reference
from mediation.model.requests import EndpointRules
from mediation.model.requests import Sequences as Sequenced
from mediation.reliable_messaging.policy import Policy


def answer_requests(
    settings: Settings,
    storage: Storage,
    messaging: Messaging,
    sending: Sending,
    subscribing: Subscribing,
    peers: Peers,
) -> Answering:
    """Make the operations of all rooms, and the service that dispatches requests to them."""
    namespaces = read_namespaces(settings.topic_namespaces, fixed=settings.fixed_topic_set)
    topics = TopicsSeen(namespaces)
    if messaging.discovery is not None:
        topics = TopicsSeen(namespaces, hides=messaging.discovery.protected.hides)
    looks, intake = look_rate(), Intake(storage.reserve.take)
    deposits = Deposits(sending.mailboxes, sending.parsing, intake, limits=settings.documents)
    sources = Sources(storage.store, peers.policy, shared=messaging.sharing.shared, base=peers.base)
    registrations = Registrations(
        storage.store,
        sources,
        peers.policy,
        messaging.sharing,
        terms=lease_terms(settings),
        required=settings.requires_registration,
    )
    events_wanted = [WantedEvents(**row.model_dump()) for row in settings.windows_events]
    marks = SourceBookmarks(storage.store, events_wanted)
    reading_topics = _topic_reading(settings)
    publishing = PublishingOperations(
        messaging.spool,
        topics,
        intake=intake,
        origins=sending.origins,
        store=storage.store,
        reading=reading_topics,
        looks=looks,
        mailboxes_each=sending.mailboxes.most,
        longest_lease=settings.longest_lease,
        endpoint=peers.producer,
        traces=sending.dispatchers.scheduler.traces,
        copies=messaging.copies,
        check=registrations.check if settings.requires_registration else None,
        note=marks.note if events_wanted else None,
        prove=messaging.rights.prove_publisher if messaging.rights else None,
        prove_reader=messaging.rights.prove_reader if messaging.rights else None,
    )
    subscribing.dead_letters.publish_again = publishing.set_aside.publish_again
    replies = Replies(
        sending.transport,
        peers.policy,
        has_agreed=lambda target: sending.probations.has_agreed(target.destination),
    )
    rules = _rules(settings)
    sequences = _sequences(settings, storage, messaging, sending, publishing, replies)
    step = None
    if sequences is not None:
        modes = {settings.wsrm, *settings.wsrm_at.values()}
        required = Sequenced.REQUIRED.value in modes
        step = SequenceStep(sequences, rules, required=required)
    producer = Producer(
        topics, sending.parsing, requires_registration=settings.requires_registration
    )
    documents = ProducerDocuments(producer, topics)
    messaging.adapter.producer = documents.of
    synchronizing = Synchronizing(messaging.adapter.evaluate, documents.of)
    managing = SubscriptionOperations(
        subscribing.creation,
        subscribing.lifecycle,
        subscribing.renewal,
        subscribing.named,
        topics,
        synchronizing=synchronizing,
        looks=looks,
        trusts=peers.identification.trusts_owner,
        resend=partial(resend, sending.dispatchers),
        exceeded=subscribing.budgets.exceeded_now,
        rights_of=messaging.rights.of_request if messaging.rights else None,
        may_get=messaging.rights.may_get_current if messaging.rights else None,
    )
    removal = subscribing.removal
    reading = MailboxOperations(sending.mailboxes, removal, subscribing.feeds, intake)
    resources = ResourceOperations(
        RegistrationResources(registrations),
        PullPointResources(sending.mailboxes, removal),
        SubscriptionResources(subscribing.named, subscribing.lifecycle, subscribing.renewal),
        producer=producer,
        looks=looks,
        parsing=sending.parsing,
    )
    registering = RegistrationOperations(registrations, topics.namespaces)
    channels = Channels(
        storage.store,
        sending.parsing,
        messaging.adapter.evaluate_for,
        [Channel(row.name, row.selection, configured=True) for row in settings.channels],
        shared=messaging.sharing.shared,
    )
    taking_in = SourceOperations(
        sources, publishing.publish, publishing.take_in, channels.selecting, base=peers.base
    )
    keeper = _keeper(settings, messaging, sending, peers, sources, taking_in)
    windows = WindowsOperations(events_wanted, looks, marks)
    if settings.mailboxes_only:
        registry = Registry(reading.handlers(), otherwise="Only mailboxes are offered here.")
    else:
        metadata = MetadataOperations(
            topics,
            looks=looks,
            parsing=sending.parsing,
            longest_lease=settings.longest_lease,
            sequences=rules("/soap").sequences,
        )
        administering = ManagementOperations(subscribing.management, looks)
        rooms = (
            reading, publishing, managing, resources, metadata, registering, administering, windows,
        )  # fmt: skip
        running = SequenceOperations(sequences, publishing).handlers() if sequences else {}
        registry = Registry(
            *(room.handlers() for room in rooms),
            running,
            at={
                ResourceKind.SOURCE: taking_in.handlers(),
                ResourceKind.SEQUENCE: _acknowledging(storage, messaging, sending).handlers(),
            },
            instead={
                ResourceKind.CHANNEL: ChannelOperations(channels, publishing, managing).handlers()
            },
        )
    soap = SoapService(
        registry,
        sending.parsing,
        deposits,
        replies,
        reliable=step,
        rules=rules,
        limits=settings.documents,
        topics=reading_topics.rules_for,
    )
    demand = Demand(sources, messaging.table, base=peers.base)
    directory = settings.directory
    links = Links(
        sources,
        channels,
        messaging.sharing,
        map(_link, settings.links),
        follows=directory is not None and directory.subscribe,
    )
    naming = _naming(settings, links, peers)
    holding = Holding(sources, keeper, registrations, demand, naming, links)
    return Answering(
        topics,
        documents,
        intake,
        deposits,
        publishing,
        holding,
        synchronizing,
        soap,
        sequences,
        channels,
        windows,
    )


def _acknowledging(
    storage: Storage, messaging: Messaging, sending: Sending
) -> AcknowledgementOperations:
    def noted(id_: str) -> None:
        """Go on with a subscription of which something is acknowledged."""
        entry = messaging.table.by_id(id_)
        if entry is not None:
            sending.dispatchers.hasten(entry)
        sending.sequences.wake()

    return AcknowledgementOperations(storage.store, sending.sequences.called_back, noted)


def _topic_reading(settings: Settings) -> TopicReading:
    """How topics of publishers are read."""
    rows = [
        Prefix(row.prefix, row.namespace, None if row.peer is None else networks([row.peer]))
        for row in settings.prefixes
    ]
    return TopicReading(rows, set_aside=settings.unknown_topics == "set-aside")


def _rules(settings: Settings) -> Callable[[str], EndpointRules]:
    """What tells the rules of the endpoint at a path."""
    named = partial(rules_at, lexical_names=settings.messenger_lexical_names)
    rules = with_calls(named, settings.grid_events.rules)
    if not settings.takes_sequences:
        return rules
    at = {path: Sequenced(mode) for path, mode in settings.wsrm_at.items()}
    return with_sequences(rules, Sequenced(settings.wsrm), at)


def _sequences(
    settings: Settings,
    storage: Storage,
    messaging: Messaging,
    sending: Sending,
    publishing: PublishingOperations,
    replies: Replies,
) -> Sequences | None:
    """The sequences of publishers; None where no endpoint takes any."""
    if not settings.takes_sequences:
        return None
    return Sequences(
        storage.store,
        Policy(
            sequences=settings.wsrm_sequences,
            sequences_per_peer=settings.wsrm_sequences_per_owner,
            stored=settings.wsrm_messages,
            expiry=settings.wsrm_expiry.total_seconds(),
        ),
        publish=partial(publishing.accept, kept=True),
        may_name=replies.may_name,
        send=replies.send_again,
        shared=messaging.sharing.shared,
        octets_per_owner=settings.wsrm_bytes_per_owner,
        owner_bytes=sending.owner_bytes,
        nacks=settings.wsrm_nacks,
    )


def _keeper(
    settings: Settings,
    messaging: Messaging,
    sending: Sending,
    peers: Peers,
    sources: Sources,
    taking_in: SourceOperations,
) -> Keeper:
    """What keeps the sources."""
    directory = settings.directory
    exchanges = Exchanges(
        sending.transport,
        peers.policy,
        sending.parsing,
        base=peers.base,
        admission=Admission(sending.probations, asyncio.get_running_loop().time),
        endpoint=directory.location if directory is not None else None,
    )
    pulling = Pulling(sources, exchanges, taking_in.take_pulled)
    return Keeper(sources, exchanges, messaging.sharing, pulling)


def _link(row: LinkRow) -> Link:
    wanted = row.selection
    return Link(
        row.url,
        row.channel,
        row.version,
        wanted.example,
        row.topic,
        wanted.xpath,
        wanted.namespaces,
        row.lease.total_seconds(),
        row.publish_on,
        row.profile,
        row.binding or None,
    )


def _naming(settings: Settings, links: Links, peers: Peers) -> Naming | None:
    """What keeps the gateway's entry in a directory, and tells *links* of the parent; None where it
    is not wanted."""
    asked = settings.directory
    if asked is None:
        return None
    options = DirectoryOptions(
        asked.url, asked.start_tls, asked.ca, asked.user, asked.password.get_secret_value()
    )
    return Naming(
        Directory(options),
        asked.name,
        channel_reference(asked.location or peers.producer),
        interval=asked.interval.total_seconds(),
        direction=Direction(asked.direction) if asked.subscribe else Direction.DOWN,
        found=links.follow if asked.subscribe else lambda _: None,
    )
