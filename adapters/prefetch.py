"""What a broker pushes ahead: messages wait here until the window has room, and are acknowledged
once they are settled.

    broker ──push──> arrivals that wait ──> deliveries, unsettled ──settle──> acknowledged
                                      └───> wanted by nobody ───────────────>

The window bounds what is unsettled of one session, however many queues it consumes from.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from adapters.protocol import Interest
from mediation import Notification


@dataclass(slots=True, eq=False)
class Session:
    """What is consumed through one connection, or one channel of it. Its messages come again once
    it has ended."""

    unsettled: int = field(default=0, init=False)
    open: bool = field(default=True, init=False)


MessageT = TypeVar("MessageT")


@dataclass(frozen=True, slots=True)
class Arrival(Generic[MessageT]):
    """A message as it came.

    Args:
        interest: The one whose selector it met, as `SelectedDelivery.interest`.
        at: When, by the event loop's clock.
        acknowledge: Tells the broker that it is dealt with; must not raise.
    """

    session: Session
    message: MessageT
    partition: int
    redelivered: bool
    at: float
    acknowledge: Callable[[], None]
    interest: Interest | None = None


class PrefetchedDelivery:
    """A message of a queue, as `SharedDelivery` and `SelectedDelivery`."""

    __slots__ = (
        "_acknowledge",
        "_notification",
        "_prefetch",
        "_session",
        "_settled",
        "arrived",
        "interest",
        "partition",
        "redelivered",
    )

    def __init__(
        self, prefetch: "Prefetch[MessageT]", arrival: Arrival[MessageT], notification: Notification
    ) -> None:
        self._prefetch = prefetch
        self._session = arrival.session  # The arrival, with the octets of its body, is let go.
        self._acknowledge = arrival.acknowledge
        self._notification = notification
        self._settled = False
        self.arrived: float = arrival.at
        self.interest: Interest | None = arrival.interest
        self.partition: int = arrival.partition
        self.redelivered: bool = arrival.redelivered

    @property
    def notification(self) -> Notification:
        return self._notification

    def settle(self) -> None:
        """Acknowledge it. After its session has ended that is void: it comes again."""
        if not self._settled:
            self._settled = True
            self._prefetch._settle(self._session, self._acknowledge)


class Prefetch(Generic[MessageT]):
    """The messages of all sessions, in the order in which they came.

    Args:
        window: The most that may be unsettled of a session.
        read: The notification of an arrival, or None where nobody wants it.
    """

    def __init__(
        self, window: int, read: Callable[[Arrival[MessageT]], Notification | None]
    ) -> None:
        self._window = window
        self._read = read
        self._waiting: deque[Arrival[MessageT]] = deque()
        self._changed = asyncio.Event()
        self._closed = False

    def add(self, arrival: Arrival[MessageT]) -> None:
        """*arrival* has come."""
        self._waiting.append(arrival)
        self._changed.set()

    def end(self, session: Session) -> None:
        """*session* has ended."""
        session.open = False
        self._waiting = deque(one for one in self._waiting if one.session is not session)

    def clear(self) -> None:
        """Forget what waits: all sessions are about to end."""
        self._waiting.clear()

    async def deliveries(self) -> AsyncIterator[PrefetchedDelivery]:
        """As `Adapter.deliveries`."""
        while not self._closed:
            delivery = self._next()
            if delivery is not None:
                yield delivery
            else:
                self._changed.clear()
                await self._changed.wait()

    def close(self) -> None:
        """End the deliveries."""
        self._closed = True
        self._changed.set()

    def _next(self) -> PrefetchedDelivery | None:
        """The next message that somebody wants, while the window has room."""
        while self._waiting and self._waiting[0].session.unsettled < self._window:
            arrival = self._waiting.popleft()
            notification = self._read(arrival)
            if notification is not None:
                arrival.session.unsettled += 1
                return PrefetchedDelivery(self, arrival, notification)
            arrival.acknowledge()
        return None

    def _settle(self, session: Session, acknowledge: Callable[[], None]) -> None:
        if session.open:
            session.unsettled -= 1
            acknowledge()
            self._changed.set()
