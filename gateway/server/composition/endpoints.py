"""The last step: what answers, over SOAP, HTTP and TCP."""

import platform
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from filters import engine
from gateway.delivery.scheduler import SECONDS
from gateway.delivery.verdicts import NOTHING_SENT, Verdict
from gateway.http import ConnectionGate
from gateway.observing.masking import Mask
from gateway.observing.rates import Counters, Rates
from gateway.observing.samples import Sample, gauge, gauges
from gateway.publishing.event_type_files import read_event_types
from gateway.publishing.operations import release
from gateway.rooms import Room
from gateway.security.demands import Demands
from gateway.server.application import Serving
from gateway.server.composition.foundation import Foundation
from gateway.server.composition.requests import Requests
from gateway.server.composition.sending import Sending
from gateway.server.composition.subscribing import Subscribing
from gateway.server.readiness import Readiness
from gateway.server.transports import transport_to_self
from gateway.settings.settings import Settings
from gateway.soap.registry import Registry
from gateway.soap.room import SoapRoom, registry_of
from gateway.web.app import Site
from gateway.web.catalogue import TopicCatalogue
from gateway.web.console.room import ConsoleRoom
from gateway.web.console.viewer.calls import TransportChoice
from gateway.web.destinations import Destinations
from gateway.web.failing_consumers import failing_consumers
from gateway.web.kept_messages import KeptMessages
from gateway.web.metrics import Metrics
from gateway.web.overview import Overviews
from gateway.web.recipients import Recipients
from gateway.web.room import AdministrationRoom, EventRoom, JsonMailboxRoom
from gateway.web.shared_failures import SharedFailures
from gateway.web.shared_rates import SharedRates
from gateway.web.store_counts import Counting, count
from gateway.web.tenant_overviews import TenantOverviews
from gateway.web.topology import Topologies
from gateway.web.waiting_messages import WaitingMessages

if TYPE_CHECKING:
    from gateway.soap.answer_security import AnswerSecurity
    from gateway.soap.message_security import MessageSecurity
    from gateway.soap.receipts import Receipts


class Endpoints:
    """The SOAP service, and the rooms of the web.

    Args:
        rooms: All rooms made before, whose handlers the service has.
    """

    def __init__(
        self,
        base: Foundation,
        sending: Sending,
        subscribing: Subscribing,
        requests: Requests,
        rooms: Iterable[Room],
    ) -> None:
        settings = base.settings
        event_types = read_event_types(settings.grid_events.schemas)
        registry = _registry(settings, subscribing, requests, rooms)
        self.soap = SoapRoom(
            settings,
            registry,
            base.parsing,
            base.storage.intake,
            base.peers.identification,
            requests.mailboxes,
            requests.channels,
            requests.sequences,
            requests.replies,
            topics=sending.reading_topics.rules_for,
            http=base.asking.http,
            limits=base.limits,
            gate=ConnectionGate(base.limits, base.peers.trusted),
            base=base.peers.base,
            audit=base.audit,
            security=_message_security(base),
            receipts=requests.receipts,
            answer_security=_answer_security(base, requests.receipts),
            event_types=event_types,
            admission=base.admission,
        )
        service, subscriptions = self.soap.service, subscribing.subscriptions
        self.events = EventRoom(
            base.asking,
            service,
            base.parsing,
            base.storage.intake,
            subscriptions,
            base.limits,
            event_types,
        )
        self.json_mailboxes = JsonMailboxRoom(
            base.asking,
            service,
            base.parsing,
            requests.mailboxes,
            subscriptions,
            base.sharing.replica,
        )
        protected = base.protection.topics if base.protection else None
        self.started = time.time()
        self.rates = Rates(partial(self._counters, sending), SECONDS, clock=time.time)
        self.shared_rates = SharedRates(
            base.store, self.rates, base.sharing.replica, shared=base.sharing.shared
        )
        self.shared_failures = SharedFailures(
            base.store,
            partial(failing_consumers, base.table, sending.delivery.dispatchers),
            base.sharing.replica,
            shared=base.sharing.shared,
        )
        self.counting = Counting(
            partial(count, base.store, sending.delivery.dispatchers, sending.publishing.spool),
            subscriptions=base.table.__len__,
        )
        self.readiness = Readiness(
            base.state,
            base.store,
            base.filtering,
            base.sharing,
            base.table,
            scheme=settings.scheme,
        )
        explainer = subscriptions.explainer(
            base.settings, base.producer, base.peers.policy, base.sharing
        )
        self.administration = AdministrationRoom(
            base.asking,
            service,
            subscriptions,
            requests.mailboxes,
            sending.sources,
            requests.channels,
            requests.relays,
            requests.sequences,
            subscribing.dead_letters,
            subscribing.replays,
            sending.publishing,
            sending.delivery,
            TopicCatalogue(base.store, base.producer.topics, protected),
            explainer,
            self._overviews(base, sending),
            TenantOverviews(
                base.store, base.table, sending.delivery.dispatchers, base.storage.owner_bytes
            ),
            Topologies(
                base.table,
                sending.delivery.dispatchers,
                self.readiness,
                base.capabilities.queues,
                started=self.started,
            ),
            self.rates,
            self.shared_rates,
            self.shared_failures,
            KeptMessages(base.store, sending.recent),
            Recipients(
                base.table,
                explainer,
                Mask(settings.console_mask),
                producer=base.peers.producer,
            ),
            WaitingMessages(base.store, sending.delivery.dispatchers),
            base.storage.owner_bytes,
            base.storage.tenant_backlogs,
            Destinations(
                sending.delivery.dispatchers.scheduler.troubles.counts,
                sending.delivery.probations,
                sending.transports.options,
                base.peers.policy,
                base.peers.decisions,
            ),
            base.identity.stored if base.identity else None,
            base=base.peers.base,
        )
        self.console: Room | None = None
        if settings.console != "off":
            self.console = ConsoleRoom(
                settings.console,
                settings.console_frame_ancestors,
                transports=TransportChoice(
                    base.peers.bases,
                    transport_to_self(settings, base.peers),
                    sending.transports.by_scheme,
                    base.peers.policy,
                ),
                base=base.peers.base_here,
                pulls=not settings.on_loopback,
                mask=Mask(settings.console_mask),
                asking=base.asking,
            )

    def _overviews(self, base: Foundation, sending: Sending) -> Overviews:
        return Overviews(
            base.settings,
            base.store,
            sending.delivery.dispatchers,
            sending.sources.sources,
            self.shared_rates,
            self.shared_failures,
            self.counting,
            self.readiness,
            started=self.started,
        )

    def _counters(self, sending: Sending) -> Counters:
        """The counters that the rates are made of, now."""
        verdicts = sending.delivery.dispatchers.scheduler.verdicts
        delivered = verdicts[Verdict.DELIVERED]
        return Counters(
            accepted=sending.publishing.operations.accepted,
            delivered=delivered,
            failed=sum(verdicts.values()) - delivered - sum(verdicts[one] for one in NOTHING_SENT),
            refused=sum(self.soap.service.refusals.values()),
            seconds=tuple(sending.delivery.dispatchers.scheduler.seconds[Verdict.DELIVERED].counts),
        )


def _registry(
    settings: Settings, subscribing: Subscribing, requests: Requests, rooms: Iterable[Room]
) -> Registry:
    if settings.mailboxes_only:
        handlers = requests.mailboxes.handlers()
        return Registry(handlers, otherwise="Only mailboxes are offered here.")
    return registry_of(
        rooms,
        sources=requests.keeper.operations.handlers(),
        sequences=subscribing.subscriptions.acknowledgements.handlers(),
        channels=requests.channels.handlers_here(),
    )


def serving_of(base: Foundation, endpoints: Endpoints, rooms: Sequence[Room]) -> Serving:
    """The listeners' gates, and what the applications over *rooms* have in common."""
    sources = [room.metrics for room in rooms]
    sources.append(partial(_build_samples, base.settings, endpoints.started))
    gate, admin_gate = (ConnectionGate(base.limits, base.peers.trusted) for _ in range(2))
    metrics = Metrics(sources, endpoints.counting.metrics)
    site = Site(rooms, base.asking, endpoints.readiness, metrics)
    return Serving(base.limits, gate, admin_gate, endpoints.soap.listeners, site)


def _build_samples(settings: Settings, started: float) -> Iterable[Sample]:
    labels = ("version", "python", "engine", "adapter")
    values = (release(), platform.python_version(), engine(), settings.scheme)
    yield gauges("build_info", "What runs: always 1.", labels, {values: 1.0})
    yield gauge("start_time_seconds", "When the gateway started, in POSIX seconds.", started)


def _answer_security(base: Foundation, receipts: "Receipts | None") -> "AnswerSecurity | None":
    """What signs and encrypts answers, by the key that signs *receipts*; None where none are."""
    said = base.settings.ws_security
    if receipts is None or not (said.sign_answers or said.encrypt_answers):
        return None
    from gateway.soap.answer_security import AnswerSecurity

    demands = Demands.of(said.sign_answers, said.encrypt_answers)
    return AnswerSecurity(receipts.signer, demands, base.parsing)


def _message_security(base: Foundation) -> "MessageSecurity | None":
    """What identifies senders by WS-Security in their messages; None without a file of identities.

    Raises:
        WsSecurityFileUnusable: A file that the settings name cannot be used.
    """
    identification = base.peers.identification
    if identification.authentication is None:
        return None
    from gateway.security.ws_security_files import WsSecurityFile
    from gateway.soap.message_security import MessageSecurity
    from gateway.soap.own_addresses import OwnAddresses
    from gateway.soap.replay_cache import ReplayCache
    from mediation.revocation_lists import Revocations
    from mediation.ws_security import Algorithms, read_decryption_keys, read_trust

    said = base.settings.ws_security
    signers = keys = None
    if said.signers is not None:
        signers = WsSecurityFile("signers", said.signers, read_trust)
        signers.changed = lambda: identification.certificates_changed()
        trusted = signers

        def revoked() -> Revocations:
            return trusted.content.revocations

        identification.revoked_signers = revoked
    if said.key is not None:
        keys = WsSecurityFile("key", said.key, read_decryption_keys)
    return MessageSecurity(
        identification,
        identification.authentication,
        ReplayCache(base.store),
        base.parsing,
        base.settings.documents,
        OwnAddresses({base.peers.base, *base.peers.bases, *said.addresses}, base.settings.hosts),
        signers,
        keys,
        cbc=said.cbc,
        demands=base.demands,
        algorithms=Algorithms(sha1=said.sha1),
    )
