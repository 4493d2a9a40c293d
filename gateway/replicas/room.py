"""The room that shares the work with other gateways."""

from collections.abc import Awaitable, Callable, Iterable

from gateway.delivery import (
    Dispatcher,
    Dispatchers,
    KnownSubscriptions,
    PartitionShare,
    WorkSharing,
)
from gateway.observing.samples import Sample
from gateway.rooms import Room, Work


class SharingRoom(Room):
    """Deliveries of this gateway, which begin and end with its share of the work.

    Args:
        learn: Learns what other gateways have changed of *subscriptions*.
        make_dispatcher: Makes the dispatcher of a share.
        drain: Seconds that deliveries under way get at the end.
    """

    def __init__(
        self,
        sharing: WorkSharing,
        dispatchers: Dispatchers,
        subscriptions: KnownSubscriptions,
        *,
        learn: Callable[[], Awaitable[None]],
        make_dispatcher: Callable[[PartitionShare], Dispatcher],
        drain: float,
    ) -> None:
        self.sharing = sharing
        self._dispatchers = dispatchers
        self._subscriptions = subscriptions
        self._learn = learn
        self._make_dispatcher = make_dispatcher
        self._drain = drain

    def works_until_closed(self) -> Iterable[Work]:
        # Leases are shorter than what the rooms behind this one may take to close.
        return (self.sharing.run,)

    def metrics(self) -> Iterable[Sample]:
        return self.sharing.metrics()

    async def start(self) -> None:
        await self.sharing.start(
            self._dispatchers, self._subscriptions, self._learn, self._make_dispatcher
        )

    def drain(self) -> None:
        self.sharing.drain()

    async def close(self) -> None:
        await self.sharing.stop(self._drain)
