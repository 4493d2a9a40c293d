"""The couriers of the partitions that this gateway holds, where several gateways share the work.

Each partition has a courier, with outboxes and a ledger of its own, so that one which is lost is
let go of without harm to the others. They have one sender in common: a destination's connections
and its breaker count for all.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping

from adapters import Delivery
from gateway.delivery.dispatcher import Courier
from gateway.delivery.outbox import Entry
from gateway.delivery.scheduler import Sender
from gateway.delivery.settlement import Law, add_up
from gateway.delivery.status import Standing, standing
from gateway.store import Store, totals


class Couriers:
    """As `Courier`, for all partitions together."""

    def __init__(self, store: Store, sender: Sender) -> None:
        self._store = store
        self.sender = sender
        self._of: dict[int, Courier] = {}
        self.elsewhere: Callable[[], tuple[str, ...]] = lambda: ()
        """Who else delivers: the other replicas that hold partitions."""

    @property
    def partitions(self) -> Mapping[int, Courier]:
        return self._of

    @property
    def unsettled(self) -> int:
        """Messages that are not settled."""
        return sum(courier.ledger.messages for courier in self._of.values())

    def add(self, partition: int, courier: Courier) -> None:
        self._of[partition] = courier

    def remove(self, partition: int) -> Courier | None:
        """What comes of *partition* from now on is left to the messaging system."""
        return self._of.pop(partition, None)

    async def room(self) -> None:
        for courier in list(self._of.values()):
            await courier.room()

    def accept(
        self, delivery: Delivery, entries: Iterable[Entry], unfiltered: Iterable[Entry] = ()
    ) -> None:
        courier = self._of.get(delivery.partition)
        if courier is not None:
            courier.accept(delivery, entries, unfiltered)

    def quiet(self, entry: Entry) -> None:
        for courier in self._of.values():
            courier.quiet(entry)

    def resume(self, entry: Entry) -> None:
        for courier in self._of.values():
            courier.resume(entry)

    def end(self, entry: Entry, *, expired: bool = False) -> None:
        entry.ended = True
        for courier in self._of.values():
            courier.end(entry, expired=expired)

    def waits(self, entry: Entry, count: int, octets: int, partition: int) -> None:
        courier = self._of.get(partition)
        if courier is not None:
            courier.waits(entry, count, octets)

    def clear_old(self) -> None:
        for courier in self._of.values():
            courier.clear_old()

    def standing(self, entry: Entry) -> Standing:
        """As `Courier.standing`, as far as it is this gateway that delivers."""
        outboxes = [one for courier in self._of.values() for one in courier.outboxes(entry)]
        return standing(entry, outboxes, self.elsewhere())

    @property
    def open_breakers(self) -> int:
        """As `Courier.open_breakers`."""
        return sum(courier.open_breakers for courier in self._of.values())

    async def counted(self) -> None:
        """As `Courier.counted`."""
        await asyncio.gather(*(courier.counted() for courier in self._of.values()))

    async def law(self) -> Law:
        """The conservation law over the store and what is in this gateway's memory."""
        durable, held, letters = await self._store.submit(totals.overall)
        ledgers = [courier.ledger for courier in self._of.values()]
        return add_up(ledgers, durable, held, letters, self.sender.in_flight)

    async def stop(self, seconds: float) -> None:
        await asyncio.gather(*(courier.stop(seconds) for courier in self._of.values()))
