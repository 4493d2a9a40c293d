"""The data folder, the store, and the messaging system with what stands around it."""

import contextlib
from functools import partial
from secrets import token_bytes

import structlog

from adapters import Adapter, XPathFilterAdapter, load
from adapters.loading import RestartingAdapter
from gateway.delivery import WorkSharing
from gateway.discovery.opening import DiscoveryUnusable, make_node, store_limits
from gateway.discovery.rights import TopicRights
from gateway.discovery.seal_numbers import SealNumbers
from gateway.discovery.seals import SECRET, SECRET_OCTETS, Seals
from gateway.discovery.service import DiscoveryService
from gateway.model.hosts import host_and_port
from gateway.publishing.archive import Archive
from gateway.publishing.event_copies import make_copies
from gateway.publishing.spool import Publisher, Spool
from gateway.replicas.join import join
from gateway.replicas.membership import StoreInUse
from gateway.server.data_folder import DataInUse, lock
from gateway.server.parts import (
    Listening,
    Messaging,
    Peers,
    Storage,
)
from gateway.settings.settings import WITHIN, Settings
from gateway.store import Store, secrets
from gateway.store.disk_reserve import Reserve
from gateway.subscriptions.table import SubscriptionTable

_log = structlog.get_logger("dragoman.discovery")


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
    capabilities = adapter.capabilities
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
        messages=settings.spool_messages,
        octets=settings.spool_bytes,
        spools=settings.spool,
        shared=sharing.shared,
        drains=lambda: sharing.keeps_house,
    )
    await spool.start()  # An earlier run with a spool may have left some.
    discovery = _discovery(settings, storage, spool, sharing)
    rights = None
    if discovery is not None and settings.discovery is not None:
        if settings.public_url is None:
            _log.warning(
                "discovery.public-url-missing",
                why="proofs of possession count where they name an address of this gateway; "
                "without public_url these are only those where it listens",
                addresses=sorted(peers.bases),
            )
        rights = TopicRights(
            discovery,
            storage.store,
            discovery.node.verifier,
            seals=Seals(await _secret(storage.store)),
            numbers=SealNumbers(storage.store, shared=sharing.shared),
            trusts=trusts,
            revoked=settings.discovery.revoked,
            addresses=peers.bases,
            needs_digest=settings.discovery.require_digest,
            limits=store_limits(settings.discovery),
        )
        filtering.once = rights.once
    return Messaging(
        filtering, capabilities, sharing, archive, copies, spool, table, discovery, rights
    )


async def _secret(store: Store) -> bytes:
    """That of all gateways that have *store*, with which they seal publications."""
    take = partial(secrets.take, name=SECRET, fresh=token_bytes(SECRET_OCTETS))
    return await store.submit(take, locks=(secrets.LOCK,))


def _discovery(
    settings: Settings, storage: Storage, publishing: Publisher, sharing: WorkSharing
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
        shared=sharing.shared,
        closes_unknown=settings.discovery.close_unknown,
        keeps_house=lambda: sharing.keeps_house,
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
