"""Who may send next: destinations in turn, each within its own bounds.

A destination is a scheme, host and port. It has a few connections, a breaker for failures to
connect, and, for a while after that closed, a rate. An attempt takes a slot while it is young:
one that hangs gives its slot back and goes on beside, so that no number of hung consumers takes
the slots of the others.
"""

from asyncio import TimerHandle
from collections import deque
from typing import TYPE_CHECKING

from gateway.delivery.breaker import FIRST_PROBE, Breaker
from gateway.mailboxes.mailboxes import SCHEME

if TYPE_CHECKING:
    from gateway.delivery.outbox import Outbox
    from gateway.delivery.probation import Probation
    from gateway.delivery.status import Trouble

CONNECTIONS = 8
RECOVERY_RATE = 50.0
RECOVERY_DOUBLES = 10.0
RECOVERED_RATE = 5000.0


class Destination:
    """A scheme, host and port, and the outboxes that want to send there."""

    __slots__ = (
        "active", "address", "agreed", "breaker", "known", "loading", "name", "named",
        "outboxes", "probation", "queue", "recovering", "timer", "tokens", "tokens_at", "trouble",
        "turning", "wake_at",
    )  # fmt: skip

    def __init__(self, name: tuple[str, str, int], probe: float = FIRST_PROBE) -> None:
        self.name = name
        self.queue: deque[Outbox] = deque()
        self.outboxes = 0
        self.active = 0
        self.loading = 0
        """Outboxes that read the store, to send next."""
        self.breaker = Breaker(probe)
        self.known = False
        """It is known whether its host has agreed."""
        self.agreed = False
        self.address = ""
        """To which its name led last, on probation."""
        self.probation: Probation | None = None
        """While its host has not, and nobody speaks for it."""
        self.trouble: Trouble | None = None
        """Why it could not be connected to; None when it could."""
        self.named = 0
        """Its subscriptions that the log was told are failing."""
        self.turning = False
        """It stands in the line of destinations with something to send."""
        self.timer: TimerHandle | None = None
        self.wake_at = 0.0
        """When the timer rings."""
        self.recovering: float | None = None
        self.tokens = 0.0
        self.tokens_at = 0.0

    def may_start(self, now: float) -> bool:
        """Whether an attempt may start: a connection is free and the breaker lets it."""
        if self.active + self.loading >= CONNECTIONS or (self.breaker.open and self.loading):
            return False
        return self.wait(now) <= 0

    @property
    def is_free(self) -> bool:
        """Whether an attempt may start at once, before nobody else's."""
        return (
            not self.queue
            and self.active + self.loading < CONNECTIONS
            and self.breaker.until is None
            and self.recovering is None
            and self.probation is None
        )

    def wait(self, now: float) -> float:
        """Seconds until the breaker, the rate and its probation let an attempt start."""
        wait = self._wait(now)
        return wait if self.probation is None else max(wait, self.probation.wait(now))

    def _wait(self, now: float) -> float:
        if self.breaker.until is not None:
            return max(0.0, self.breaker.until - now)
        if self.recovering is None:
            return 0.0
        rate = RECOVERY_RATE * 2 ** ((now - self.recovering) / RECOVERY_DOUBLES)
        if rate > RECOVERED_RATE:
            self.recovering = None
            return 0.0
        self.tokens = min(rate, self.tokens + (now - self.tokens_at) * rate)
        self.tokens_at = now
        return 0.0 if self.tokens >= 1 else (1 - self.tokens) / rate

    @property
    def congested(self) -> bool:
        """What is offered now will wait: it belongs into the store."""
        return (
            self.breaker.open
            or (self.recovering is not None and len(self.queue) > RECOVERY_RATE)
            or (self.probation is not None and self.probation.breaker.open)
        )

    def started(self, now: float) -> None:
        self.active += 1
        self.breaker.probing(now)
        if self.recovering is not None:
            self.tokens -= 1
        if self.probation is not None:
            self.probation.started(now)

    def succeeded(self, now: float) -> None:
        """It answered, or at least took the connection."""
        if self.breaker.succeeded():
            self.ease_in(now)

    def ease_in(self, now: float) -> None:
        """Begin with a low rate: much waits for it, and nobody knows how it fares. A mailbox of our
        own takes what the store takes."""
        if self.name[0] == SCHEME:
            return
        self.recovering = self.tokens_at = now
        self.tokens = 1.0
