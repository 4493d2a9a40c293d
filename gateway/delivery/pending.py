"""A message on its way to all that it matched, and its delivery to one of them.

What may happen to a delivery, and when, is its outbox's alone to say (`outbox`).
"""

import asyncio
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from adapters import Delivery
from gateway.delivery.entry import Entry
from gateway.delivery.states import TRANSITIONS, Event, State
from gateway.delivery.verdicts import Outcome
from mediation.model.messages import Notification
from mediation.model.specification import Body
from mediation.notification.document_metadata import minimal_form
from mediation.rendering import Recipient, Rendering, Shape
from mediation.tenants import tenant_of_source

if TYPE_CHECKING:
    from gateway.observing.spans import AttemptSpan

OutboxType = TypeVar("OutboxType")


class Message:
    """A notification on its way to all that it matched.

    *delivery* is what the messaging system waits to see settled; None for one from the store.
    """

    __slots__ = (
        "__weakref__", "accepted", "arrived", "delivery", "expires_at", "minimal", "notification",
        "origin", "preparing", "renderings", "resolved", "tenant", "unsettled",
    )  # fmt: skip

    def __init__(
        self, notification: Notification, delivery: Delivery | None, arrived: float = 0.0
    ) -> None:
        self.notification = notification
        self.delivery = delivery
        self.arrived = arrived
        self.tenant = tenant_of_source(notification.source)
        self.accepted = notification.time.timestamp()
        """POSIX time at which the event was accepted."""
        expires = notification.expires
        self.expires_at = math.inf if expires is None else expires.timestamp()
        """POSIX time at which the event's life is over: nobody gets it from then on."""
        self.unsettled = 0
        """Deliveries that are neither at their end nor durable."""
        self.resolved: list[tuple[Entry, str]] = []
        """The ends of deliveries that never were in the store, by the name of the total."""
        self.renderings: dict[Shape, Rendering] = {}
        self.preparing: dict[tuple[Shape, bool], asyncio.Task[None]] = {}
        """Renderings that are made off the event loop just now."""
        self.origin = ""
        """Which event it is, for other gateways; empty until something is sent."""
        self.minimal: Message | None = None
        """The same in its minimal form, once somebody gets that."""

    def as_seen_by(self, recipient: Recipient) -> "Message":
        """The message in the form that *recipient* gets."""
        if not recipient.minimal:
            return self
        if self.minimal is None:
            self.minimal = Message(minimal_form(self.notification), None)
        return self.minimal


@dataclass(slots=True, eq=False)
class Pending(Generic[OutboxType]):
    """One message for one subscription, in an outbox. Times are POSIX seconds."""

    message: Message
    outbox: OutboxType
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
    """The attempt under way takes one of the scheduler's slots."""
    stalled: bool = False
    """The attempt under way takes long, and its outbox was told."""
    outcome: Outcome | None = None
    """Of an attempt that ended while the delivery was on its way into the store."""
    batch: tuple[Self, ...] = ()
    """All that the attempt under way carries, this one among them, where it may be several."""
    prepared: Body | None = None
    """What the next attempt with all that it carries says, where that was made in a thread."""
    left_out: bool = False
    """The attempt under way says that the event is too large for the consumer."""
    heartbeat: str = ""
    """The message id of a heartbeat. It is nobody's delivery: its state is DONE from the start."""
    size: int = 0
    """Its bytes in a batch."""
    span: "AttemptSpan | None" = None
    """That of the attempt under way, where the gateway tells its traces."""
    order_key: str | None = None
    """Of its outbox's deliveries those of one key go one after the other; None: all do, or none."""
    number: int = 0
    """The one that its event was given (`DeliveryState.next_number`); 0: none yet."""

    @property
    def octets(self) -> int:
        return self.message.notification.octets

    @property
    def carried(self) -> tuple[Self, ...]:
        """The deliveries in one message with this one."""
        return self.batch or (self,)

    @property
    def carried_octets(self) -> int:
        return sum([one.octets for one in self.batch]) if self.batch else self.octets

    def count_attempt(self, *, answered: bool) -> None:
        """The attempt that has ended uses one up."""
        self.attempts += 1
        self.answered += answered

    def give_slot(self) -> bool:
        """Give the scheduler's slot back. Returns whether the delivery had one."""
        had, self.slot = self.slot, False
        return had

    def stall(self) -> bool:
        """Note that the attempt takes long. Returns whether that is new."""
        new, self.stalled = not self.stalled, True
        return new

    def happens(self, event: Event) -> None:
        """Make a transition. For the outbox alone."""
        self.state = TRANSITIONS[self.state, event]
