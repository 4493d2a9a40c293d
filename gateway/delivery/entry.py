"""Subscriptions as delivery sees them: `Entry`."""

from gateway.delivery.destination import Trouble
from gateway.egress import Target
from mediation.model.delivery_modes import DeliveryMode
from mediation.model.messages import Subscription
from mediation.rendering import Recipient


class Entry:
    """A subscription as delivery sees it: what is prepared once, at Subscribe.

    Its subscription is another value when it was renewed or paused. How its deliveries are made is
    agreed at Subscribe, for ever: what every delivery asks for is an attribute of its own.
    """

    __slots__ = (
        "acknowledged", "allowed_at", "attempted", "delivery", "dropped", "ended",
        "ending", "failing_attempts", "failing_since", "halted", "numbered", "rate", "recipient",
        "rests_until", "subscription", "target", "timeouts", "trouble",
    )  # fmt: skip

    def __init__(self, subscription: Subscription, recipient: Recipient, target: Target) -> None:
        self.subscription = subscription
        self.recipient = recipient
        self.target = target
        self.delivery: DeliveryMode = subscription.policy.delivery
        """How its deliveries are made."""
        self.rate = subscription.policy.rate
        """The messages a minute that its consumer allows; 0 is any number."""
        self.halted = False
        """Its lease is over, but it may still be renewed: nothing is sent."""
        self.ended = False
        self.ending = ""
        """Why it is to end before anything more is sent; empty: it is not."""
        self.failing_since: float | None = None
        """Since when, by the event loop's clock, every attempt failed."""
        self.failing_attempts = 0
        self.allowed_at = 0.0
        """When its consumer, which allows so many messages a minute, allows the next one, by the
        event loop's clock."""
        self.attempted = 0.0
        """When the last attempt ended, as POSIX seconds; 0 before the first."""
        self.trouble: Trouble | None = None
        """What went wrong last."""
        self.acknowledged = 0
        """The position up to which its sink, which has bookmarks, has acknowledged deliveries since
        the gateway started; the store has what came before."""
        self.numbered = 0
        """Events without a number of their own that were given one, for a consumer that wants
        numbers."""
        self.dropped = 0
        """Deliveries that became dead letters, as far as a sink that wants to know is told."""
        self.timeouts = 0
        """Attempts that timed out since the consumer last answered."""
        self.rests_until = 0.0
        """Until when it is black-listed, by the event loop's clock."""

    @property
    def id(self) -> str:
        return self.subscription.id

    def start(self, now: float) -> None:
        """Begin an attempt at a consumer with a rate: the next one is allowed later."""
        self.allowed_at = max(now, self.allowed_at) + 60.0 / self.rate

    def next_number(self) -> int:
        """The number of one more event that has none of its own."""
        self.numbered += 1
        return self.numbered

    @property
    def silent(self) -> bool:
        """Nothing may be sent now."""
        return self.halted or self.ended or self.subscription.policy.paused
