"""Prefetched messages: a broker pushes them ahead, they wait here until the window has room, and
are acknowledged once they are settled.

    broker ──push──> arrivals that wait ──> deliveries, unsettled ──settle──> acknowledged
                                      └───> wanted by nobody ───────────────>

The window bounds what is unsettled of one session, however many queues it consumes from. Each
tenant has a line of arrivals and a window of its own, and lines have turns: who publishes more than
is delivered keeps no other tenant's messages waiting, of those that the broker has pushed.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from adapters.broker.unreadable import cannot_be_read
from adapters.protocol import Delivery, Interest
from adapters.tenant_turns import TenantTurns
from mediation.model.messages import Notification

HELD = 0.005
"""Seconds that an acknowledgement may wait for others, to go out with them."""

logger = logging.getLogger(__name__)

KeyT = TypeVar("KeyT")
"""The key by which a broker knows a message, to acknowledge it."""
MessageT = TypeVar("MessageT")


@dataclass(slots=True, eq=False)
class Session(Generic[KeyT]):
    """The consumption through one connection, or one channel of it. When it has ended, its
    unsettled messages come again."""

    unsettled: dict[str, int] = field(default_factory=dict, init=False)
    """The numbers of unsettled messages, by tenant."""
    open: bool = field(default=True, init=False)

    def acknowledge(self, key: KeyT) -> None:
        """Acknowledge a message to the broker; must not raise."""
        raise NotImplementedError


class Arrival(Generic[KeyT, MessageT]):
    """A message as it arrived; an `adapters.Delivery` from the moment it is yielded.

    Args:
        message: Let go of when it has been read.
        arrived: When, by the event loop's clock, for ``Capabilities.sharing``.
        interest: The interest whose selector it met, for ``Capabilities.selecting``.
        fault: Why it cannot be read as a message, "" if it can, for ``Capabilities.unreadable``.
        tenant: Whose destination it came from.
    """

    __slots__ = (
        "_notification",
        "_prefetch",
        "_settled",
        "arrived",
        "fault",
        "interest",
        "key",
        "message",
        "partition",
        "redelivered",
        "session",
        "tenant",
    )

    _notification: Notification
    _prefetch: "Prefetch[KeyT, MessageT]"

    def __init__(
        self,
        session: Session[KeyT],
        key: KeyT,
        message: MessageT,
        partition: int,
        redelivered: bool,
        arrived: float,
        interest: Interest | None = None,
        fault: str = "",
        tenant: str = "",
    ) -> None:
        self.session = session
        self.tenant: str = tenant
        self.key = key
        self.message = message
        self.partition: int = partition
        self.redelivered: bool = redelivered
        self.arrived: float = arrived
        self.interest: Interest | None = interest
        self.fault: str = fault
        self._settled = False

    @property
    def notification(self) -> Notification:
        return self._notification

    def settle(self) -> None:
        """Acknowledge the message. After its session has ended this does nothing: it comes
        again."""
        if not self._settled:
            self._settled = True
            session = self.session
            if session.open:
                session.unsettled[self.tenant] -= 1
                if not session.unsettled[self.tenant]:
                    del session.unsettled[self.tenant]
                session.acknowledge(self.key)
                self._prefetch.settled(self.tenant)


PrefetchedDelivery = Arrival[Any, Any]
"""An arrival that was yielded."""


def fault_of(delivery: Delivery) -> str:
    """As ``Capabilities.unreadable``."""
    assert isinstance(delivery, Arrival)
    return delivery.fault


class _Line(Generic[KeyT, MessageT]):
    """The arrivals of a tenant that wait."""

    __slots__ = ("tenant", "waiting", "waits")

    def __init__(self, tenant: str) -> None:
        self.tenant = tenant
        self.waiting: deque[Arrival[KeyT, MessageT]] = deque()
        self.waits = False
        """It waits for its turn to be yielded."""


class Prefetch(Generic[KeyT, MessageT]):
    """The messages of all sessions: those of each tenant in the order in which they arrived.

    Args:
        window: The most that may be unsettled of a tenant in a session.
        read: Returns the notification of an arrival, None if no interest covers it.
        salvage: As *read*, of what is left of an arrival with a ``fault``, or that *read* failed
            with. None: what *read* raises is raised.
    """

    def __init__(
        self,
        window: int,
        read: Callable[[Arrival[KeyT, MessageT]], Notification | None],
        salvage: Callable[[Arrival[KeyT, MessageT]], Notification | None] | None = None,
    ) -> None:
        self._window = window
        self._read = read
        self._salvage = salvage
        self._lines: dict[str, _Line[KeyT, MessageT]] = {}
        """Those with arrivals, and that of the default tenant: who may write to the broker can name
        any number of tenants."""
        self._turns: TenantTurns[_Line[KeyT, MessageT]] = TenantTurns()
        """The lines whose first arrival may be yielded, or might have been."""
        self._changed = asyncio.Event()
        self.changed: Callable[[], None] = self._changed.set
        """Wakes `deliveries`: there may be something to yield."""
        self._closed = False

    def add(self, arrival: Arrival[KeyT, MessageT]) -> None:
        """Add *arrival* to the messages that wait."""
        line = self._lines.get(arrival.tenant)
        if line is None:
            line = self._lines[arrival.tenant] = _Line(arrival.tenant)
        line.waiting.append(arrival)
        self._wait_for_turn(line)
        self.changed()

    def settled(self, tenant: str) -> None:
        """Note that a window has room for a message more of *tenant*."""
        line = self._lines.get(tenant)
        if line is not None:
            self._wait_for_turn(line)
        self.changed()

    def _wait_for_turn(self, line: _Line[KeyT, MessageT]) -> None:
        """Put *line* among those that have turns, where its first arrival may be yielded."""
        if not line.waits and self._may_go(line):
            line.waits = True
            self._turns.append(line, line.tenant)

    def _may_go(self, line: _Line[KeyT, MessageT]) -> bool:
        if not line.waiting:
            return False
        return line.waiting[0].session.unsettled.get(line.tenant, 0) < self._window

    def end(self, session: Session[KeyT]) -> None:
        """End *session*, and forget its messages that wait."""
        session.open = False
        for tenant, line in list(self._lines.items()):
            line.waiting = deque(one for one in line.waiting if one.session is not session)
            if line.waiting:
                self._wait_for_turn(line)  # Another session's window may have room.
            elif not line.waits:
                del self._lines[tenant]
        self.changed()

    def clear(self) -> None:
        """Forget all messages that wait, because all sessions are about to end."""
        for line in self._lines.values():
            line.waiting.clear()

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
        self.changed()

    def _next(self) -> Arrival[KeyT, MessageT] | None:
        """Return the next message that some interest covers, None if nothing waits or the window is
        full."""
        turns = self._turns
        while turns:
            line = turns.popleft()
            line.waits = False
            if not self._may_go(line):  # Its session has ended.
                self._forget_empty(line)
                continue
            arrival = line.waiting.popleft()
            self._forget_empty(line)
            session = arrival.session
            notification = self._notification_of(arrival)
            del arrival.message  # With the octets of its body.
            turns.sent(line.tenant, 0 if notification is None else notification.octets)
            if notification is not None:
                session.unsettled[line.tenant] = session.unsettled.get(line.tenant, 0) + 1
            self._wait_for_turn(line)
            if notification is not None:
                arrival._notification = notification
                arrival._prefetch = self
                return arrival
            session.acknowledge(arrival.key)
        return None

    def _forget_empty(self, line: _Line[KeyT, MessageT]) -> None:
        if line.tenant and not line.waiting:
            del self._lines[line.tenant]

    def _notification_of(self, arrival: Arrival[KeyT, MessageT]) -> Notification | None:
        if not arrival.fault:
            try:
                return self._read(arrival)
            except Exception as exc:
                if self._salvage is None:
                    raise
                arrival.fault = cannot_be_read(exc)
        assert self._salvage is not None, "who sets a fault has it"
        try:
            return self._salvage(arrival)
        except Exception:  # Else it would come again for ever, before all others.
            logger.exception("adapter.message_lost", extra={"reason": arrival.fault})
            return None
