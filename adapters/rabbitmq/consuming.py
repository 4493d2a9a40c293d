"""Consuming: interests as bindings, messages out of the queues, settlements back."""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial

import pika
from pika import spec

from adapters.broker.destinations import AMQP, Destination, Destinations
from adapters.broker.native import ForcedCount, in_tenant_of
from adapters.broker.prefetch import Arrival, Prefetch, PrefetchedDelivery, Session
from adapters.broker.reconnecting import Reconnect
from adapters.broker.topology_changes import TopologyChanges
from adapters.broker.unreadable import MAX_BODY, Place, Stoppages, UnreadableCount
from adapters.interests import Interests
from adapters.protocol import AdapterUnavailable, Interest
from adapters.rabbitmq.address import Setup
from adapters.rabbitmq.connection import ACCESS_REFUSED, Channel, Connection, Lost
from adapters.rabbitmq.messages import read, salvage, string
from adapters.rabbitmq.topology import Names, NoHashing, Topology, foreign_exchanges
from filters import DEFAULT_TOPIC, Topic, parse_expression
from mediation.model.messages import Notification

AGAIN = 0.25
"""Seconds until a partition that another gateway consumes is asked for again."""

HASHING = "rabbitmq_consistent_hash_exchange"
"""The plug-in that deals messages to partitions."""

logger = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class _Session(Session[int]):
    """The consumption through one channel."""

    channel: Channel
    ended: asyncio.Future[Lost]
    came: int = 0
    """Messages that have come through it."""

    def end(self, why: str) -> None:
        if not self.ended.done():
            self.ended.set_result(Lost(why))

    def acknowledge(self, key: int) -> None:
        try:
            self.channel.acknowledge(key)
        except Lost:
            self.end("a message could not be acknowledged")


_Message = tuple[str, str, pika.BasicProperties, bytes]
"""Exchange, routing key, properties, body."""


class Consuming:
    """Consumes the gateway's queues through the present connection."""

    def __init__(
        self, setup: Setup, retry_after: Callable[[], float], told: Callable[[], str]
    ) -> None:
        self._setup = setup
        self._destinations: Destinations = setup.destinations
        self._names = Names(setup.exchange, setup.name)
        self._interests = Interests()
        self._patterns: Counter[Destination] = Counter()
        self._held: dict[Interest, frozenset[Destination]] = {}
        self._changes: TopologyChanges[Topology] = TopologyChanges("rabbitmq", retry_after, told)
        self._session: _Session | None = None
        self._prefetch: Prefetch[int, _Message] = Prefetch(
            setup.prefetch, self._read, self._salvage
        )
        self._last = Place(", ".join(self._names.queues), "", within=True)
        """The message that came last."""
        self._serving: Connection | None = None
        self._taken: dict[int, asyncio.Task[None]] = {}
        self.shared = False
        """Only partitions that are taken are consumed."""
        self.hashing = setup.hashing
        """The broker deals messages to all partitions; else all are in the first."""
        self.gone: tuple[str, ...] = ()
        """Queues that were deleted in the broker, and made again."""
        self.forced = ForcedCount("rabbitmq")
        self.unreadable = UnreadableCount("rabbitmq")
        self.stoppages = Stoppages("rabbitmq")

    def cover(self, notification: Notification) -> bool:
        return self._interests.cover(notification.topic)

    def begin(self, interests: Collection[Interest]) -> None:
        """Hold *interests*, which the next connection will bind.

        Raises:
            FilterError: One of them is not a topic expression of a known dialect.
        """
        self._interests.replace(interests)
        self._held = {interest: self._patterns_of(interest) for interest in interests}
        self._patterns = Counter(one for patterns in self._held.values() for one in patterns)

    async def want(self, interest: Interest) -> None:
        """As `Adapter.want`."""
        patterns = self._patterns_of(interest)
        async with self._changes.turn() as topology:
            if interest in self._held:
                return
            await topology.bind([one for one in patterns if not self._patterns[one]])
            self._changes.check(topology)
            self._interests.add(interest)
            self._held[interest] = patterns
            self._patterns.update(patterns)

    async def adopt(self, interest: Interest) -> None:
        """As `Sharing.adopt`. If the broker cannot be asked now, the next connection does it."""
        try:
            await self.want(interest)
        except AdapterUnavailable:
            if interest not in self._held:
                patterns = self._patterns_of(interest)
                self._interests.add(interest)
                self._held[interest] = patterns
                self._patterns.update(patterns)
            self.renew()

    def take(self, partition: int) -> None:
        """As `Sharing.take`."""
        if partition not in self._taken:
            self._taken[partition] = asyncio.get_running_loop().create_task(self._keep(partition))

    async def release(self, partition: int) -> None:
        """As `Sharing.release`."""
        task = self._taken.pop(partition, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def unwant(self, interest: Interest) -> None:
        """As `Adapter.unwant`. If it fails, the next connection binds what is wanted then."""
        patterns = self._held.pop(interest, frozenset())
        self._interests.discard(interest)
        self._patterns -= Counter(patterns)
        async with self._changes.turn() as topology:
            await topology.unbind([one for one in patterns if not self._patterns[one]])

    async def serve(self, connection: Connection, ready: Callable[[], None]) -> None:
        """Consume through *connection* until it ends, or a queue is gone."""
        topology = Topology(connection, self._names, self._setup.quorum, self.hashing, self.shared)
        try:
            await topology.set_up(foreign_exchanges(self._destinations), self._patterns.keys())
        except NoHashing as exc:
            self._do_without_hashing()
            raise Reconnect from exc
        self.gone = topology.gone or self.gone
        channel = await connection.channel()
        session = _Session(channel, asyncio.get_running_loop().create_future())
        try:
            self._changes.through = topology
            self._session = session
            channel.closed.add_done_callback(lambda closed: session.end(str(closed.result())))
            if self.shared:
                self._serve_to_partitions(connection)
            else:
                await self._consume(session, list(range(len(self._names.queues))))
            ready()
            await asyncio.wait([session.ended, connection.closed], return_when="FIRST_COMPLETED")
        finally:
            self._changes.through = None
            self._session = None
            self._serving = None
            self._prefetch.end(session)
            self._prefetch.clear()
            if connection.closed.done() and (lost := connection.closed.result()).offended:
                self.stoppages.ended(self._last, str(lost), session.came)
        raise (session.ended if session.ended.done() else connection.closed).result()

    def renew(self) -> None:
        """Set up what stands in the broker again: it is not what it should be."""
        if self._session is not None:
            self._session.end("something of the gateway's is missing in the broker")

    def deliveries(self) -> AsyncIterator[PrefetchedDelivery]:
        """As `Adapter.deliveries`."""
        return self._prefetch.deliveries()

    def close(self) -> None:
        """End the deliveries."""
        for task in self._taken.values():
            task.cancel()
        self._prefetch.close()

    def _patterns_of(self, interest: Interest) -> frozenset[Destination]:
        expression = interest.expression
        pattern = None if expression is None else parse_expression(expression)
        return self._destinations.patterns(pattern, AMQP)

    def _do_without_hashing(self) -> None:
        self.hashing = False
        logger.warning(
            "adapter.partitions_unavailable",
            extra={
                "adapter": "rabbitmq",
                "reason": f"the broker's plug-in {HASHING} is not enabled",
                "effect": f"all messages go through the one queue {self._names.queues[0]}",
                "mend": f"rabbitmq-plugins enable {HASHING}, then restart Dragoman",
            },
        )

    def _serve_to_partitions(self, connection: Connection) -> None:
        """Start consuming the partitions that were taken, through *connection*."""
        self._serving = connection
        for partition, task in list(self._taken.items()):
            if task.done():
                del self._taken[partition]
                self.take(partition)

    async def _keep(self, partition: int) -> None:
        """Consume *partition* through the present connection, until it ends."""
        said = False
        while (connection := self._serving) is not None:
            session: _Session | None = None
            try:
                channel = await connection.channel()
                session = _Session(channel, asyncio.get_running_loop().create_future())
                channel.closed.add_done_callback(partial(_end_with, session))
                await self._consume(session, [partition], exclusive=True)
                await asyncio.wait(
                    [session.ended, connection.closed], return_when="FIRST_COMPLETED"
                )
            except Lost as exc:
                if exc.code != ACCESS_REFUSED and not said:
                    logger.warning(
                        "adapter.partition_refused",
                        extra={"adapter": "rabbitmq", "partition": partition, "reason": str(exc)},
                    )
                    said = True
            finally:
                if session is not None:
                    self._prefetch.end(session)
                    session.channel.hang_up()
            await asyncio.sleep(AGAIN)

    async def _consume(
        self, session: _Session, partitions: Sequence[int], *, exclusive: bool = False
    ) -> None:
        channel = session.channel
        clock = asyncio.get_running_loop().time
        add = self._prefetch.add
        channel.raw.add_on_cancel_callback(lambda _frame: session.end("a queue was deleted"))
        # One topic is one queue, so each may need the whole window.
        await channel.ask(channel.raw.basic_qos, prefetch_count=self._setup.prefetch)
        for partition in partitions:

            def arrived(
                method: spec.Basic.Deliver,
                properties: pika.BasicProperties,
                body: bytes,
                partition: int = partition,
                queue: str = self._names.queues[partition],
            ) -> None:
                message = string(method.exchange), string(method.routing_key), properties, body
                tag, again = method.delivery_tag, method.redelivered
                session.came += 1
                self._last = Place(queue, string(properties.message_id or ""), within=False)
                self.stoppages.came(session.came)
                fault = "" if len(body) <= MAX_BODY else f"its body exceeds {MAX_BODY} bytes"
                tenant = self._destinations.tenant(self._origin(message[0], message[1]))
                add(
                    Arrival(
                        session, tag, message, partition, again, clock(), fault=fault, tenant=tenant
                    )
                )

            await channel.consume(self._names.queues[partition], arrived, exclusive=exclusive)

    def _read(self, arrival: Arrival[int, _Message]) -> Notification | None:
        """Read the notification of *arrival*; None if it came from none of our destinations, or no
        interest covers it."""
        exchange, key, properties, body = arrival.message
        ours, topic = self._topic(exchange, key)
        if not ours:
            return None
        notification, forced = read(
            body,
            properties,
            source=self._setup.source,
            topic=topic,
            own_user=self._setup.user,
        )
        if forced:
            self.forced.add(key)
        return self._wanted(self._in_tenant_of(notification, exchange, key))

    def _salvage(self, arrival: Arrival[int, _Message]) -> Notification | None:
        """As `_read`, of what is left of a message that cannot be read."""
        exchange, key, properties, body = arrival.message
        ours, topic = self._topic(exchange, key)
        if not ours:
            return None
        notification = salvage(body, properties, source=self._setup.source, topic=topic)
        queue = self._names.queues[arrival.partition]
        self.unreadable.add(queue, notification.id, arrival.fault)
        arrival.fault = f"{arrival.fault}; it came from {queue}, routing key {key[:200]}"
        return self._wanted(self._in_tenant_of(notification, exchange, key))

    def _origin(self, exchange: str, key: str) -> Destination:
        return Destination(key, None if exchange == self._names.exchange else exchange)

    def _in_tenant_of(self, notification: Notification, exchange: str, key: str) -> Notification:
        return in_tenant_of(notification, self._destinations, self._origin(exchange, key))

    def _topic(self, exchange: str, key: str) -> tuple[bool, Topic | None]:
        """Return whether a message came from one of our destinations, and the topic of it."""
        own = exchange == self._names.exchange
        topic = self._destinations.topic(self._origin(exchange, key))
        return own or topic is not None, None if topic == DEFAULT_TOPIC else topic

    def _wanted(self, notification: Notification) -> Notification | None:
        # Another gateway may have interests that this one has not heard of yet.
        wanted = self.shared or self._interests.cover(notification.topic)
        return notification if wanted else None


def _end_with(session: _Session, closed: "asyncio.Future[Lost]") -> None:
    session.end(str(closed.result()))
