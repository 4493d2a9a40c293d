"""Consuming: interests as bindings, messages out of the queues, settlements back."""

import asyncio
import logging
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pika
from pika.exceptions import AMQPError

from adapters.destinations import AMQP, Destination, Destinations
from adapters.interests import Interests
from adapters.keeping import Again
from adapters.protocol import AdapterUnavailable, Interest
from adapters.rabbitmq.address import Setup
from adapters.rabbitmq.connection import ACCESS_REFUSED, Channel, Connection, Lost
from adapters.rabbitmq.messages import read
from adapters.rabbitmq.topology import Names, NoHashing, Topology, foreign_exchanges
from filters import DEFAULT_TOPIC, parse_expression
from mediation import Notification

ASKING = 15.0
"""Seconds that a new interest may take, while others are bound too."""
AGAIN = 0.25
"""Seconds until a partition that another gateway consumes is asked for again."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Session:
    """What was consumed through one channel. Its messages come again once it has ended."""

    channel: Channel
    ended: asyncio.Future[Lost]
    unsettled: int = 0
    open: bool = True

    def end(self, why: str) -> None:
        if not self.ended.done():
            self.ended.set_result(Lost(why))

    def acknowledge(self, tag: int) -> None:
        try:
            self.channel.raw.basic_ack(tag)
        except AMQPError:
            self.end("a message could not be acknowledged")


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A message as it came."""

    session: _Session
    partition: int
    method: Any
    properties: pika.BasicProperties
    body: bytes
    arrived: float


class RabbitMQDelivery:
    """A message of a queue."""

    __slots__ = (
        "_consuming",
        "_notification",
        "_session",
        "_settled",
        "_tag",
        "arrived",
        "partition",
        "redelivered",
    )

    def __init__(
        self, consuming: "Consuming", arrival: _Arrival, notification: Notification
    ) -> None:
        self._consuming = consuming
        self._session = arrival.session
        self._tag = arrival.method.delivery_tag
        self._notification = notification
        self._settled = False
        self.arrived: float = arrival.arrived
        self.partition: int = arrival.partition
        self.redelivered: bool = arrival.method.redelivered

    @property
    def notification(self) -> Notification:
        return self._notification

    def settle(self) -> None:
        """Acknowledge it. After its channel has ended that is void: it comes again."""
        if not self._settled:
            self._settled = True
            self._consuming._settle(self._session, self._tag)


class Consuming:
    """The gateway's queues, through whatever connection there is."""

    def __init__(self, setup: Setup, retry_after: Callable[[], float]) -> None:
        self._setup = setup
        self._destinations: Destinations = setup.destinations
        self._names = Names(setup.exchange, setup.name)
        self._retry_after = retry_after
        self._interests = Interests()
        self._patterns: Counter[Destination] = Counter()
        self._held: dict[Interest, frozenset[Destination]] = {}
        self._changing = asyncio.Lock()
        self._topology: Topology | None = None
        self._session: _Session | None = None
        self._buffer: deque[_Arrival] = deque()
        self._changed = asyncio.Event()
        self._closed = False
        self._serving: Connection | None = None
        self._taken: dict[int, asyncio.Task[None]] = {}
        self.shared = False
        """Only partitions that are taken are consumed."""
        self.hashing = setup.hashing
        """The broker deals messages to all partitions; else all are in the first."""
        self.forced = 0
        """Native messages that were no notifications, and were made some."""

    def cover(self, notification: Notification) -> bool:
        return self._interests.cover(notification.topic)

    def begin(self, interests: Collection[Interest]) -> None:
        """Hold *interests*, which the next connection will bind.

        Raises:
            FilterError: One of them is no topic expression of a known dialect.
        """
        self._interests.replace(interests)
        self._held = {interest: self._patterns_of(interest) for interest in interests}
        self._patterns = Counter(one for patterns in self._held.values() for one in patterns)

    async def want(self, interest: Interest) -> None:
        """As `Adapter.want`."""
        patterns = self._patterns_of(interest)
        async with self._topology_to_change() as topology:
            if interest in self._held:
                return
            await topology.bind([one for one in patterns if not self._patterns[one]])
            if self._topology is not topology:
                # The next connection has perhaps been told already what to bind.
                raise Lost("the connection ended")
            self._interests.add(interest)
            self._held[interest] = patterns
            self._patterns.update(patterns)

    async def adopt(self, interest: Interest) -> None:
        """As `SharedAdapter.adopt`. Where it cannot be asked for now, the next connection does."""
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
        """As `SharedAdapter.take`."""
        if partition not in self._taken:
            self._taken[partition] = asyncio.get_running_loop().create_task(self._keep(partition))

    async def release(self, partition: int) -> None:
        """As `SharedAdapter.release`."""
        task = self._taken.pop(partition, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def unwant(self, interest: Interest) -> None:
        """As `Adapter.unwant`. Where it fails, the next connection binds what is held then."""
        patterns = self._held.pop(interest, frozenset())
        self._interests.discard(interest)
        self._patterns -= Counter(patterns)
        async with self._topology_to_change() as topology:
            await topology.unbind([one for one in patterns if not self._patterns[one]])

    async def serve(self, connection: Connection, ready: Callable[[], None]) -> None:
        """Consume through *connection* until it ends, or a queue is gone."""
        topology = Topology(connection, self._names, self._setup.quorum, self.hashing, self.shared)
        try:
            await topology.set_up(foreign_exchanges(self._destinations), self._patterns.keys())
        except NoHashing as exc:
            self._do_without_hashing()
            raise Again from exc
        channel = await connection.channel()
        session = _Session(channel, asyncio.get_running_loop().create_future())
        try:
            self._topology = topology
            self._session = session
            channel.closed.add_done_callback(lambda closed: session.end(str(closed.result())))
            if self.shared:
                self._serve_to_partitions(connection)
            else:
                await self._consume(session, list(range(len(self._names.queues))))
            ready()
            await asyncio.wait([session.ended, connection.closed], return_when="FIRST_COMPLETED")
        finally:
            self._topology = None
            self._session = None
            self._serving = None
            session.open = False
            self._buffer.clear()
        raise (session.ended if session.ended.done() else connection.closed).result()

    def renew(self) -> None:
        """Set up what stands in the broker again: it is not what it should be."""
        if self._session is not None:
            self._session.end("something of the gateway's is missing in the broker")

    async def deliveries(self) -> AsyncIterator[RabbitMQDelivery]:
        """As `Adapter.deliveries`."""
        while not self._closed:
            delivery = self._take()
            if delivery is not None:
                yield delivery
            else:
                self._changed.clear()
                await self._changed.wait()

    def close(self) -> None:
        """End the deliveries."""
        self._closed = True
        for task in self._taken.values():
            task.cancel()
        self._changed.set()

    def _patterns_of(self, interest: Interest) -> frozenset[Destination]:
        expression = interest.expression
        pattern = None if expression is None else parse_expression(expression)
        return self._destinations.patterns(pattern, AMQP)

    @asynccontextmanager
    async def _topology_to_change(self) -> AsyncIterator[Topology]:
        """What stands in the broker, for one change after the other.

        Raises:
            AdapterUnavailable: There is no connection, or the change failed.
        """
        try:
            async with asyncio.timeout(ASKING), self._changing:
                if self._topology is None:
                    raise AdapterUnavailable(
                        "there is no connection to the broker", retry_after=self._retry_after()
                    )
                yield self._topology
        except Lost as exc:
            logger.warning("rabbitmq: the broker refused an interest: %s", exc)
            raise AdapterUnavailable("the broker did not take an interest") from exc
        except TimeoutError:
            raise AdapterUnavailable("the broker did not take an interest in time") from None

    def _do_without_hashing(self) -> None:
        self.hashing = False
        logger.warning(
            "rabbitmq: the plug-in rabbitmq_consistent_hash_exchange is not enabled in the broker:"
            " all messages go through the one queue %s",
            self._names.queues[0],
        )

    def _serve_to_partitions(self, connection: Connection) -> None:
        """Let what waits in `_keep` begin."""
        self._serving = connection
        for partition, task in list(self._taken.items()):
            if task.done():
                del self._taken[partition]
                self.take(partition)

    async def _keep(self, partition: int) -> None:
        """Consume *partition* through the connection that there is, until it ends."""
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
                    logger.warning("rabbitmq: partition %d is not consumed: %s", partition, exc)
                    said = True
            finally:
                if session is not None:
                    session.open = False
                    self._buffer = deque(one for one in self._buffer if one.session is not session)
                    with suppress(AMQPError):
                        session.channel.raw.close()
            await asyncio.sleep(AGAIN)

    async def _consume(
        self, session: _Session, partitions: Sequence[int], *, exclusive: bool = False
    ) -> None:
        channel = session.channel
        clock = asyncio.get_running_loop().time
        channel.raw.add_on_cancel_callback(lambda _frame: session.end("a queue was deleted"))
        # One topic is one queue, so each may need the whole window.
        await channel.ask(channel.raw.basic_qos, prefetch_count=self._setup.prefetch)
        for partition in partitions:

            def arrived(
                _channel: Any,
                method: Any,
                properties: pika.BasicProperties,
                body: bytes,
                partition: int = partition,
            ) -> None:
                arrival = _Arrival(session, partition, method, properties, body, clock())
                self._buffer.append(arrival)
                self._changed.set()

            await channel.ask(
                channel.raw.basic_consume,
                queue=self._names.queues[partition],
                on_message_callback=arrived,
                exclusive=exclusive,
            )

    def _take(self) -> RabbitMQDelivery | None:
        """The next message that somebody wants, while the window has room."""
        while self._buffer and self._buffer[0].session.unsettled < self._setup.prefetch:
            arrival = self._buffer.popleft()
            notification = self._read(arrival)
            # Another gateway may have interests that this one has not heard of yet.
            if notification is not None and (
                self.shared or self._interests.cover(notification.topic)
            ):
                arrival.session.unsettled += 1
                return RabbitMQDelivery(self, arrival, notification)
            arrival.session.acknowledge(arrival.method.delivery_tag)
        return None

    def _read(self, arrival: _Arrival) -> Notification | None:
        """The notification of *arrival*; None where it came from none of our destinations."""
        exchange = arrival.method.exchange
        own = exchange == self._names.exchange
        there = Destination(arrival.method.routing_key, None if own else exchange)
        topic = self._destinations.topic(there)
        if topic is None and not own:
            return None
        notification, forced = read(
            arrival.body,
            arrival.properties,
            source=self._setup.source,
            topic=None if topic == DEFAULT_TOPIC else topic,
        )
        if forced:
            self.forced += 1
            if self.forced & (self.forced - 1) == 0:  # The 1st, 2nd, 4th, 8th …
                logger.warning(
                    "rabbitmq: %d native messages were no XML notification, the last with the"
                    " routing key %.200r",
                    self.forced,
                    arrival.method.routing_key,
                )
        return notification

    def _settle(self, session: _Session, tag: int) -> None:
        if session.open:
            session.unsettled -= 1
            session.acknowledge(tag)
            self._changed.set()


def _end_with(session: _Session, closed: "asyncio.Future[Lost]") -> None:
    session.end(str(closed.result()))
