"""Consuming: interests, messages out of the gateway's queues, settlements back.

The queues are fixed by the configuration, one a partition, whatever is subscribed to; messages that
no interest covers are settled as they come. Queues that follow the interests would overlap while
they change, so that messages come twice; and STOMP cannot delete a queue, which would then fill for
ever.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from adapters.broker.native import ForcedCount
from adapters.broker.prefetch import Arrival, Prefetch, PrefetchedDelivery, Session
from adapters.broker.reconnecting import POLITE, Lost
from adapters.broker.topology_changes import TopologyChanges
from adapters.interests import Interests
from adapters.protocol import AdapterUnavailable, Interest
from adapters.stomp.address import Setup
from adapters.stomp.connection import Connection, Declined
from adapters.stomp.frames import Frame
from adapters.stomp.messages import read, sent_at
from adapters.stomp.selectors import check_selector
from adapters.stomp.subscribing import Subscription, Subscriptions
from adapters.stomp.topology import TopologyFile
from filters import DEFAULT_TOPIC, FilterError, Reason, Topic
from mediation import Notification

MAX_SELECTORS = 64
"""Selectors in use: each costs the broker durable subscriptions."""


@dataclass(slots=True, eq=False)
class _Session(Session[str]):
    """The consumption through one connection."""

    connection: Connection
    subscriptions: Subscriptions
    since: datetime
    """The time at which it was opened."""
    many: int
    """Acknowledgements that may wait to be sent together; a quarter of the window, so that the
    broker goes on sending."""

    def acknowledge(self, key: str) -> None:
        """ACK, never NACK: that would put the message into the dead-letter queue for good."""
        self.connection.send_later("ACK", {"id": key}, self.many)


_Message = tuple[Subscription, Frame]
"""A MESSAGE, and the subscription that it came from."""


class Consuming:
    """Consumes the gateway's queues through the present connection.

    Args:
        folder: Keeps the file of `adapters.stomp.topology`.
        retry_after: Seconds until there may be a connection again.
    """

    def __init__(self, setup: Setup, folder: Path, retry_after: Callable[[], float]) -> None:
        self._setup = setup
        self._topology = TopologyFile(folder, f"{setup.source} {setup.name}")
        self._retry_after = retry_after
        self._interests = Interests()
        self._selecting: set[Interest] = set()
        self._changes: TopologyChanges[_Session] = TopologyChanges("stomp", retry_after)
        self._prefetch: Prefetch[str, _Message] = Prefetch(setup.prefetch, self._read)
        self.shared = False
        """True if only partitions that are taken are consumed, by connections of their own."""
        self.established = False
        """True once the queues exist, and keep what comes, with or without a connection."""
        self.forced = ForcedCount("stomp")

    def cover(self, notification: Notification) -> bool:
        return bool(self._selecting) or self._interests.cover(notification.topic)

    def begin(self, interests: Collection[Interest]) -> None:
        """Hold *interests*.

        Raises:
            FilterError: One of them is neither a topic expression of a known dialect nor an
                admitted selector.
        """
        selecting = {interest for interest in interests if self._is_selector(interest)}
        self._interests.replace([each for each in interests if each not in selecting])
        self._selecting = selecting

    async def want(self, interest: Interest) -> None:
        """As `Adapter.want`. Topics cost the broker nothing, because its queue has them already."""
        if self._is_selector(interest):
            await self._select(interest)
            return
        if not self.established:
            raise AdapterUnavailable(
                "the gateway's queue is not there yet", retry_after=self._retry_after()
            )
        self._interests.add(interest)

    def adopt(self, interest: Interest) -> None:
        """As `Sharing.adopt`."""
        self._interests.add(interest)

    async def unwant(self, interest: Interest) -> None:
        """As `Adapter.unwant`. If it fails, the next connection removes what is left."""
        self._interests.discard(interest)
        if interest in self._selecting:
            self._selecting.discard(interest)
            async with self._changes.turn() as session:
                await session.subscriptions.unselect(interest)

    async def serve(self, connection: Connection, ready: Callable[[], None]) -> None:
        """Consume through *connection* until it ends; if the work is shared, only see that all
        queues are there."""
        async with self._consumed(connection) as session:
            if self.shared:
                await session.subscriptions.make_queues()
            else:
                await session.subscriptions.begin(self._selecting)
            self._changes.through = session
            self.established = True
            ready()
            await asyncio.wait([connection.closed])
        raise connection.closed.result()

    async def serve_partition(
        self, partition: int, connection: Connection, ready: Callable[[], None]
    ) -> None:
        """Consume *partition* alone through *connection* until it ends."""
        async with self._consumed(connection) as session:
            await session.subscriptions.consume(partition)
            ready()
            await asyncio.wait([connection.closed])
        raise connection.closed.result()

    def deliveries(self) -> AsyncIterator[PrefetchedDelivery]:
        """As `Adapter.deliveries`."""
        return self._prefetch.deliveries()

    def close(self) -> None:
        """End the deliveries."""
        self._prefetch.close()

    def _is_selector(self, interest: Interest) -> bool:
        """Return True if *interest* is a selector.

        Raises:
            FilterError: The selector must not go to the broker.
        """
        expression = interest.expression
        if expression is None or expression.dialect not in self._setup.dialects:
            return False
        check_selector(expression.text)
        return True

    async def _select(self, interest: Interest) -> None:
        async with self._changes.turn() as session:
            if interest in self._selecting:
                return
            if len(self._selecting) >= MAX_SELECTORS:
                raise FilterError(Reason.QUOTA, "there are too many selectors in use")
            if not self._setup.system.forgives:
                await self._try_selector(interest)
            try:
                await session.subscriptions.select(interest)
            except Declined as exc:
                if exc.kind.endswith("InvalidSelectorException"):
                    raise _not_understood() from exc
                raise
            self._changes.check(session)
            self._selecting.add(interest)

    async def _try_selector(self, interest: Interest) -> None:
        """Try a selector through a connection of its own, because one that the broker cannot read
        would end the connection that everything is consumed through.

        Raises:
            FilterError: The broker does not understand it.
            Lost: It could not be asked.
        """
        connection = await Connection.open(self._setup.address)
        try:
            await Subscriptions(self._setup, connection, self._topology).try_selector(interest)
        except Lost as exc:
            if "selector" in str(exc):
                raise _not_understood() from exc
            raise
        finally:
            await connection.close(POLITE)

    @asynccontextmanager
    async def _consumed(self, connection: Connection) -> AsyncIterator[_Session]:
        """Yield a session of *connection*, and end it."""
        setup = self._setup
        session = _Session(
            connection,
            Subscriptions(setup, connection, self._topology),
            datetime.now(UTC),
            setup.prefetch // 4,
        )
        connection.on_message = lambda frame: self._arrived(session, frame)
        try:
            yield session
        finally:
            if self._changes.through is session:
                self._changes.through = None
            self._prefetch.end(session)

    def _arrived(self, session: _Session, frame: Frame) -> None:
        headers = frame.headers
        key = headers.get("ack", "")
        subscription = session.subscriptions.open.get(headers.get("subscription", ""))
        if subscription is not None and subscription.partition is not None:
            self._prefetch.add(
                Arrival(
                    session,
                    key,
                    (subscription, frame),
                    subscription.partition,
                    self._may_repeat(session, headers),
                    session.connection.time(),
                    subscription.interest,
                )
            )
        else:
            session.acknowledge(key)

    def _may_repeat(self, session: _Session, headers: Mapping[str, str]) -> bool:
        if headers.get("redelivered") == "true":
            return True
        if self._setup.system.tells_repeats:
            return False
        sent = sent_at(headers)
        return sent is None or sent < session.since

    def _read(self, arrival: Arrival[str, _Message]) -> Notification | None:
        """Read the notification of *arrival*; None if no interest covers it."""
        subscription, frame = arrival.message
        queue = subscription.queue
        # A wildcard consumes from narrower queues too, whose messages are copies of ours.
        if queue is not None and queue != frame.headers.get("destination"):
            return None
        system = self._setup.system
        notification, forced = read(
            frame,
            id_header=system.id,
            java=system.java,
            source=self._setup.source,
            topic=self._topic(frame),
        )
        if forced:
            headers = frame.headers
            self.forced.add(headers.get("original-destination") or headers.get("destination"))
        return notification if self._is_wanted(notification, arrival.interest) else None

    def _is_wanted(self, notification: Notification, interest: Interest | None) -> bool:
        if interest is None:
            # Another gateway may have interests that this one has not heard of yet.
            return self.shared or self._interests.cover(notification.topic)
        return interest in self._selecting

    def _topic(self, frame: Frame) -> Topic | None:
        for origin in self._setup.system.origins(frame.headers):
            topic = self._setup.destinations.topic(origin)
            if topic is not None:
                return None if topic == DEFAULT_TOPIC else topic
        return None


def _not_understood() -> FilterError:
    return FilterError(Reason.FILTER_INVALID, "the broker does not understand the selector")
