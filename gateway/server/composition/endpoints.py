"""What listens: gates, the parts of the HTTP application, listeners of SOAP.TCP."""

import time
from collections.abc import Callable, Iterable
from functools import partial

from gateway.channels.relay import Relays
from gateway.channels.relay_tokens import RelayTokens
from gateway.delivery.samples import delivery_samples
from gateway.egress.plugins import transport_samples
from gateway.http import ConnectionGate, HttpSettings
from gateway.http.limits import limits_of
from gateway.observing.samples import Sample, gauge
from gateway.security.networks import networks
from gateway.security.quotas import PrincipalRate
from gateway.server.listeners import SoapTcpListeners
from gateway.server.parts import (
    Answering,
    Endpoints,
    Messaging,
    Peers,
    Sending,
    Storage,
    Subscribing,
)
from gateway.server.readiness import Readiness
from gateway.server.state import RunState
from gateway.server.store_counts import Counting, count
from gateway.settings.settings import Settings
from gateway.soap.http import SoapEndpoint
from gateway.subscriptions.creation import SUBSCRIBES, SUBSCRIBES_AT_ONCE
from gateway.subscriptions.explaining import Explainer
from gateway.subscriptions.tracing import MessageTracing
from gateway.web.catalogue import TopicCatalogue
from gateway.web.events import EventEndpoint
from gateway.web.mailbox_streams import Streams
from gateway.web.metrics import Metrics
from gateway.web.parts import Web


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
    limits = limits_of(settings.documents)
    tcp_gate, gate, admin_gate = (ConnectionGate(limits, peers.trusted) for _ in range(3))
    listeners = SoapTcpListeners(
        settings,
        answering.soap,
        sending.parsing,
        tcp_gate,
        peers.identification,
        base=peers.base,
        documents=settings.documents,
    )
    # Consumers may also send on the connections that we open to them, made three steps before.
    sending.soap_tcp.answer_with(listeners.respond)
    http = HttpSettings(
        settings.public_url,
        frozenset(name.lower() for name in settings.hosts),
        networks(settings.trusted_proxies),
        settings.messenger_prefixes,
        (settings.client_certificate_header or "").lower(),
    )
    soap = SoapEndpoint(
        answering.soap,
        limits=limits,
        settings=http,
        identification=peers.identification,
        is_channel=answering.channels.is_known,
        admit_body=answering.intake.check_body,
    )
    tokens = RelayTokens(
        [(one.token.get_secret_value(), one.location) for one in settings.relays],
        peers.policy,
        storage.store,
        shared=messaging.sharing.shared,
    )
    relays = Relays(tokens, sending.transport, limits=limits)
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
            admit_body=answering.intake.check_body,
        ),
        relays=relays,
        relay_tokens=tokens,
        topics=TopicCatalogue(
            storage.store,
            answering.topics,
            None if messaging.discovery is None else messaging.discovery.protected,
        ),
        readiness=_readiness(settings, storage, messaging, state),
        metrics=_metrics(storage, messaging, sending, subscribing, answering, listeners, relays),
        subscriptions=messaging.table,
        lifecycle=subscribing.lifecycle,
        renewal=subscribing.renewal,
        replication=subscribing.replication,
        feeds=subscribing.feeds,
        removal=subscribing.removal,
        reports=subscribing.reports,
        management=subscribing.management,
        explainer=_explainer(settings, storage, messaging, sending, answering, peers),
        dead_letters=subscribing.dead_letters,
        spool=messaging.spool,
        failures=sending.dispatchers.scheduler.troubles.counts,
        tracing=MessageTracing(sending.dispatchers.scheduler.traces, storage.store),
        mailboxes=sending.mailboxes,
        sources=answering.holding.sources,
        channels=answering.channels,
        links=answering.holding.links,
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
        answering.producer_documents.of,
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
        visited=subscribing.feeds.keep_alive_by_reading,
    )


def _start_samples(started: float) -> Iterable[Sample]:
    yield gauge("start_time_seconds", "When the gateway started, in POSIX seconds.", started)


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
        messaging.spool.metrics,
        answering.holding.sources.metrics,
        answering.windows.metrics,
        answering.channels.metrics,
        answering.deposits.metrics,
        answering.soap.metrics,
        subscribing.budgets.metrics,
        messaging.table.metrics,
        sending.mailboxes.metrics,
        sending.owner_bytes.metrics,
        sending.sequences.metrics,
        storage.store.metrics,
        subscribing.matching.metrics,
        partial(delivery_samples, sending.dispatchers, lambda: messaging.table.entries),
        listeners.metrics,
        relays.metrics,
        sending.soap_tcp.metrics,
        partial(transport_samples, sending.guarded),
        messaging.sharing.metrics,
        partial(_start_samples, time.time()),
    ]
    if answering.sequences is not None:
        sources.append(answering.sequences.metrics)
    if answering.holding.naming is not None:
        sources.append(answering.holding.naming.metrics)
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
