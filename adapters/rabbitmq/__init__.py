"""``amqp:`` and ``amqps:``, the adapter of RabbitMQ (AMQP 0-9-1)."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from pathlib import Path
from typing import Self

from adapters.broker.connection_state import state_of
from adapters.broker.outages import Outages
from adapters.broker.prefetch import Arrival, PrefetchedDelivery, fault_of
from adapters.broker.reconnecting import Lost, Reconnector, start_all
from adapters.deduplication import Repeats
from adapters.protocol import (
    AdapterState,
    AdapterUnavailable,
    Capabilities,
    Delivery,
    Interest,
    PublicationRefused,
)
from adapters.rabbitmq.address import Setup, read_setup
from adapters.rabbitmq.connection import Connection
from adapters.rabbitmq.consuming import Consuming
from adapters.rabbitmq.headers import read_all_values
from adapters.rabbitmq.messages import write
from adapters.rabbitmq.publishing import Message, Publishing
from adapters.rabbitmq.topology import PARTITIONS, declare_exchanges, foreign_exchanges
from mediation.model.messages import Notification

SHARED_HEARTBEAT = 4
"""Seconds, where gateways share the queues: the broker lets go of what a gateway consumes that was
silent for up to two of them."""

__all__ = ["RabbitMQAdapter"]


class RabbitMQAdapter:
    """The adapter of RabbitMQ. `docs/rabbitmq.md` has the settings.

    The adapter starts and goes on when the broker cannot be reached: publishers are refused
    meanwhile, and the connections are opened again until they hold.

    The ids of publishers are remembered once the broker has confirmed them, as long as the
    process lives.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self.capabilities = Capabilities(
            durable=True,
            partitions=PARTITIONS,
            prefetch=setup.prefetch,
            reporting=lambda: self.state,
            sharing=self,
            unreadable=fault_of,
            refusals=self,
        )
        self._consuming = Consuming(
            setup, lambda: self._consumer.retry_after, lambda: self._consumer.state.told
        )
        self._publishing = Publishing(
            "rabbitmq",
            self._declare,
            unroutable=self._consuming.renew,
            retry_after=lambda: self._publisher.retry_after,
        )
        outages = Outages("rabbitmq")
        self._consumer = Reconnector(outages, "consuming", self._connect, self._consuming.serve)
        self._publisher = Reconnector(
            outages, "publishing", self._open_publisher, self._publishing.serve
        )
        self._repeats = Repeats()
        self._open = False

    @classmethod
    def from_url(cls, url: str, *, data: Path, settings: Mapping[str, str]) -> Self:
        return cls(read_setup(url, settings))

    async def start(self, interests: Collection[Interest]) -> None:
        """As `Adapter.start`, but does not fail when the broker cannot be reached."""
        logging.getLogger("pika").setLevel(logging.CRITICAL)  # We log what matters.
        read_all_values()
        self._consuming.begin(interests)
        self._open = True
        await start_all((self._consumer, self._publisher))

    async def publish(self, notifications: Sequence[Notification]) -> None:
        if not self._open:
            raise AdapterUnavailable("the adapter is closed")
        fresh = self._repeats.unknown(notifications)
        if fresh:
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

    @property
    def state(self) -> AdapterState:
        """The state of both connections."""
        return state_of(
            (self._consumer.state, self._publisher.state),
            blocked=self._publishing.blocked,
            wrapped=self._consuming.forced.total,
            unreadable=self._consuming.unreadable.total,
            stopped_by=self._consuming.stoppages.text,
            gone=self._consuming.gone,
        )

    async def want(self, interest: Interest) -> None:
        await self._consuming.want(interest)

    async def unwant(self, interest: Interest) -> None:
        await self._consuming.unwant(interest)

    def share(self) -> None:
        """As `Sharing.share`. Consumers are exclusive then, so the order of a partition is
        kept when it changes hands: the broker must soon notice that a gateway is gone."""
        self._consuming.shared = True
        parameters = self._setup.parameters
        parameters.heartbeat = min(parameters.heartbeat, SHARED_HEARTBEAT)

    async def adopt(self, interest: Interest) -> None:
        await self._consuming.adopt(interest)

    def take(self, partition: int) -> None:
        self._consuming.take(partition)

    async def release(self, partition: int) -> None:
        await self._consuming.release(partition)

    def arrived(self, delivery: Delivery) -> float:
        assert isinstance(delivery, Arrival)
        return delivery.arrived

    def deliveries(self) -> AsyncIterator[PrefetchedDelivery]:
        return self._consuming.deliveries()

    async def close(self) -> None:
        self._open = False
        self._consuming.close()
        self._publishing.give_up()
        await asyncio.gather(self._consumer.close(), self._publisher.close())

    async def _connect(self) -> Connection:
        return await Connection.open(self._setup.parameters)

    async def _open_publisher(self) -> Connection:
        try:
            return await self._connect()
        except Lost:
            self._publishing.give_up()
            raise

    async def _declare(self, connection: Connection) -> None:
        others = foreign_exchanges(self._setup.destinations)
        await declare_exchanges(connection, self._setup.exchange, others)

    def _message(self, notification: Notification) -> Message:
        there = self._setup.destinations.destination(notification.topic)
        properties, body = write(notification)
        return Message(
            notification,
            there.exchange or self._setup.exchange,
            there.name,
            properties,
            body,
            self._consuming.cover(notification),
        )
