"""A subscription as delivery sees it (`Entry`), and what delivery keeps of it."""

from gateway.delivery.destinations.failures import Trouble
from gateway.egress import Target
from mediation.model.delivery_modes import DeliveryMode
from mediation.model.messages import CatchingUp, Subscription
from mediation.rendering import Recipient


class DeliveryState:
    """The state of deliveries to one subscription: failures, pace, counts.

    Written by delivery alone. The waits are by the event loop's clock.
    """

    __slots__ = (
        "acknowledged", "allowed_at", "attempted", "dropped", "ending", "failing_attempts",
        "failing_since", "numbered", "rests_until", "timeouts", "trouble",
    )  # fmt: skip

    def __init__(self) -> None:
        self.ending = ""
        """Why the subscription is to end before anything more is sent; empty: it is not."""
        self.failing_since: float | None = None
        """When the failures began that no success has followed; None: the last one succeeded."""
        self.failing_attempts = 0
        self.allowed_at = 0.0
        """When a consumer that allows so many messages a minute allows the next one."""
        self.attempted = 0.0
        """When the last attempt ended, as POSIX seconds; 0 before the first."""
        self.trouble: Trouble | None = None
        """The last failures, or those that the store remembers."""
        self.acknowledged = 0
        """The position up to which a sink with bookmarks has acknowledged deliveries since the
        gateway started; the store has the earlier ones."""
        self.numbered = 0
        """Events without a number of their own that were given one, for a consumer that wants
        numbers."""
        self.dropped = 0
        """Deliveries that became dead letters, as far as a sink that wants to know is told."""
        self.timeouts = 0
        """Attempts that timed out since the consumer last answered."""
        self.rests_until = 0.0
        """When the consumer leaves the black list."""

    def start(self, now: float, rate: float) -> None:
        """Begin an attempt at a consumer that allows *rate* messages a minute."""
        self.allowed_at = max(now, self.allowed_at) + 60.0 / rate

    def next_number(self) -> int:
        """The number of one more event that has none of its own."""
        self.numbered += 1
        return self.numbered


class Entry:
    """A subscription as delivery sees it.

    ``target``, ``delivery`` and ``rate`` are fixed at Subscribe. ``subscription``, ``recipient``,
    ``halted`` and ``ended`` change when it is renewed, paused or over: the lifecycle of
    subscriptions alone writes them. Delivery writes to ``state`` alone.
    """

    __slots__ = (
        "delivery", "ended", "halted", "rate", "recipient", "state", "subscription", "target",
    )  # fmt: skip

    def __init__(self, subscription: Subscription, recipient: Recipient, target: Target) -> None:
        self.subscription = subscription
        self.recipient = recipient
        self.target = target
        self.delivery: DeliveryMode = subscription.policy.delivery
        """How its deliveries are made."""
        self.rate = subscription.policy.rate
        """The messages a minute that its consumer allows; 0 is any number."""
        self.state = DeliveryState()
        self.halted = False
        """Its lease is over, but it may still be renewed: nothing is sent."""
        self.ended = False

    @property
    def id(self) -> str:
        return self.subscription.id

    @property
    def silent(self) -> bool:
        """Nothing may be sent now."""
        policy = self.subscription.policy
        return self.halted or self.ended or policy.paused or policy.catching_up is CatchingUp.SEAM

    @property
    def holds(self) -> bool:
        """True if new deliveries wait in the store: it is paused, and wants that, or what was
        published before has to go first."""
        policy = self.subscription.policy
        if self.halted or self.ended or self.delivery.at_most_once:
            return False
        if policy.catching_up is CatchingUp.SEAM:
            return True
        return policy.paused and policy.hold_while_paused

    @property
    def reads_archive(self) -> bool:
        """True if what is published now comes to it out of the archive."""
        return self.subscription.policy.catching_up is CatchingUp.ARCHIVE
