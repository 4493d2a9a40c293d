"""The one choice of how the work is shared: alone, or with other gateways."""

from pathlib import Path

from adapters import Capabilities
from gateway.delivery import WorkSharing
from gateway.replicas.alone import Alone
from gateway.replicas.membership import enter, replica_name
from gateway.replicas.partitions import Replicas
from gateway.store import Store


async def join(store: Store, capabilities: Capabilities, folder: Path) -> WorkSharing:
    """Make this gateway, with its data in *folder*, one of those that use *store*.

    The work is shared where both the store and the messaging system can be.

    Raises:
        StoreInUse: The messaging system is for one gateway, and another one uses the store.
    """
    if not store.may_be_shared:
        return Alone(store)
    power = capabilities.sharing
    replica = replica_name(folder)
    number = await enter(store, replica, alone=power is None)
    if power is None:
        return Alone(store, replica=replica, number=number)
    store.number(number)
    power.share()
    return Replicas(store, power, count=capabilities.partitions, replica=replica, number=number)
