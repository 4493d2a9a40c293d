"""Consuming: interests, messages out of the gateway's queues, settlements back.

The queues are fixed by the configuration, one a partition, whatever is subscribed to: what nobody
wants is settled as it comes. Queues that follow the interests would overlap while they change, so
that messages come twice; and STOMP cannot delete a queue, which then fills for ever.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from adapters.interests import Interests
from adapters.keeping import Lost
from adapters.protocol import AdapterUnavailable, Interest
from adapters.stomp.address import Setup
from adapters.stomp.connection import Connection, Declined
from adapters.stomp.frames import Frame
from adapters.stomp.messages import read
from adapters.stomp.selectors import check_selector
from adapters.stomp.standing import Standing
from adapters.stomp.subscribing import Subscription, Subscriptions
from filters import DEFAULT_TOPIC, FilterError, Reason, Topic
from mediation import Notification

MAX_SELECTORS = 64
"""Selectors in use: each costs the broker durable subscriptions."""
ASKING = 15.0
"""Seconds that a new interest may take, while others are asked for too."""

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Session:
    """What was consumed through one connection. Its messages come again once it has ended."""

    connection: Connection
    subscriptions: Subscriptions
    unsettled: int = 0
    open: bool = True

    def acknowledge(self, frame: Frame) -> None:
        """ACK, never NACK: that would put the message into the dead-letter queue for good."""
        self.connection.send("ACK", {"id": frame.headers.get("ack", "")})


@dataclass(frozen=True, slots=True)
class _Arrival:
    """A message as it came."""

    session: _Session
    subscription: Subscription
    frame: Frame
    at: float


class StompDelivery:
    """A message of a queue."""

    __slots__ = ("_arrival", "_consuming", "_notification", "_settled")

    def __init__(
        self, consuming: "Consuming", arrival: _Arrival, notification: Notification
    ) -> None:
        self._consuming = consuming
        self._arrival = arrival
        self._notification = notification
        self._settled = False

    @property
    def notification(self) -> Notification:
        return self._notification

    @property
    def arrived(self) -> float:
        """As `SharedDelivery.arrived`."""
        return self._arrival.at

    @property
    def partition(self) -> int:
        return self._arrival.subscription.partition or 0

    @property
    def interest(self) -> Interest | None:
        """The one whose selector it met; None: it comes from a queue that has everything."""
        return self._arrival.subscription.interest

    @property
    def redelivered(self) -> bool:
        return bool(self._arrival.frame.headers.get("redelivered") == "true")

    def settle(self) -> None:
        """Acknowledge it. After its connection has ended that is void: it comes again."""
        if not self._settled:
            self._settled = True
            self._consuming._settle(self._arrival)


class Consuming:
    """The gateway's queues, through whatever connection there is.

    Args:
        folder: Where it is on file what stands in the broker.
        retry_after: Seconds until there may be a connection again.
    """

    def __init__(self, setup: Setup, folder: Path, retry_after: Callable[[], float]) -> None:
        self._setup = setup
        self._standing = Standing(folder, f"{setup.source} {setup.name}")
        self._retry_after = retry_after
        self._interests = Interests()
        self._selecting: set[Interest] = set()
        self._changing = asyncio.Lock()
        self._session: _Session | None = None
        self._buffer: deque[_Arrival] = deque()
        self._changed = asyncio.Event()
        self._closed = False
        self.shared = False
        """Only partitions that are taken are consumed, by connections of their own."""
        self.established = False
        """The queues are there, and keep what comes, with or without a connection."""
        self.forced = 0
        """Native messages that were no notifications, and were made some."""

    def cover(self, notification: Notification) -> bool:
        return bool(self._selecting) or self._interests.cover(notification.topic)

    def begin(self, interests: Collection[Interest]) -> None:
        """Hold *interests*.

        Raises:
            FilterError: One of them is no topic expression of a known dialect, nor a selector
                that we let through.
        """
        selecting = {interest for interest in interests if self._is_selector(interest)}
        self._interests.replace([each for each in interests if each not in selecting])
        self._selecting = selecting

    async def want(self, interest: Interest) -> None:
        """As `Adapter.want`. Topics cost the broker nothing: its queue has them already."""
        if self._is_selector(interest):
            await self._select(interest)
            return
        if not self.established:
            raise AdapterUnavailable(
                "the gateway's queue is not there yet", retry_after=self._retry_after()
            )
        self._interests.add(interest)

    def adopt(self, interest: Interest) -> None:
        """As `SharedAdapter.adopt`."""
        self._interests.add(interest)

    async def unwant(self, interest: Interest) -> None:
        """As `Adapter.unwant`. Where it fails, the next connection removes what is left."""
        self._interests.discard(interest)
        if interest in self._selecting:
            self._selecting.discard(interest)
            async with self._session_to_change() as session:
                await session.subscriptions.unselect(interest)

    async def serve(self, connection: Connection, ready: Callable[[], None]) -> None:
        """Consume through *connection* until it ends; if the work is shared, only see that all
        queues are there."""
        async with self._consumed(connection) as session:
            if self.shared:
                await session.subscriptions.make_queues()
            else:
                await session.subscriptions.begin(self._selecting)
            self._session = session
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

    async def deliveries(self) -> AsyncIterator[StompDelivery]:
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
        self._changed.set()

    def _is_selector(self, interest: Interest) -> bool:
        """Whether *interest* is one in what a selector selects.

        Raises:
            FilterError: It is, and the selector is none that we let through.
        """
        expression = interest.expression
        if expression is None or expression.dialect not in self._setup.dialects:
            return False
        check_selector(expression.text)
        return True

    async def _select(self, interest: Interest) -> None:
        async with self._session_to_change() as session:
            if interest in self._selecting:
                return
            if len(self._selecting) >= MAX_SELECTORS:
                raise FilterError(Reason.QUOTA, "there are too many selectors in use")
            try:
                await session.subscriptions.select(interest)
            except Declined as exc:
                if exc.kind.endswith("InvalidSelectorException"):
                    raise FilterError(
                        Reason.FILTER_INVALID, "the broker does not understand the selector"
                    ) from exc
                raise
            if self._session is not session:
                # The next connection has perhaps been told already what to consume.
                raise Lost("the connection ended")
            self._selecting.add(interest)

    @asynccontextmanager
    async def _consumed(self, connection: Connection) -> AsyncIterator[_Session]:
        """A session of *connection*, which is over in the end."""
        session = _Session(connection, Subscriptions(self._setup, connection, self._standing))
        connection.on_message = lambda frame: self._arrived(session, frame)
        try:
            yield session
        finally:
            if self._session is session:
                self._session = None
            session.open = False
            self._buffer = deque(one for one in self._buffer if one.session is not session)

    @asynccontextmanager
    async def _session_to_change(self) -> AsyncIterator[_Session]:
        """What is consumed from, for one change after the other.

        Raises:
            AdapterUnavailable: There is no connection, or the change failed.
        """
        try:
            async with asyncio.timeout(ASKING), self._changing:
                if self._session is None:
                    raise AdapterUnavailable(
                        "there is no connection to the broker", retry_after=self._retry_after()
                    )
                yield self._session
        except Lost as exc:
            logger.warning("stomp: the broker did not take an interest: %s", exc)
            raise AdapterUnavailable("the broker did not take an interest") from exc
        except TimeoutError:
            raise AdapterUnavailable("the broker did not take an interest in time") from None

    def _arrived(self, session: _Session, frame: Frame) -> None:
        subscription = session.subscriptions.open.get(frame.headers.get("subscription", ""))
        if subscription is not None and subscription.partition is not None:
            now = asyncio.get_running_loop().time()
            self._buffer.append(_Arrival(session, subscription, frame, now))
            self._changed.set()
        else:
            session.acknowledge(frame)

    def _take(self) -> StompDelivery | None:
        """The next message that somebody wants, while the window has room."""
        while self._buffer and self._buffer[0].session.unsettled < self._setup.prefetch:
            arrival = self._buffer.popleft()
            queue = arrival.subscription.queue
            # A wildcard consumes from narrower queues too, whose messages are copies of ours.
            if queue is None or queue == arrival.frame.headers.get("destination"):
                notification = self._read(arrival.frame)
                if self._is_wanted(arrival, notification):
                    arrival.session.unsettled += 1
                    return StompDelivery(self, arrival, notification)
            arrival.session.acknowledge(arrival.frame)
        return None

    def _is_wanted(self, arrival: _Arrival, notification: Notification) -> bool:
        interest = arrival.subscription.interest
        if interest is None:
            # Another gateway may have interests that this one has not heard of yet.
            return self.shared or self._interests.cover(notification.topic)
        return interest in self._selecting

    def _read(self, frame: Frame) -> Notification:
        system = self._setup.system
        notification, forced = read(
            frame,
            id_header=system.id,
            java=system.java,
            source=self._setup.source,
            topic=self._topic(frame),
        )
        if forced:
            self.forced += 1
            if self.forced & (self.forced - 1) == 0:  # The 1st, 2nd, 4th, 8th …
                logger.warning(
                    "stomp: %d native messages were no XML notification, the last from %.200r",
                    self.forced,
                    frame.headers.get("original-destination") or frame.headers.get("destination"),
                )
        return notification

    def _topic(self, frame: Frame) -> Topic | None:
        for origin in self._setup.system.origins(frame.headers):
            topic = self._setup.destinations.topic(origin)
            if topic is not None:
                return None if topic == DEFAULT_TOPIC else topic
        return None

    def _settle(self, arrival: _Arrival) -> None:
        session = arrival.session
        if session.open:
            session.unsettled -= 1
            session.acknowledge(arrival.frame)
            self._changed.set()
