"""The room of topic discovery, where the gateway is a node."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from secrets import token_bytes

import structlog

from filters import Filter
from gateway.discovery.node import Node
from gateway.discovery.node_factory import make_node, store_limits
from gateway.discovery.protected_topics import ProtectedTopics
from gateway.discovery.revocations import Revocations
from gateway.discovery.rights import TopicRights
from gateway.discovery.seal_numbers import SealNumbers
from gateway.discovery.seals import SECRET, SECRET_OCTETS, Seals
from gateway.discovery.service import DiscoveryService, Publishing, Subscribers
from gateway.discovery.settings import DiscoverySettings
from gateway.observing.samples import Sample
from gateway.rooms import Room, Work
from gateway.store import Store, StoreUnavailable, answered_in_time, secrets

_log = structlog.get_logger("dragoman.discovery")


class TopicProtection:
    """The topics that a node protects, and the rights to them.

    Args:
        trusts: Returns True if an owner of subscriptions is trusted.
        addresses: The URLs at which the gateway is reached.
        shared: Other gateways use the store, too.
    """

    def __init__(
        self,
        settings: DiscoverySettings,
        store: Store,
        seals: Seals,
        *,
        trusts: Callable[[str], bool],
        addresses: frozenset[str],
        shared: bool,
    ) -> None:
        self.node: Node = make_node(settings)
        self.topics = ProtectedTopics(settings.close_unknown)
        self.revocations = Revocations(settings.revoked)
        self.rights = TopicRights(
            self.topics,
            store,
            self.node.verifier,
            seals=seals,
            numbers=SealNumbers(store, shared=shared),
            trusts=trusts,
            revocations=self.revocations,
            addresses=addresses,
            needs_digest=settings.require_digest,
            limits=store_limits(settings),
        )


async def protect_topics(
    settings: DiscoverySettings,
    store: Store,
    *,
    trusts: Callable[[str], bool],
    addresses: frozenset[str],
    named: bool,
    shared: bool,
) -> TopicProtection:
    """Make the node of *settings*, and the protection of its topics; see `TopicProtection`.

    Args:
        named: The settings have the address at which the gateway is reached.

    Raises:
        DiscoveryUnusable: A node cannot be made from *settings*.
    """
    if not named:
        _log.warning(
            "discovery.public-url-missing",
            why="proofs of possession count where they name an address of this gateway; "
            "without public_url these are only those where it listens",
            addresses=sorted(addresses),
        )
    # All gateways that have the store seal publications with the same secret.
    take = partial(secrets.take, name=SECRET, fresh=token_bytes(SECRET_OCTETS))
    seals = Seals(await store.submit(take, locks=(secrets.LOCK,)))
    return TopicProtection(
        settings, store, seals, trusts=trusts, addresses=addresses, shared=shared
    )


class DiscoveryRoom(Room):
    """A running node.

    Args:
        subscribers: Subscribers of protected topics.
        keeps_house: Returns True if this gateway does what one does for all.
    """

    def __init__(
        self,
        settings: DiscoverySettings,
        store: Store,
        protection: TopicProtection,
        publishing: Publishing,
        subscribers: Subscribers,
        *,
        shared: bool,
        keeps_house: Callable[[], bool],
    ) -> None:
        self.rights = protection.rights
        self.service = DiscoveryService(
            protection.node,
            store,
            publishing,
            shared=shared,
            protected=protection.topics,
            revocations=protection.revocations,
            subscribers=subscribers,
            keeps_house=keeps_house,
            limits=store_limits(settings),
        )

    @property
    def filters(self) -> Mapping[str, Filter]:
        """The filter of the node's own subscription."""
        return {self.service.key: self.service.filter}

    def works(self) -> Iterable[Work]:
        return self.service.run, self.rights.numbers.run

    def metrics(self) -> Iterable[Sample]:
        yield from self.rights.metrics()
        yield from self.service.metrics()

    async def start(self) -> None:
        await self.service.start()
        await self.rights.numbers.start()

    async def close(self) -> None:
        with suppress(StoreUnavailable):
            await answered_in_time(self.rights.close())
