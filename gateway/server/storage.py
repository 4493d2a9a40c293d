"""The data folder, locked, and the store in it."""

import contextlib
from collections.abc import Iterable

from gateway.model.hosts import host_and_port
from gateway.observing.samples import Sample
from gateway.rooms import Room
from gateway.security.identify import Identification
from gateway.security.intake import Intake
from gateway.sequences.sequences import is_trusted
from gateway.server.data_folder import FolderLock, lock
from gateway.server.peers import Listening
from gateway.settings.settings import Settings
from gateway.store import Store
from gateway.store.disk_reserve import Reserve
from gateway.store.owner_bytes import OwnerBytes
from gateway.store.tenant_backlogs import TenantBacklogs

STORE_AT_END = 5.0
"""Seconds that anybody waits for the store when the gateway stops."""


class StorageRoom(Room):
    """The lock of the data folder and the store, open."""

    def __init__(
        self,
        settings: Settings,
        folder: FolderLock,
        store: Store,
        identification: Identification,
    ) -> None:
        trusts = identification.trusts_owner
        self._folder = folder
        self.store = store
        self.reserve = Reserve(
            store.folder, settings.store_reserve, inside=lambda: store.free_inside
        )
        self.intake = Intake(self.reserve.take)
        self.owner_bytes = OwnerBytes(
            store,
            trusts=lambda owner: is_trusted(owner) or trusts(owner),
            most=settings.owner_bytes,
            in_all=settings.strangers_bytes,
            tenants=identification.tenants,
        )
        self.tenant_backlogs = TenantBacklogs(store, identification.tenants)

    def metrics(self) -> Iterable[Sample]:
        yield from self.store.metrics()
        yield from self.owner_bytes.metrics()

    def drain(self) -> None:
        self.store.hurry(STORE_AT_END)

    async def close(self) -> None:
        await self.store.close()
        self._folder.release()


async def open_storage(
    settings: Settings,
    listening: Listening,
    identification: Identification,
    undo: contextlib.AsyncExitStack,
) -> StorageRoom:
    """Lock the data folder and open the store; *undo* closes them.

    Args:
        identification: Says which owners are trusted, and which tenants there are.
    """
    folder = lock(settings.data)
    undo.callback(folder.release)
    folder.write_address(f"{settings.web_scheme}://{host_and_port(*listening.own)}")
    url = settings.store.get_secret_value() if settings.store else None
    safe = settings.survive_power_loss
    store = Store(url, power_safe=safe) if url else Store.at(settings.data, power_safe=safe)
    undo.push_async_callback(store.close)
    await store.start()
    return StorageRoom(settings, folder, store, identification)
