"""``amqp:`` and ``amqps:``, the adapter of RabbitMQ (AMQP 0-9-1)."""

import logging
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Self

from adapters.broker.adapter import BrokerAdapter
from adapters.broker.connection_state import state_of
from adapters.broker.outages import Outages
from adapters.broker.prefetch import fault_of
from adapters.broker.reconnecting import POLITE, Lost, Reconnector
from adapters.options import at_port, with_own
from adapters.protocol import AdapterState, AdapterUnavailable, Capabilities, Interest, Isolated
from adapters.rabbitmq.address import Setup, read_setup
from adapters.rabbitmq.connection import Connection
from adapters.rabbitmq.consuming import Consuming
from adapters.rabbitmq.headers import read_all_values
from adapters.rabbitmq.messages import write
from adapters.rabbitmq.publishing import Message, Publishing
from adapters.rabbitmq.topology import (
    PARTITIONS,
    Names,
    declare_exchanges,
    foreign_exchanges,
    remove,
)
from mediation.model.messages import Notification

SHARED_HEARTBEAT = 4
"""Seconds, where gateways share the queues: the broker lets go of what a gateway consumes that was
silent for up to two of them."""

__all__ = ["RabbitMQAdapter"]


class RabbitMQAdapter(BrokerAdapter[Message]):
    """The adapter of RabbitMQ. `docs/rabbitmq.md` has the settings."""

    _consuming: Consuming
    _publishing: Publishing

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
            queues=tuple(Names(setup.exchange, setup.name).queues),
        )
        consuming = Consuming(
            setup, lambda: self._consumer.retry_after, lambda: self._consumer.state.told
        )
        publishing = Publishing(
            "rabbitmq",
            self._declare,
            unroutable=consuming.renew,
            retry_after=lambda: self._publisher.retry_after,
        )
        outages = Outages("rabbitmq")
        super().__init__(
            consuming,
            publishing,
            consuming,
            Reconnector(outages, "consuming", self._connect, consuming.serve),
            Reconnector(outages, "publishing", self._open_publisher, publishing.serve),
        )

    @classmethod
    def from_url(cls, url: str, *, data: Path, settings: Mapping[str, str]) -> Self:
        return cls(read_setup(url, settings))

    @classmethod
    def isolate(
        cls, url: str, settings: Mapping[str, str], *, name: str, through: int | None = None
    ) -> Isolated:
        """As `Isolating.isolate`."""
        own = {"name": name, "exchange": name, "root": name}
        url, settings = with_own(url, settings, own, without=("destinations", "prefix."))
        parameters = read_setup(url, settings).parameters
        if through is not None:
            url = at_port(url, through)
            if parameters.ssl_options is not None:
                settings.setdefault("server-name", parameters.host)
        return Isolated(url, settings, (parameters.host, parameters.port))

    async def remove(self) -> Collection[str]:
        """As `Isolating.remove`."""
        try:
            connection = await self._connect()
            try:
                await remove(connection, Names(self._setup.exchange, self._setup.name))
            finally:
                await connection.close(POLITE)
        except Lost as exc:
            raise AdapterUnavailable(str(exc)) from exc
        return ()

    async def start(self, interests: Collection[Interest]) -> None:
        logging.getLogger("pika").setLevel(logging.CRITICAL)  # We log what matters.
        read_all_values()
        await super().start(interests)

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

    def share(self) -> None:
        """As `Sharing.share`. Consumers are exclusive then, so the order of a partition is
        kept when it changes hands: the broker must soon notice that a gateway is gone."""
        self._consuming.shared = True
        parameters = self._setup.parameters
        parameters.heartbeat = min(parameters.heartbeat, SHARED_HEARTBEAT)

    async def _connect(self) -> Connection:
        return await Connection.open(self._setup.parameters)

    async def _open_publisher(self) -> Connection:
        try:
            return await self._connect()
        except Lost:
            self._publishing.publications.give_up()
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
