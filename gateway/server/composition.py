"""The composition root: makes all parts of a gateway, each whole, from its settings.

    open_storage         the data folder, locked; the store
    connect_messaging    adapter, sharing with other gateways, archive, spool
    prepare_sending      mailboxes, transports, dispatchers
    keep_subscriptions   subscriptions, and what matches, delivers and ends them
    answer_requests      the operations of all rooms, and the SOAP service
    serve_endpoints      gates, routes, listeners of SOAP.TCP

Each step takes what the former ones made, and returns a frozen group of `parts`. Nothing runs
before `Application.start`, but the first two steps look into the store and the data folder.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from adapters import Adapter, XPathFilterAdapter, capabilities_of, load
from adapters.loading import RestartingAdapter
from filters import Topic
from gateway.channels.directory import Directory, DirectoryOptions
from gateway.channels.naming import Naming
from gateway.channels.parent import ParentLink
from gateway.channels.relay import Relays
from gateway.delivery import (
    WINDOW,
    Attempts,
    BlackList,
    Dispatcher,
    Dispatchers,
    PartitionShare,
    ProbationLimits,
    Probations,
    Schedule,
    SendScheduler,
    SequenceSending,
    resend,
)
from gateway.delivery.samples import delivery_samples
from gateway.discovery.opening import DiscoveryUnusable, make_node, store_limits
from gateway.discovery.rights import TopicRights
from gateway.discovery.service import DiscoveryService
from gateway.egress import (
    AddressPolicy,
)
from gateway.egress.host_list import HostList
from gateway.egress.origins import Origins
from gateway.egress.plugins import transport_samples
from gateway.http import ConnectionGate, HttpLimits, HttpSettings
from gateway.mailboxes.deposits import Deposits
from gateway.mailboxes.mailboxes import Mailboxes
from gateway.mailboxes.operations import MailboxOperations
from gateway.mailboxes.resources import PullPointResources
from gateway.observing.samples import Sample
from gateway.parsing import Parsing
from gateway.publishing.archive import Archive
from gateway.publishing.event_copies import make_copies
from gateway.publishing.metadata import MetadataOperations
from gateway.publishing.operations import PublishingOperations, look_rate
from gateway.publishing.resources import Producer
from gateway.publishing.spool import Publisher, Spool
from gateway.publishing.synchronization import Synchronizing
from gateway.publishing.topic_files import read_namespaces
from gateway.publishing.topics import TopicsSeen
from gateway.replicas.join import join
from gateway.replicas.membership import StoreInUse
from gateway.resources.operations import ResourceOperations
from gateway.security.identify import Identification
from gateway.security.intake import Intake
from gateway.security.networks import networks
from gateway.security.quotas import PrincipalRate, SubscriptionQuotas
from gateway.security.resource_addresses import ResourceKind
from gateway.sequences.operations import SequenceOperations
from gateway.sequences.sequences import Sequences
from gateway.server.addresses import own_addresses
from gateway.server.application import Application
from gateway.server.data_folder import DataInUse, lock
from gateway.server.listeners import SoapTcpListeners
from gateway.server.parts import (
    Answering,
    Endpoints,
    Holding,
    Listening,
    Messaging,
    Peers,
    Sending,
    Storage,
    Subscribing,
)
from gateway.server.readiness import Readiness
from gateway.server.state import RunState
from gateway.server.store_counts import Counting, count
from gateway.server.transports import make_transports
from gateway.settings.settings import WITHIN, Settings
from gateway.settings.values import host_and_port
from gateway.soap.endpoint_rules import rules_at, with_calls, with_sequences
from gateway.soap.http import SoapEndpoint
from gateway.soap.registry import Registry
from gateway.soap.reliable import SequenceStep
from gateway.soap.replies import Replies
from gateway.soap.service import SoapService
from gateway.sources.admission import Admission
from gateway.sources.demand import Demand
from gateway.sources.exchanges import Exchanges
from gateway.sources.keeper import Keeper
from gateway.sources.operations import SourceOperations
from gateway.sources.registering import RegistrationOperations
from gateway.sources.registrations import Registrations
from gateway.sources.resources import RegistrationResources
from gateway.sources.sources import Sources
from gateway.sources.windows import SourceBookmarks, WantedEvents, WindowsOperations
from gateway.store import Store
from gateway.store.disk_reserve import Reserve
from gateway.subscriptions.consumers import Consumers
from gateway.subscriptions.dead_letters import DeadLetters
from gateway.subscriptions.endings import Endings
from gateway.subscriptions.explaining import Explainer
from gateway.subscriptions.filter_budgets import FilterBudgets
from gateway.subscriptions.leases import LeaseTerms
from gateway.subscriptions.lifecycle import SUBSCRIBES, SUBSCRIBES_AT_ONCE, Subscriptions
from gateway.subscriptions.management import ManagementOperations, SubscriptionManagement
from gateway.subscriptions.matching import Inside, Matching
from gateway.subscriptions.operations import MailboxFeeds, SubscriptionOperations
from gateway.subscriptions.reports import SubscriptionReports
from gateway.subscriptions.resources import SubscriptionResources
from gateway.subscriptions.selection import SubscriptionSelector
from gateway.subscriptions.sequences import SubscriberSequences
from gateway.subscriptions.subscription_end import SubscriptionEnds
from gateway.subscriptions.table import SubscriptionTable
from gateway.subscriptions.webhooks import Handshake, WebHooks
from gateway.web.catalogue import TopicCatalogue
from gateway.web.events import EventEndpoint
from gateway.web.metrics import Metrics
from gateway.web.parts import Web
from gateway.web.streams import Streams
from mediation import EndpointRules
from mediation import Sequences as Sequenced
from mediation.grid_events import channel_reference, port_of
from mediation.reliable_messaging.policy import Policy

LOOPBACK = ("127.0.0.0/8", "::1")


async def build(settings: Settings, listening: Listening) -> Application:
    """Make a gateway, which is to be started.

    Raises:
        DataInUse: Another process has the data folder, or the store.
        Refused: Something cannot be opened; the text says what.
    """
    peers, state = _peers(settings, listening), RunState()
    async with contextlib.AsyncExitStack() as undo:
        storage = await open_storage(settings, listening, undo)
        messaging = await connect_messaging(settings, storage, peers)
        sending = prepare_sending(settings, storage, messaging, peers)
        subscribing = keep_subscriptions(settings, storage, messaging, sending, peers)
        answering = answer_requests(settings, storage, messaging, sending, subscribing, peers)
        endpoints = serve_endpoints(
            settings, storage, messaging, sending, subscribing, answering, peers, state
        )
        undo.pop_all()  # From now on it is the application that closes them.
    return Application(
        settings,
        admin=listening.admin,
        state=state,
        policy=peers.policy,
        storage=storage,
        messaging=messaging,
        sending=sending,
        subscribing=subscribing,
        answering=answering,
        endpoints=endpoints,
    )


def _peers(settings: Settings, listening: Listening) -> Peers:
    trusted = settings.trusted
    if trusted is None:
        trusted = LOOPBACK if settings.on_loopback else ()
    own, tcp_ports = listening.own, listening.tcp_ports.values()
    policy = AddressPolicy(
        allow=settings.egress_allow,
        loopback=settings.on_loopback,
        own=own_addresses(settings, own, admin=listening.admin, tcp_ports=tcp_ports),
        deliver_to_self=settings.deliver_to_self,
        schemes=settings.egress_schemes,
    )
    base = settings.public_url or f"{settings.web_scheme}://{host_and_port(*own)}"
    known = networks(trusted)
    return Peers(known, Identification(known), base.rstrip("/"), policy)


async def open_storage(
    settings: Settings, listening: Listening, undo: contextlib.AsyncExitStack
) -> Storage:
    """Lock the data folder and open the store; *undo* closes them."""
    folder = lock(settings.data)
    undo.callback(folder.release)
    folder.write_address(f"{settings.web_scheme}://{host_and_port(*listening.own)}")
    url = settings.store.get_secret_value() if settings.store else None
    safe = settings.survive_power_loss
    store = Store(url, power_safe=safe) if url else Store.at(settings.data, power_safe=safe)
    undo.push_async_callback(store.close)
    await store.start()
    reserve = Reserve(store.folder, settings.store_reserve, inside=lambda: store.free_inside)
    return Storage(folder, store, reserve)


async def connect_messaging(settings: Settings, storage: Storage, peers: Peers) -> Messaging:
    """Make the adapter and what stands around it, and join the gateways that use the store."""
    adapter = _adapter(settings)
    capabilities = capabilities_of(adapter)
    try:
        sharing = await join(storage.store, capabilities, settings.data)
    except StoreInUse as in_use:
        raise DataInUse(in_use.reason, in_use.text) from in_use
    archive = Archive(settings.archive) if settings.archive else None
    copies = make_copies(settings.amqp_copies) if settings.amqp_copies else None
    table, trusts = SubscriptionTable(), peers.identification.trusts_owner

    def share_of(key: str) -> str | None:
        """The owner whose share of time a filter uses: a stranger has one share for all filters."""
        owner = table.owner(key)
        return None if owner is None or trusts(owner) else owner

    filtering = XPathFilterAdapter(
        adapter,
        settled=archive.offer if archive else None,
        refresh=sharing.refresh,
        share_of=share_of,
    )
    spool = Spool(
        storage.store,
        filtering,
        messages=settings.spool_messages if settings.spool else 0,
        octets=settings.spool_octets,
        shared=sharing.shared,
        drains=lambda: sharing.keeps_house,
    )
    left = await spool.start()  # An earlier run with a spool may have left some.
    used = spool if left or settings.spool else None
    discovery = _discovery(settings, storage, used or filtering, shared=sharing.shared)
    rights = None
    if discovery is not None and settings.discovery is not None:
        rights = TopicRights(
            discovery,
            storage.store,
            discovery.node.verifier,
            trusts=trusts,
            revoked=settings.discovery.revoked,
            addresses=frozenset({peers.base, peers.producer}),
            limits=store_limits(settings.discovery),
        )
    return Messaging(
        filtering, capabilities, sharing, archive, copies, used, table, discovery, rights
    )


def _discovery(
    settings: Settings, storage: Storage, publishing: Publisher, *, shared: bool
) -> DiscoveryService | None:
    """The topic discovery node; None where the gateway is none."""
    if not settings.discovery_node:
        return None
    if settings.discovery is None:
        why = "the table is missing, with the key and the certificate of the node"
        raise DiscoveryUnusable("key", why)
    return DiscoveryService(
        make_node(settings.discovery),
        storage.store,
        publishing,
        shared=shared,
        limits=store_limits(settings.discovery),
    )


def _adapter(settings: Settings) -> Adapter:
    options = dict(settings.adapter_settings)
    if not settings.survive_power_loss and settings.scheme == "embedded":
        options.setdefault("survive-power-loss", "false")  # No other adapter flushes by itself.
    # Those within the process fail with it: a new process opens them again.
    make = load if settings.scheme in WITHIN else RestartingAdapter.from_url
    adapter: Adapter = make(
        settings.adapter.get_secret_value(), data=settings.data, settings=options
    )
    return adapter


def prepare_sending(
    settings: Settings, storage: Storage, messaging: Messaging, peers: Peers
) -> Sending:
    """Make the transports and the dispatchers.

    Raises:
        TlsError: A file that the settings name cannot be used.
        TransportError: A transport of another package cannot be used.
    """
    trusts = peers.identification.trusts_owner
    mailboxes = Mailboxes(storage.store, settings.mailbox_quotas, trusts=trusts)
    parsing, origins = Parsing(), Origins()
    transports = make_transports(settings, peers, mailboxes, parsing)
    probations = Probations(
        vouches=trusts,
        exempt=HostList(settings.egress_agreed).__contains__,
        limits=ProbationLimits(settings.probation_per_minute, settings.probation_attempts),
        by_address=settings.egress_proxy is None,
    )
    in_sequence = SequenceSending(storage.store, transports.by_scheme, parsing)
    attempts = Attempts(
        transports.by_scheme,
        producer=peers.producer,
        parsing=parsing,
        origins=origins,
        probations=probations,
        sequences=in_sequence,
    )
    schedule = _schedule(settings)
    scheduler = SendScheduler(
        attempts, slots=settings.slots, probe=schedule.probe, probations=probations
    )
    consumers = Consumers(transports.schemes, mailboxes)
    return Sending(
        mailboxes=mailboxes,
        consumers=consumers,
        parsing=parsing,
        origins=origins,
        soap_tcp=transports.soap_tcp,
        transport=transports.by_scheme,
        guarded=transports.guarded,
        probations=probations,
        web_hooks=WebHooks(
            transports.by_scheme,
            consumers,
            probations,
            base=peers.base,
            handshake=Handshake(settings.webhook_handshake),
        ),
        sequences=SubscriberSequences(
            storage.store,
            in_sequence,
            transports.by_scheme,
            consumers,
            probations,
            durable=messaging.capabilities.durable,
            keeps_house=lambda: messaging.sharing.keeps_house,
            shared=messaging.sharing.shared,
        ),
        schedule=schedule,
        dispatchers=Dispatchers(storage.store, scheduler, messaging.sharing.elsewhere),
    )


def keep_subscriptions(
    settings: Settings, storage: Storage, messaging: Messaging, sending: Sending, peers: Peers
) -> Subscribing:
    """Make the subscriptions, and what matches, delivers and ends them."""
    ends = SubscriptionEnds(
        sending.transport, sending.consumers, sending.probations, producer=peers.producer
    )
    subscriptions = _subscriptions(settings, storage, messaging, sending, ends)
    endings = Endings(
        storage.store,
        subscriptions,
        sending.dispatchers,
        sending.probations,
        shared=messaging.sharing.shared,
        trusts=peers.identification.trusts_owner,
    )
    budgets = FilterBudgets(endings.cancel)
    reports = SubscriptionReports(storage.store, messaging.table, sending.dispatchers)
    selector = SubscriptionSelector(messaging.table, sending.dispatchers)
    return Subscribing(
        subscriptions=subscriptions,
        reports=reports,
        management=SubscriptionManagement(subscriptions, reports, selector),
        subscription_ends=ends,
        endings=endings,
        budgets=budgets,
        dead_letters=DeadLetters(
            storage.store,
            subscriptions,
            sending.mailboxes,
            messaging.sharing,
            producer=peers.producer,
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


def _subscriptions(
    settings: Settings,
    storage: Storage,
    messaging: Messaging,
    sending: Sending,
    ends: SubscriptionEnds,
) -> Subscriptions:
    return Subscriptions(
        storage.store,
        messaging.table,
        messaging.adapter,
        sending.consumers,
        sending.mailboxes,
        sending.dispatchers,
        messaging.sharing,
        sending.web_hooks,
        sending.sequences,
        terms=_lease_terms(settings),
        quotas=SubscriptionQuotas(
            settings.max_subscriptions_per_owner,
            settings.max_subscriptions_per_destination,
            settings.max_subscriptions,
        ),
        notify_end=ends.notify,
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
        )

    return make


def answer_requests(
    settings: Settings,
    storage: Storage,
    messaging: Messaging,
    sending: Sending,
    subscribing: Subscribing,
    peers: Peers,
) -> Answering:
    """Make the operations of all rooms, and the service that dispatches requests to them."""
    topics = TopicsSeen(read_namespaces(settings.topic_namespaces, fixed=settings.fixed_topic_set))
    looks, intake = look_rate(), Intake(storage.reserve.take)
    deposits = Deposits(sending.mailboxes, sending.parsing, intake)
    sources, keeper = _sources(storage, messaging, sending, peers)
    registrations = Registrations(
        storage.store,
        sources,
        peers.policy,
        messaging.sharing,
        terms=_lease_terms(settings),
        required=settings.requires_registration,
    )
    events_wanted = [WantedEvents(**row.model_dump()) for row in settings.windows_events]
    marks = SourceBookmarks(storage.store, events_wanted)
    publishing = PublishingOperations(
        messaging.spool or messaging.adapter,
        topics,
        intake=intake,
        origins=sending.origins,
        looks=looks,
        mailboxes_each=sending.mailboxes.most,
        longest_lease=subscribing.subscriptions.longest_lease,
        copies=messaging.copies,
        check=registrations.check if settings.requires_registration else None,
        note=marks.note if events_wanted else None,
        prove=messaging.rights.prove_publisher if messaging.rights else None,
    )
    replies = Replies(
        sending.transport,
        peers.policy,
        has_agreed=lambda target: sending.probations.has_agreed(target.destination),
    )
    rules = _rules(settings)
    sequences = _sequences(settings, storage, messaging, publishing, replies)
    step = None
    if sequences is not None:
        modes = {settings.wsrm, *settings.wsrm_at.values()}
        required = Sequenced.REQUIRED.value in modes
        step = SequenceStep(sequences, rules, required=required)
    synchronizing = Synchronizing(messaging.adapter.evaluate)
    managing = SubscriptionOperations(
        subscribing.subscriptions,
        topics,
        synchronizing=synchronizing,
        looks=looks,
        trusts=peers.identification.trusts_owner,
        resend=partial(resend, sending.dispatchers),
        exceeded=subscribing.budgets.exceeded_now,
        rights_of=messaging.rights.of_request if messaging.rights else None,
    )
    feeds = MailboxFeeds(subscribing.subscriptions)
    reading = MailboxOperations(sending.mailboxes, feeds, intake)
    resources = ResourceOperations(
        RegistrationResources(registrations),
        PullPointResources(sending.mailboxes, feeds),
        SubscriptionResources(subscribing.subscriptions),
        producer=Producer(
            topics, sending.parsing, requires_registration=settings.requires_registration
        ),
        looks=looks,
        parsing=sending.parsing,
    )
    registering = RegistrationOperations(registrations, topics.namespaces)
    taking_in = SourceOperations(sources, publishing.publish, publishing.take_in)
    if settings.mailboxes_only:
        registry = Registry(reading.handlers(), otherwise="Only mailboxes are offered here.")
    else:
        metadata = MetadataOperations(
            topics,
            looks=looks,
            parsing=sending.parsing,
            longest_lease=subscribing.subscriptions.longest_lease,
            sequences=rules("/soap").sequences,
        )
        administering = ManagementOperations(subscribing.management, looks)
        windows = WindowsOperations(events_wanted, looks, marks)
        rooms = (
            reading, publishing, managing, resources, metadata, registering, administering, windows,
        )  # fmt: skip
        running = SequenceOperations(sequences, publishing).handlers() if sequences else {}
        registry = Registry(
            *(room.handlers() for room in rooms),
            running,
            at={ResourceKind.SOURCE: taking_in.handlers()},
        )
    soap = SoapService(
        registry,
        sending.parsing,
        deposits,
        replies,
        reliable=step,
        rules=rules,
    )
    demand = Demand(sources, messaging.table, base=peers.base)
    naming, parent = _naming(settings, sending, peers)
    holding = Holding(sources, keeper, registrations, demand, naming, parent)
    return Answering(topics, intake, deposits, publishing, holding, synchronizing, soap, sequences)


def _schedule(settings: Settings) -> Schedule:
    black_list = None
    if settings.black_list_after:
        black_list = BlackList(settings.black_list_after, settings.black_list_for)
    if settings.retry_delays is None:
        return Schedule(black_list=black_list)
    return Schedule(settings.retry_delays, black_list=black_list)


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
        publish=publishing.accept,
        may_name=replies.may_name,
        send=replies.send_again,
        shared=messaging.sharing.shared,
        octets_per_owner=settings.wsrm_bytes_per_owner,
    )


def _lease_terms(settings: Settings) -> LeaseTerms:
    return LeaseTerms(settings.default_lease, settings.longest_lease, grace=settings.grace)


def _sources(
    storage: Storage, messaging: Messaging, sending: Sending, peers: Peers
) -> tuple[Sources, Keeper]:
    """The sources, and what keeps them."""
    exchanges = Exchanges(
        sending.transport,
        peers.policy,
        sending.parsing,
        base=peers.base,
        admission=Admission(sending.probations, asyncio.get_running_loop().time),
    )
    sharing = messaging.sharing
    sources = Sources(storage.store, peers.policy, shared=sharing.shared, base=peers.base)
    return sources, Keeper(sources, exchanges, sharing)


def _naming(
    settings: Settings, sending: Sending, peers: Peers
) -> tuple[Naming | None, ParentLink | None]:
    """What keeps the gateway's entry in a directory, and its subscription at the parent; None where
    they are not wanted."""
    asked = settings.directory
    if asked is None:
        return None, None
    own, parent = channel_reference(asked.location or peers.producer), None
    if asked.subscribe:
        parent = ParentLink(sending.transport, peers.policy, sending.parsing, port_of(own))
    options = DirectoryOptions(
        asked.url, asked.start_tls, asked.ca, asked.user, asked.password.get_secret_value()
    )
    naming = Naming(
        Directory(options),
        asked.name,
        own,
        interval=asked.interval.total_seconds(),
        found=parent.follow if parent is not None else lambda _: None,
    )
    return naming, parent


def serve_endpoints(
    settings: Settings,
    storage: Storage,
    messaging: Messaging,
    sending: Sending,
    subscribing: Subscribing,
    answering: Answering,
    peers: Peers,
    state: RunState,
) -> Endpoints:
    """Make what listens: gates, the parts of the HTTP application, listeners of SOAP.TCP."""
    limits = HttpLimits()
    tcp_gate, gate, admin_gate = (ConnectionGate(limits, peers.trusted) for _ in range(3))
    listeners = SoapTcpListeners(
        settings,
        answering.soap,
        sending.parsing,
        tcp_gate,
        peers.identification,
        base=peers.base,
    )
    # Consumers may also send on the connections that we open to them, made three steps before.
    sending.soap_tcp.answer_with(listeners.respond)
    http = HttpSettings(
        settings.public_url,
        frozenset(name.lower() for name in settings.hosts),
        networks(settings.trusted_proxies),
        settings.messenger_prefixes,
    )
    soap = SoapEndpoint(
        answering.soap, limits=limits, settings=http, identification=peers.identification
    )
    relays = Relays(
        [(one.token.get_secret_value(), one.location) for one in settings.relays],
        sending.transport,
        peers.policy,
        limits=limits,
    )
    web = Web(
        http=http,
        base=peers.base,
        identification=peers.identification,
        soap=soap,
        events=EventEndpoint(
            answering.soap,
            sending.parsing,
            limits=limits,
            settings=http,
            identification=peers.identification,
        ),
        relays=relays,
        topics=TopicCatalogue(
            storage.store,
            answering.topics,
            None if messaging.discovery is None else messaging.discovery.protected,
        ),
        readiness=_readiness(settings, storage, messaging, state),
        metrics=_metrics(storage, messaging, sending, subscribing, answering, listeners, relays),
        subscriptions=subscribing.subscriptions,
        reports=subscribing.reports,
        management=subscribing.management,
        explainer=_explainer(settings, storage, messaging, sending, answering, peers),
        dead_letters=subscribing.dead_letters,
        mailboxes=sending.mailboxes,
        sources=answering.holding.sources,
        sequences=answering.sequences,
        subscriber_sequences=sending.sequences,
        service=answering.soap,
        web_hooks=sending.web_hooks,
        parsing=sending.parsing,
        streams=_streams(messaging, sending, subscribing, state),
        making=PrincipalRate(SUBSCRIBES, SUBSCRIBES_AT_ONCE, "Too many mailboxes."),
        draining=state.is_draining,
    )
    return Endpoints(limits, gate, admin_gate, listeners, web)


def _readiness(
    settings: Settings, storage: Storage, messaging: Messaging, state: RunState
) -> Readiness:
    return Readiness(
        state,
        storage.store,
        messaging.adapter,
        messaging.sharing,
        messaging.table,
        scheme=settings.scheme,
    )


def _explainer(
    settings: Settings,
    storage: Storage,
    messaging: Messaging,
    sending: Sending,
    answering: Answering,
    peers: Peers,
) -> Explainer:
    return Explainer(
        storage.store,
        sending.dispatchers,
        answering.topics,
        peers.policy,
        proxied=settings.egress_proxy is not None,
        delivered_by=messaging.sharing.described,
    )


def _streams(
    messaging: Messaging, sending: Sending, subscribing: Subscribing, state: RunState
) -> Streams:
    return Streams(
        sending.mailboxes,
        sending.parsing,
        replica=messaging.sharing.replica,
        draining=state.is_draining,
        visited=subscribing.subscriptions.keep_alive_by_reading,
    )


def _metrics(
    storage: Storage,
    messaging: Messaging,
    sending: Sending,
    subscribing: Subscribing,
    answering: Answering,
    listeners: SoapTcpListeners,
    relays: Relays,
) -> Metrics:
    sources: list[Callable[[], Iterable[Sample]]] = [
        answering.publishing.metrics,
        answering.holding.sources.metrics,
        answering.deposits.metrics,
        answering.soap.metrics,
        subscribing.budgets.metrics,
        messaging.table.metrics,
        sending.mailboxes.metrics,
        sending.sequences.metrics,
        storage.store.metrics,
        subscribing.matching.metrics,
        partial(delivery_samples, sending.dispatchers),
        listeners.metrics,
        relays.metrics,
        sending.soap_tcp.metrics,
        partial(transport_samples, sending.guarded),
        messaging.sharing.metrics,
    ]
    if answering.sequences is not None:
        sources.append(answering.sequences.metrics)
    if answering.holding.naming is not None:
        sources.append(answering.holding.naming.metrics)
    if answering.holding.parent is not None:
        sources.append(answering.holding.parent.metrics)
    if messaging.archive is not None:
        sources.append(messaging.archive.metrics)
    if messaging.rights is not None:
        sources.append(messaging.rights.metrics)
    if messaging.discovery is not None:
        sources.append(messaging.discovery.metrics)
    if messaging.copies is not None:
        sources.append(messaging.copies.metrics)
    counting = Counting(
        partial(count, storage.store, sending.dispatchers, messaging.spool),
        subscriptions=messaging.table.__len__,
    )
    return Metrics(sources, counting.metrics)
