"""Consuming: interests, messages out of the gateway's queues, settlements back.

The queues are fixed by the configuration, one a partition, whatever is subscribed to; messages that
no interest covers are settled as they come. Queues that follow the interests would overlap while
they change, so that messages come twice; and STOMP cannot delete a queue, which would then fill for
ever.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from adapters.broker.native import ForcedCount, in_tenant_of
from adapters.broker.prefetch import Arrival, Prefetch, PrefetchedDelivery, Session
from adapters.broker.reconnecting import POLITE, Lost
from adapters.broker.topology_changes import TopologyChanges, unavailable
from adapters.broker.unreadable import Place, Stoppages, UnreadableCount
from adapters.interests import Interests
from adapters.protocol import AdapterUnavailable, Interest
from adapters.stomp.address import Setup
from adapters.stomp.connection import Connection, Declined
from adapters.stomp.frames import MAX_HEAD, Frame, unescaped
from adapters.stomp.messages import read, salvage, sent_at
from adapters.stomp.selectors import check_selector
from adapters.stomp.subscribing import Subscription, Subscriptions
from adapters.stomp.topology import TopologyFile
from filters import DEFAULT_TOPIC, FilterError, Reason, Topic
from mediation.model.messages import Notification

REMEMBERED = 256
ALWAYS = frozenset(("ack", "subscription", "message-id", "destination"))
"""Headers that every message has."""
_ACK = re.compile(rb"^ack:([^\r\n]{1,500})$", re.MULTILINE)
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
    came: int = 0
    """Messages that have come through it."""

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
        told: Why there is no connection, as far as a peer may be told.
    """

    def __init__(
        self,
        setup: Setup,
        folder: Path,
        retry_after: Callable[[], float],
        told: Callable[[], str],
    ) -> None:
        self._setup = setup
        self._topology = TopologyFile(folder, f"{setup.source} {setup.name}")
        self._retry_after = retry_after
        self._told = told
        self._interests = Interests()
        self._selecting: set[Interest] = set()
        self._changes: TopologyChanges[_Session] = TopologyChanges("stomp", retry_after, told)
        self._prefetch: Prefetch[str, _Message] = Prefetch(
            setup.prefetch, self._read, self._salvage
        )
        self._last = Place("", "", within=False)
        """The message that came last."""
        self._disbelieved: dict[str, None] = {}
        """The ids of messages that ended a connection while they were read, at most `REMEMBERED`:
        their ``content-length`` is wrong."""
        self.shared = False
        """True if only partitions that are taken are consumed, by connections of their own."""
        self.established = False
        """True once the queues exist, and keep what comes, with or without a connection."""
        self.forced = ForcedCount("stomp")
        self.unreadable = UnreadableCount("stomp")
        self.stoppages = Stoppages("stomp")

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
            raise self.without_queue()
        self._interests.add(interest)

    def without_queue(self) -> AdapterUnavailable:
        """The refusal of a peer while no queue would keep the messages that it wants."""
        text = "the gateway's queue is not there yet"
        return unavailable(text, self._told(), self._retry_after())

    async def adopt(self, interest: Interest) -> None:
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
        raise connection.closed.result().anew()

    async def serve_partition(
        self, partition: int, connection: Connection, ready: Callable[[], None]
    ) -> None:
        """Consume *partition* alone through *connection* until it ends."""
        async with self._consumed(connection) as session:
            await session.subscriptions.consume(partition)
            ready()
            await asyncio.wait([connection.closed])
        raise connection.closed.result().anew()

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
        connection.on_message = partial(self._arrived, session)
        connection.disbelieve(self._disbelieved)
        try:
            yield session
        finally:
            if connection.offended:
                why = str(connection.closed.result())
                self.stoppages.ended(self._place(session), why, session.came)
            if self._changes.through is session:
                self._changes.through = None
            self._prefetch.end(session)

    def _place(self, session: _Session) -> Place:
        """Return where the connection of *session* has ended: in the frame that it was reading, or
        behind the last one."""
        headers = session.connection.unfinished
        if "message-id" in headers:
            self._disbelieve(headers["message-id"])
            return Place(_origin(headers), headers["message-id"], within=True)
        if self._last.id:
            return self._last
        queues = [one.headers["destination"] for one in session.subscriptions.open.values()]
        return Place(", ".join(queues) or "its queues", "", within=True)

    def _disbelieve(self, id: str) -> None:
        if len(self._disbelieved) >= REMEMBERED:
            self._disbelieved.clear()
        self._disbelieved[id] = None

    def _arrived(self, session: _Session, frame: Frame, fault: str) -> None:
        headers = frame.headers
        key = headers.get("ack", "")
        if not headers.keys() >= ALWAYS:
            key, fault = key or _ack_behind(frame.body), "the name of a header has line ends"
        session.came += 1
        self._last = Place(_origin(headers), headers.get("message-id", ""), within=False)
        self.stoppages.came(session.came)
        if not key:  # Nobody can acknowledge it: it comes again over the next connection.
            self.unreadable.add(*self._last.named, f"{fault}, and it says no ack")
            return
        subscription = session.subscriptions.open.get(headers.get("subscription", ""))
        if subscription is None and fault and len(session.subscriptions.open) == 1:
            (subscription,) = session.subscriptions.open.values()
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
                    fault,
                    self._tenant(headers),
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
            own_user=self._setup.user,
        )
        if forced:
            self.forced.add(_origin(frame.headers))
        notification = self._in_tenant_of(notification, frame)
        return notification if self._is_wanted(notification, arrival.interest) else None

    def _salvage(self, arrival: Arrival[str, _Message]) -> Notification | None:
        """As `_read`, of what is left of a message that cannot be read."""
        _, frame = arrival.message
        notification = salvage(
            frame,
            id_header=self._setup.system.id,
            source=self._setup.source,
            topic=self._topic(frame),
        )
        queue = frame.headers.get("destination", "")
        self.unreadable.add(queue, notification.id, arrival.fault)
        arrival.fault = f"{arrival.fault}; it came from {queue}"
        notification = self._in_tenant_of(notification, frame)
        return notification if self._is_wanted(notification, arrival.interest) else None

    def _is_wanted(self, notification: Notification, interest: Interest | None) -> bool:
        if interest is None:
            # Another gateway may have interests that this one has not heard of yet.
            return self.shared or self._interests.cover(notification.topic)
        return interest in self._selecting

    def _tenant(self, headers: Mapping[str, str]) -> str:
        """The tenant to one of whose destinations a message was published; empty for none."""
        of = self._setup.destinations.tenant
        return next(filter(None, map(of, self._setup.system.origins(headers))), "")

    def _in_tenant_of(self, notification: Notification, frame: Frame) -> Notification:
        origins = [one for one in self._setup.system.origins(frame.headers) if one.name]
        if not origins:
            return notification
        destinations = self._setup.destinations
        of_tenant = (one for one in origins if destinations.tenant(one))
        return in_tenant_of(notification, destinations, next(of_tenant, origins[0]))

    def _topic(self, frame: Frame) -> Topic | None:
        for origin in self._setup.system.origins(frame.headers):
            topic = self._setup.destinations.topic(origin)
            if topic is not None:
                return None if topic == DEFAULT_TOPIC else topic
        return None


def _ack_behind(body: bytes) -> str:
    """The ``ack`` of a message whose head goes on in its *body*, behind an empty line that a
    program wrote into the name of a property; "" if it says none, or several."""
    found = _ACK.findall(body[:MAX_HEAD])
    return unescaped(found[0]) if len(found) == 1 else ""


def _origin(headers: Mapping[str, str]) -> str:
    """The destination that a message was published to."""
    return headers.get("original-destination") or headers.get("destination", "")


def _not_understood() -> FilterError:
    return FilterError(Reason.FILTER_INVALID, "the broker does not understand the selector")
