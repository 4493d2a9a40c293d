"""``stomp:`` and ``stomp+ssl:``, the adapter of ActiveMQ, and of others that speak STOMP 1.2."""

import asyncio
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Self

from adapters.broker.adapter import BrokerAdapter
from adapters.broker.connection_state import state_of
from adapters.broker.outages import Outages
from adapters.broker.prefetch import Arrival, fault_of
from adapters.broker.reconnecting import POLITE, Lost, Reconnector, because_of_name
from adapters.options import at_port, with_own
from adapters.protocol import (
    AdapterState,
    AdapterUnavailable,
    Capabilities,
    Delivery,
    Interest,
    Isolated,
)
from adapters.stomp.address import Setup, read_setup
from adapters.stomp.connection import Connection
from adapters.stomp.consuming import Consuming
from adapters.stomp.messages import write
from adapters.stomp.partitions import PartitionConsumers
from adapters.stomp.publishing import Message, Publishing
from adapters.stomp.removing import remove
from adapters.stomp.systems import System, reads_java
from mediation.model.messages import Notification

__all__ = ["StompAdapter"]


class StompAdapter(BrokerAdapter[Message]):
    """The adapter of STOMP. `docs/activemq.md` has the settings.

    Args:
        folder: Keeps the file of `adapters.stomp.topology`.
    """

    _consuming: Consuming
    _publishing: Publishing

    def __init__(self, setup: Setup, folder: Path) -> None:
        self._setup = setup
        self.capabilities = Capabilities(
            durable=True,
            partitions=len(setup.partitions),
            dialects=setup.dialects,
            prefetch=setup.prefetch,
            reporting=lambda: self.state,
            sharing=self if setup.shareable else None,
            selecting=_interest_of,
            unreadable=fault_of,
            refusals=self,
            queues=tuple(
                setup.system.consuming(one, setup.prefetch)["destination"]
                for one in setup.partitions
            ),
        )
        consuming = Consuming(
            setup,
            folder,
            lambda: self._consumer.retry_after,
            lambda: self._consumer.state.told,
        )
        publishing = Publishing(setup.system, lambda: self._publisher.retry_after)
        outages = Outages("stomp")
        self._partition_consumers = PartitionConsumers(
            consuming, self._open_as, setup.name, outages
        )
        super().__init__(
            consuming,
            publishing,
            self._partition_consumers,
            Reconnector(outages, "consuming", self._open_consumer, consuming.serve),
            Reconnector(outages, "publishing", self._open_publisher, publishing.serve),
        )
        self._java = False
        """True if the broker needs the text of text messages in Java's UTF-8."""

    @classmethod
    def from_url(cls, url: str, *, data: Path, settings: Mapping[str, str]) -> Self:
        return cls(read_setup(url, settings), data)

    @classmethod
    def isolate(
        cls, url: str, settings: Mapping[str, str], *, name: str, through: int | None = None
    ) -> Isolated:
        """As `Isolating.isolate`."""
        own = {"name": name, "root": name}
        url, settings = with_own(url, settings, own, without=("destinations", "prefix."))
        address = read_setup(url, settings).address
        if through is not None:
            url = at_port(url, through)
            if address.tls is not None:
                settings.setdefault("server-name", address.host)
        return Isolated(url, settings, (address.host, address.port))

    async def remove(self) -> Collection[str]:
        """As `Isolating.remove`. STOMP cannot delete a queue of ActiveMQ: it is emptied."""
        try:
            connection = await Connection.open(self._setup.address)
            try:
                return await remove(connection, self._setup)
            finally:
                await connection.close(POLITE)
        except Lost as exc:
            raise AdapterUnavailable(str(exc)) from exc

    @property
    def state(self) -> AdapterState:
        """The state of both connections."""
        return state_of(
            (self._consumer.state, self._publisher.state),
            blocked=self._publishing.stalled,
            wrapped=self._consuming.forced.total,
            unreadable=self._consuming.unreadable.total,
            stopped_by=self._consuming.stoppages.text,
        )

    def share(self) -> None:
        """As `Sharing.share`. Selectors are not offered then: each needs a durable subscription,
        which only one gateway can have."""
        self._consuming.shared = True
        self.capabilities = replace(self.capabilities, dialects=())

    async def close(self) -> None:
        await asyncio.gather(super().close(), self._partition_consumers.close())

    def _check_queues(self, notifications: Collection[Notification]) -> None:
        if not self._consuming.established and any(map(self._consuming.cover, notifications)):
            raise self._consuming.without_queue()

    async def _open_consumer(self) -> Connection:
        """Connect with the gateway's name as client id, so that a second gateway of that name is
        refused; without one if gateways share the work."""
        return await self._open_as(None if self._consuming.shared else self._setup.name)

    async def _open_as(self, client_id: str | None) -> Connection:
        try:
            return await self._checked(await Connection.open(self._setup.address, client_id))
        except Lost as exc:
            if "already connected" in str(exc):
                raise because_of_name(client_id or self._setup.name, Lost("")) from exc
            raise

    async def _open_publisher(self) -> Connection:
        try:
            connection = await self._checked(await Connection.open(self._setup.address))
        except Lost:
            self._publishing.publications.give_up()
            raise
        self._java = self._setup.system.java and reads_java(connection.server)
        return connection

    async def _checked(self, connection: Connection) -> Connection:
        """Return *connection* if it leads to a broker of the kind that is configured."""
        server = connection.server
        if server and not server.startswith(self._setup.system.server):
            await connection.close(0)
            raise Lost(f"the broker calls itself {server[:80]!r}: see the setting 'system'")
        return connection

    def _message(self, notification: Notification) -> Message:
        system = self._setup.system
        headers, body = write(notification, java=self._java, sized=system.sized, lossy=system.java)
        there = self._setup.destinations.destination(notification.topic)
        place = system.publishing(there, text=not notification.attachments)
        return Message(
            notification, {**headers, **place, **_life(system, notification.expires)}, body
        )


def _life(system: System, expires: datetime | None) -> Mapping[str, str]:
    """Return the headers that tell the broker when a message expires; none of what is over already:
    the gateway's own queue must have it, so that it is counted."""
    if expires is None:
        return {}
    at = round(expires.timestamp() * 1000)
    left = at - round(time.time() * 1000)
    return system.expiring(at, left) if left > 0 else {}


def _interest_of(delivery: Delivery) -> Interest | None:
    assert isinstance(delivery, Arrival)
    return delivery.interest
