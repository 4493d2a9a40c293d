"""The first step: the data folder, the store, the messaging system, the gateway as a producer."""

import contextlib
from collections.abc import Awaitable, Callable, Mapping

from adapters import Delivery, XPathFilterAdapter
from adapters.tenant_admission import TenantAdmission
from filters import Filter, Topic, parse_clark
from gateway.atna.room import AtnaRoom
from gateway.delivery import WorkSharing
from gateway.delivery.attempt import MayGet
from gateway.discovery.node_factory import DiscoveryUnusable
from gateway.discovery.rights import event_verifier
from gateway.discovery.room import TopicProtection, protect_topics
from gateway.discovery.settings import DiscoverySettings
from gateway.http import HttpSettings
from gateway.http.limits import limits_of
from gateway.identities.room import AuditRoom, IdentityRoom
from gateway.identities.shown_certificates import ShownCertificatesRoom
from gateway.identities.token_roles import TokenRolesRoom
from gateway.model.subscriber_grants import Holds, SubscriberGrant
from gateway.parsing import Parsing
from gateway.publishing.archive import Archive
from gateway.publishing.event_copies import Copies, load_copies
from gateway.publishing.room import (
    ArchiveRoom,
    CopiesRoom,
    ProducerRoom,
)
from gateway.replicas.join import join
from gateway.replicas.membership import StoreInUse
from gateway.security.audit import NO_AUDIT, Audit, AuditLog
from gateway.security.demands import Demands
from gateway.security.networks import networks
from gateway.server.data_folder import DataInUse
from gateway.server.messaging import MessagingRoom, open_adapter
from gateway.server.peers import Listening, peers_of
from gateway.server.state import RunState
from gateway.server.storage import open_storage
from gateway.server.telemetry import TelemetryRoom
from gateway.settings.settings import WITHIN, Settings
from gateway.signed_topics.requirements import Requirement
from gateway.signed_topics.room import SignedTopicsRoom
from gateway.signed_topics.settings import MAX_AGE
from gateway.soap.replay_cache import ReplayCache
from gateway.soap.room import endpoint_rules
from gateway.subscriptions.table import SubscriptionTable
from gateway.web.dependencies import Asking
from mediation.discovery import EventSigners
from mediation.model.messages import Subscription


class Foundation:
    """What all rooms stand on: the store, the messaging system, the gateway as a producer.

    Args:
        filters: Returns the filters with which the messaging system starts.
    """

    def __init__(
        self,
        settings: Settings,
        listening: Listening,
        filters: Callable[[], Mapping[str, Filter]],
    ) -> None:
        self._filters = filters
        self.settings = settings
        self.listening = listening
        self.state = RunState()
        self.peers = peers_of(settings, listening)
        self.parsing = Parsing()
        self.admission = TenantAdmission()
        self.table = SubscriptionTable()
        self.limits = limits_of(settings.documents)
        http = HttpSettings(
            settings.public_url,
            frozenset(name.lower() for name in settings.hosts),
            networks(settings.trusted_proxies),
            settings.messenger_prefixes,
            (settings.client_certificate_header or "").lower(),
            self.peers.identification.counts,
        )
        identities, identification = self.peers.identities, self.peers.identification
        self.audit: Audit = NO_AUDIT
        self.audit_room: AuditRoom | None = None
        self.identity: IdentityRoom | None = None
        self.atna: AtnaRoom | None = None
        if identities is not None:
            log = AuditLog(
                settings.audit or settings.data / "audit.jsonl",
                settings.audit_days,
                documents=settings.atna is not None,
            )
            self.audit, self.audit_room = log, AuditRoom(log, identities.path)
            if settings.atna is not None:
                self.atna = AtnaRoom(settings.atna, log.path, self.peers.base)
        self.token_roles: TokenRolesRoom | None = None
        self.shown_certificates: ShownCertificatesRoom | None = None
        self.telemetry = TelemetryRoom() if settings.telemetry else None
        self.spans = self.telemetry.spans if self.telemetry else None
        draining = self.state.is_draining
        secured = settings.ws_security
        self.demands = Demands.of(secured.required, secured.encrypted)
        sessions = self.peers.sessions
        self.asking = Asking(
            http, identification, draining, sessions, self.audit, demands=self.demands
        )

    async def make(self, undo: contextlib.AsyncExitStack) -> None:
        """Open the store and make the messaging system; what is opened *undo* closes.

        Raises:
            DataInUse: Another process has the data folder, or the store.
            Refused: Something cannot be opened; the text says what.
        """
        await self._open_storage(undo)
        await self._connect_messaging()

    async def _open_storage(self, undo: contextlib.AsyncExitStack) -> None:
        identification = self.peers.identification
        self.storage = await open_storage(self.settings, self.listening, identification, undo)
        self.store = self.storage.store
        if identification.authentication is not None:
            identification.authentication.count_nonce = ReplayCache(self.store).use

    async def _connect_messaging(self) -> None:
        settings = self.settings
        adapter = open_adapter(settings)
        self.capabilities = adapter.capabilities
        try:
            self.sharing: WorkSharing = await join(self.store, self.capabilities, settings.data)
        except StoreInUse as in_use:
            raise DataInUse(in_use.reason, in_use.text) from in_use
        if (file := self.peers.identities) is not None:
            identification, shared = self.peers.identification, self.sharing.shared
            self.identity = IdentityRoom(
                file,
                identification,
                self.audit,
                self.store,
                settings.believed_authorities,
                shared=shared,
            )
            self.token_roles = TokenRolesRoom(self.store, identification, shared=shared)
            self.shown_certificates = ShownCertificatesRoom(
                self.store, identification, shared=shared
            )
            if (clients := self.listening.clients) is not None:
                clients.changed = lambda: identification.certificates_changed()
        self.protection = await self._protect_topics()
        self.signed_topics = self._signed_topics()
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
            once=self._once(),
            passes=signed.checks.is_signed if (signed := self._signed_native) else None,
            producer=self.producer.documents.of,
            admission=self.admission,
        )
        self.messaging = MessagingRoom(self.filtering, self._filters, self.table.owner)

    async def _protect_topics(self) -> TopicProtection | None:
        if not self.settings.discovery_node:
            return None
        return await protect_topics(
            node_settings(self.settings),
            self.store,
            trusts=self.peers.identification.trusts_owner,
            addresses=self.peers.bases,
            named=self.settings.public_url is not None,
            shared=self.sharing.shared,
        )

    def _signed_topics(self) -> SignedTopicsRoom | None:
        rows, protection = self.settings.signed_topics, self.protection
        if protection is not None:
            advertised = advertised_requirements(protection)
            return SignedTopicsRoom(rows, self.store, self.parsing, advertised)
        return SignedTopicsRoom(rows, self.store, self.parsing) if rows else None

    @property
    def _signed_native(self) -> SignedTopicsRoom | None:
        """What checks the signatures of native messages. To a messaging system that is within
        nobody writes but gateways, which have checked them."""
        return None if self.settings.scheme in WITHIN else self.signed_topics

    def _once(self) -> Callable[[Delivery], Awaitable[Delivery | None]] | None:
        """What decides of each message whether it is delivered; None: all are."""
        rights = self.rights.once if self.rights else None
        if self.signed_topics is None:
            return rights
        signed: Callable[[Delivery], Awaitable[Delivery | None]] = (
            self.signed_topics.checks.once
            if self._signed_native is not None
            else self.signed_topics.checks.remember
        )
        if rights is None:
            return signed

        async def both(delivery: Delivery) -> Delivery | None:
            passed = await signed(delivery)
            return None if passed is None else await rights(passed)

        return both

    @property
    def may_get(self) -> MayGet | None:
        """Whether a subscriber may get what is on a topic now, by the rules and by what its
        creator has granted; None: everybody may get everything."""
        identification, rights = self.peers.identification, self.rights
        if rights is None and not identification.required:
            return None

        def may_get(subscription: Subscription, topic: Topic | None) -> bool:
            if not identification.may_receive(subscription.owner, topic):
                return False
            return rights is None or topic is None or rights.may_get_current(topic, subscription)

        return may_get

    @property
    def grant_holds(self) -> Holds | None:
        """Whether the right is still good by which a mailbox was given a message; None: no rules
        say who may have what."""
        identification, rights = self.peers.identification, self.rights
        if rights is None and not identification.required:
            return None

        def holds(grant: SubscriberGrant) -> bool:
            topics = [parse_clark(text) if text else None for text in grant.topics]
            return all(
                identification.may_receive(grant.owner, topic)
                and (rights is None or topic is None or rights.still_holds(topic, grant.delegation))
                for topic in topics
            )

        return holds

    def _share_of(self, key: str) -> str | None:
        """The owner whose share of time a filter uses: a stranger has one share for all filters."""
        owner = self.table.owner(key)
        trusted = owner is None or self.peers.identification.trusts_owner(owner)
        return None if trusted else owner


def advertised_requirements(
    protection: TopicProtection,
) -> Callable[[Topic], Requirement | None]:
    """What tells who has to sign the events of a topic, by the word of its creator."""
    trust = protection.node.verifier.trust
    verifier = event_verifier(trust)

    def find(topic: Topic) -> Requirement | None:
        demand = protection.topics.demand_of(topic)
        if demand is None:
            return None
        alone = demand.signers is EventSigners.CREATOR
        names = frozenset({demand.creator}) if alone else frozenset[str]()
        return Requirement(verifier, names, MAX_AGE)

    return find


def node_settings(settings: Settings) -> DiscoverySettings:
    """The settings of the node that *settings* want.

    Raises:
        DiscoveryUnusable: There are none.
    """
    if settings.discovery is None:
        why = "the table is missing, with the key and the certificate of the node"
        raise DiscoveryUnusable("key", why)
    return settings.discovery
