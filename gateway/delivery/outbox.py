"""What is under way: a message with its deliveries, and the outbox of each subscription."""

from asyncio import TimerHandle
from collections import deque
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from adapters import Delivery
from gateway.delivery.breaker import FIRST_PROBE, Breaker
from gateway.delivery.schedule import Outcome
from gateway.egress import Lane, Target
from mediation import Notification, Recipient, Rendering, Shape, Subscription

if TYPE_CHECKING:
    from gateway.delivery.destinations import Destination
    from gateway.delivery.scheduler import Owner
    from gateway.delivery.status import Trouble


class Entry:
    """A subscription as delivery sees it: what is prepared once, at Subscribe."""

    __slots__ = (
        "attempted", "ended", "failing_attempts", "failing_since", "halted", "recipient",
        "subscription", "target", "trouble",
    )  # fmt: skip

    def __init__(self, subscription: Subscription, recipient: Recipient, target: Target) -> None:
        self.subscription = subscription
        self.recipient = recipient
        self.target = target
        self.halted = False
        """Its lease is over, but it may still be renewed: nothing is sent."""
        self.ended = False
        self.failing_since: float | None = None
        """Since when, by the event loop's clock, every attempt failed."""
        self.failing_attempts = 0
        self.attempted = 0.0
        """When the last attempt ended, as POSIX seconds; 0 before the first."""
        self.trouble: Trouble | None = None
        """What went wrong last."""

    @property
    def id(self) -> str:
        return self.subscription.id

    @property
    def silent(self) -> bool:
        """Nothing may be sent now."""
        return self.halted or self.ended or self.subscription.policy.paused


class State(Enum):
    LIVE = "live"
    """In memory alone; its message stays unsettled."""
    HOLDING = "holding"
    """On its way into the store."""
    HELD = "held"
    """A row of the store."""
    DONE = "done"


class Message:
    """A notification on its way to all that it matched.

    *delivery* is what the messaging system waits to see settled; None for one from the store.
    """

    __slots__ = (
        "__weakref__",
        "arrived",
        "deliveries",
        "delivery",
        "notification",
        "origin",
        "renderings",
        "resolved",
        "unsettled",
    )  # fmt: skip

    def __init__(
        self, notification: Notification, delivery: Delivery | None, arrived: float = 0.0
    ) -> None:
        self.notification = notification
        self.delivery = delivery
        self.arrived = arrived
        self.deliveries: list[PendingDelivery] = []
        self.unsettled = 0
        """Deliveries that are neither at their end nor durable."""
        self.resolved: list[tuple[Entry, str]] = []
        """What became of those that never were in the store, by the name of the total."""
        self.renderings: dict[Shape, Rendering] = {}
        self.origin = ""
        """Which event it is, for other gateways; empty until something is sent."""


@dataclass(slots=True, eq=False)
class PendingDelivery:
    """One message for one subscription. Times are POSIX seconds."""

    message: Message
    outbox: "Outbox"
    position: int
    since: float
    state: State = State.LIVE
    attempts: int = 0
    answered: int = 0
    due: float = 0.0
    started: float = 0.0
    """Of the attempt under way, by the event loop's clock."""
    counts: bool = True
    """The attempt under way uses one up: a breaker's probe ahead of its time does not."""
    slot: bool = False
    stalled: bool = False
    """The attempt under way takes long, and its outbox was told."""
    outcome: Outcome | None = None
    """Of an attempt that ended while the pending was on its way into the store."""

    @property
    def octets(self) -> int:
        return self.message.notification.octets


class Outbox:
    """What is under way for one subscription, in order.

    Rows of the store (``held``, ``holding``) come first, by way of ``loaded``; then what is in
    ``live``. While many rows wait, or their consumer is in trouble, what is new becomes rows too.
    """

    __slots__ = (
        "breaker",
        "destination",
        "entry",
        "held",
        "holding",
        "in_flight",
        "lane",
        "live",
        "loaded",
        "loading",
        "octets",
        "owner",
        "pace",
        "queued",
        "smooth",
        "timer",
        "until",
        "wake_at",
    )  # fmt: skip

    def __init__(
        self,
        entry: Entry,
        destination: "Destination",
        owner: "Owner",
        probe: float = FIRST_PROBE,
    ) -> None:
        self.entry = entry
        self.owner = owner
        self.destination = destination
        self.live: deque[PendingDelivery] = deque()
        self.loaded: deque[PendingDelivery] = deque()
        self.in_flight: set[PendingDelivery] = set()
        self.held = 0
        self.holding = 0
        self.octets = 0
        """Of what is held."""
        self.until = 0.0
        """Before this time of the event loop's clock nothing of the store is sent."""
        self.timer: TimerHandle | None = None
        self.wake_at = 0.0
        """When the timer rings."""
        self.breaker = Breaker(probe)
        self.lane: Lane | None = None
        """On which the last of what is in flight was posted."""
        self.loading = False
        """The beginning of what it has in the store is being read, or cut off."""
        self.queued = False
        self.smooth = False
        """The last attempt succeeded: more than one is loaded at a time."""
        self.pace = 0.0
        """Seconds that an attempt takes, on a moving average."""

    @property
    def stored(self) -> bool:
        """Whether something of it waits in the store, or is about to."""
        return bool(self.held or self.holding)

    @property
    def catches_up(self) -> bool:
        """Whether what waits in the store will soon be gone, so that what is new may stay in memory
        behind it: a consumer that was late once shall not have all of a broker's queue moved into
        the store."""
        return self.smooth and self.width == 1 and (self.held + self.holding) * self.pace <= SOON

    @property
    def ready(self) -> bool:
        """Whether nothing waits to be sent: what is new has its turn at once."""
        return not (
            self.live or self.loaded or self.held or self.holding or self.loading or self.queued
            or self.breaker.until is not None
        )  # fmt: skip

    @property
    def idle(self) -> bool:
        return not (self.live or self.loaded or self.in_flight or self.stored or self.loading)

    @property
    def width(self) -> int:
        """How many may be in flight at a time, each by itself."""
        return 1 if self.entry.subscription.policy.ordered else UNORDERED_WIDTH

    @property
    def has_room(self) -> bool:
        """Whether one more may be in flight: beside others, or in order behind others on a lane."""
        in_flight = len(self.in_flight)
        if in_flight < self.width:
            return True
        return (
            self.lane is not None and in_flight < LANE_WIDTH and self.smooth and not self.stored
            and not self.loaded
        )  # fmt: skip


SOON = 1.0
"""Seconds within which what waits in the store can be sent."""
UNORDERED_WIDTH = 8
LANE_WIDTH = 8
WINDOW = 32
"""Deliveries of one subscription in memory."""
