"""The common part of the adapters of brokers: one connection consumes, another one publishes."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Collection, Sequence
from typing import Any, Generic, Protocol, TypeVar

from adapters.broker.prefetch import Arrival, PrefetchedDelivery
from adapters.broker.publications import Outgoing, Publications
from adapters.broker.reconnecting import Reconnector, start_all
from adapters.deduplication import Repeats
from adapters.protocol import AdapterUnavailable, Delivery, Interest, PublicationRefused
from mediation.model.messages import Notification

MessageT = TypeVar("MessageT", bound=Outgoing)


class BrokerConsuming(Protocol):
    """Interests at a broker, and the messages that arrive; the methods are as in `Adapter`."""

    def begin(self, interests: Collection[Interest]) -> None: ...
    async def want(self, interest: Interest) -> None: ...
    async def unwant(self, interest: Interest) -> None: ...
    async def adopt(self, interest: Interest) -> None: ...
    def deliveries(self) -> AsyncIterator[PrefetchedDelivery]: ...
    def close(self) -> None: ...


class PartitionConsuming(Protocol):
    """Partitions that are consumed, as in `Sharing`."""

    def take(self, partition: int) -> None: ...
    async def release(self, partition: int) -> None: ...


class BrokerPublishing(Protocol[MessageT]):
    """Publications through the present connection."""

    publications: Publications[MessageT]

    def publish(self, messages: Sequence[MessageT]) -> Awaitable[None]: ...


class BrokerAdapter(ABC, Generic[MessageT]):
    """An adapter that starts and goes on when its broker cannot be reached: publishers are refused
    meanwhile, and the connections are opened again until they hold.

    The ids of publishers are remembered once the broker has confirmed them, as long as the
    process lives.
    """

    def __init__(
        self,
        consuming: BrokerConsuming,
        publishing: BrokerPublishing[MessageT],
        partitions: PartitionConsuming,
        consumer: Reconnector[Any],
        publisher: Reconnector[Any],
    ) -> None:
        self._consuming = consuming
        self._publishing = publishing
        self._partitions = partitions
        self._consumer = consumer
        self._publisher = publisher
        self._repeats = Repeats()
        self._open = False

    @abstractmethod
    def _message(self, notification: Notification) -> MessageT:
        """Write *notification* for the broker."""

    def _check_queues(self, notifications: Collection[Notification]) -> None:
        """Raise `AdapterUnavailable` where the broker would lose one of *notifications*."""

    async def start(self, interests: Collection[Interest]) -> None:
        """As `Adapter.start`, but does not fail when the broker cannot be reached."""
        self._consuming.begin(interests)
        self._open = True
        await start_all((self._consumer, self._publisher))

    async def publish(self, notifications: Sequence[Notification]) -> None:
        if not self._open:
            raise AdapterUnavailable("the adapter is closed")
        fresh = self._repeats.unknown(notifications)
        if not fresh:
            return
        self._check_queues(fresh.values())
        try:
            await self._publishing.publish([self._message(each) for each in fresh.values()])
        except PublicationRefused as refused:
            self._repeats.remember(refused.taken_of(fresh), time.time())
            raise
        self._repeats.remember(fresh, time.time())

    def refusal_of(self, notification: Notification) -> str | None:
        publications = self._publishing.publications
        return publications.refusal_of(self._message(notification)) if publications.known else None

    def forget(self, notification: Notification) -> None:
        self._publishing.publications.forget(self._message(notification))

    async def want(self, interest: Interest) -> None:
        await self._consuming.want(interest)

    async def unwant(self, interest: Interest) -> None:
        await self._consuming.unwant(interest)

    async def adopt(self, interest: Interest) -> None:
        await self._consuming.adopt(interest)

    def take(self, partition: int) -> None:
        self._partitions.take(partition)

    async def release(self, partition: int) -> None:
        await self._partitions.release(partition)

    def arrived(self, delivery: Delivery) -> float:
        assert isinstance(delivery, Arrival)
        return delivery.arrived

    def deliveries(self) -> AsyncIterator[PrefetchedDelivery]:
        return self._consuming.deliveries()

    async def close(self) -> None:
        self._open = False
        self._consuming.close()
        self._publishing.publications.give_up()
        await asyncio.gather(self._consumer.close(), self._publisher.close())
