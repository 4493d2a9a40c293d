"""The dispatchers of the partitions that this gateway holds, where several gateways share the work.

Each partition has a dispatcher, with outboxes and a settlement of its own, so that one which is
lost is let go of without harm to the others. They have one scheduler in common: a destination's
connections and its breaker count for all.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from adapters import Delivery
from gateway.delivery.dispatcher import Dispatcher
from gateway.delivery.outbox import Entry
from gateway.delivery.scheduler import SendScheduler
from gateway.delivery.settlement import Conservation, add_up
from gateway.delivery.status import DeliveryStatus, status_of
from gateway.store import Store, totals


class Dispatchers:
    """As `Dispatcher`, for all partitions together."""

    def __init__(self, store: Store, scheduler: SendScheduler) -> None:
        self._store = store
        self.scheduler = scheduler
        self._of: dict[int, Dispatcher] = {}
        self.elsewhere: Callable[[], tuple[str, ...]] = lambda: ()
        """Who else delivers: the other replicas that hold partitions."""

    @property
    def partitions(self) -> Mapping[int, Dispatcher]:
        return self._of

    @property
    def unsettled(self) -> int:
        """Messages that are not settled."""
        return sum(dispatcher.settlement.messages for dispatcher in self._of.values())

    def add(self, partition: int, dispatcher: Dispatcher) -> None:
        self._of[partition] = dispatcher

    def remove(self, partition: int) -> Dispatcher | None:
        """What comes of *partition* from now on is left to the messaging system."""
        return self._of.pop(partition, None)

    async def room(self) -> None:
        for dispatcher in list(self._of.values()):
            await dispatcher.room()

    def accept(
        self, delivery: Delivery, entries: Iterable[Entry], unfiltered: Iterable[Entry] = ()
    ) -> None:
        dispatcher = self._of.get(delivery.partition)
        if dispatcher is not None:
            dispatcher.accept(delivery, entries, unfiltered)

    def quiet(self, entry: Entry) -> None:
        for dispatcher in self._of.values():
            dispatcher.quiet(entry)

    def resume(self, entry: Entry) -> None:
        for dispatcher in self._of.values():
            dispatcher.resume(entry)

    def end(self, entry: Entry, *, expired: bool = False) -> None:
        entry.ended = True
        for dispatcher in self._of.values():
            dispatcher.end(entry, expired=expired)

    def waits(self, entry: Entry, count: int, octets: int, partition: int) -> None:
        dispatcher = self._of.get(partition)
        if dispatcher is not None:
            dispatcher.waits(entry, count, octets)

    def clear_old(self) -> None:
        for dispatcher in self._of.values():
            dispatcher.clear_old()

    def status(self, entry: Entry) -> DeliveryStatus:
        """As `Dispatcher.status`, as far as it is this gateway that delivers."""
        outboxes = [one for dispatcher in self._of.values() for one in dispatcher.outboxes(entry)]
        return status_of(entry, outboxes, self.elsewhere())

    @property
    def open_breakers(self) -> int:
        """As `Dispatcher.open_breakers`."""
        return sum(dispatcher.open_breakers for dispatcher in self._of.values())

    async def counted(self) -> None:
        """As `Dispatcher.counted`."""
        await asyncio.gather(*(dispatcher.counted() for dispatcher in self._of.values()))

    async def conservation(self) -> Conservation:
        """The conservation law over the store and what is in this gateway's memory."""
        durable, held, letters = await self._store.submit(totals.overall)
        settlements = [dispatcher.settlement for dispatcher in self._of.values()]
        return add_up(settlements, durable, held, letters, self.scheduler.in_flight)

    async def stop(self, seconds: float) -> None:
        await asyncio.gather(*(dispatcher.stop(seconds) for dispatcher in self._of.values()))
