"""Destinations: the hosts and ports that are sent to, with what bounds the attempts at each."""

from collections import deque
from typing import Generic, Protocol, TypeVar

from gateway.delivery.destinations.breaker import FIRST_PROBE, Breaker
from gateway.delivery.destinations.failures import Trouble
from gateway.delivery.destinations.probation import Probation
from gateway.delivery.timers import Timed
from gateway.mailboxes.transport import SCHEME

CONNECTIONS = 8
HEARTBEATS = 1024
"""Heartbeats that wait for their turn at one destination: each keeps an outbox in memory."""
AGAIN = 1.0
"""Seconds until the next try, at least, where heartbeats are due and cannot be sent now."""
FORBIDDEN_FOR = 60.0
"""Seconds after which a heartbeat is tried again where an operator lets nothing be sent."""
RECOVERY_RATE = 50.0
RECOVERY_DOUBLES = 10.0
RECOVERED_RATE = 5000.0


class Queued(Protocol):
    """Something that waits for its turn at a destination: an outbox."""

    queued: bool


Q = TypeVar("Q", bound=Queued)


class Destination(Timed, Generic[Q]):
    """A scheme, host and port, and the outboxes that want to send there.

    It has a few connections, a breaker for failures to connect, and, for a while after that closed,
    a rate.
    """

    __slots__ = (
        "active", "address", "agreed", "breaker", "forbidden", "heartbeats", "known", "loading",
        "name", "named", "outboxes", "probation", "queue", "recovering", "tenant", "tokens",
        "tokens_at", "trouble", "turning",
    )  # fmt: skip

    def __init__(
        self, name: tuple[str, str, int], probe: float = FIRST_PROBE, tenant: str = ""
    ) -> None:
        self.timer = None
        self.rings_at = 0.0
        self.name = name
        self.tenant = tenant
        """Whose it is: two tenants that send to one host have a destination each."""
        self.queue: deque[Q] = deque()
        self.outboxes = 0
        self.active = 0
        """Attempts under way."""
        self.loading = 0
        """Outboxes that read the store, to send next."""
        self.heartbeats = 0
        """Outboxes that wait to send a heartbeat."""
        self.breaker = Breaker(probe)
        self.forbidden = False
        """An operator lets nothing be sent here: what is to be sent waits in the store."""
        self.known = False
        """True if the host has agreed was found out."""
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
        """The destination stands in the line of those with something to send."""
        self.recovering: float | None = None
        self.tokens = 0.0
        self.tokens_at = 0.0

    # Whether it may be sent to.

    def may_start(self, now: float) -> bool:
        """True if an attempt may start: a connection is free and the breaker lets it."""
        if self.active + self.loading >= CONNECTIONS or (self.breaker.open and self.loading):
            return False
        if self.forbidden:
            return False
        return self.wait(now) <= 0

    @property
    def is_free(self) -> bool:
        """True if an attempt may start at once, before nobody else's."""
        return (
            not self.queue
            and self.active + self.loading < CONNECTIONS
            and self.breaker.until is None
            and self.recovering is None
            and self.probation is None
            and not self.forbidden
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
        """True if a delivery that is offered now would wait: it belongs into the store."""
        return (
            self.forbidden
            or self.breaker.open
            or (self.recovering is not None and len(self.queue) > RECOVERY_RATE)
            or (self.probation is not None and self.probation.breaker.open)
        )

    def blocked(self, now: float) -> float:
        """Seconds for which its breaker, or an operator, lets nothing start, not even a probe."""
        if self.forbidden:
            return FORBIDDEN_FOR
        return 0.0 if self.breaker.until is None else max(0.0, self.breaker.until - now)

    @property
    def takes_heartbeats(self) -> bool:
        """True if one more may wait for its turn."""
        return self.heartbeats < HEARTBEATS

    # Who sends.

    def take(self) -> None:
        """Count one outbox more that sends here."""
        self.outboxes += 1

    def give_back(self) -> bool:
        """Count one outbox less. Returns whether that was the last."""
        self.outboxes -= 1
        return not self.outboxes

    def enqueue(self, outbox: Q, *, first: bool = False) -> None:
        """Let *outbox* wait for its turn, if it does not yet."""
        if outbox.queued:
            return
        outbox.queued = True
        if first:
            self.queue.appendleft(outbox)
        else:
            self.queue.append(outbox)

    def dequeue(self) -> Q:
        """The outbox whose turn it is."""
        outbox = self.queue.popleft()
        outbox.queued = False
        return outbox

    def turn(self, *, waits: bool) -> None:
        """Enter the line of destinations with something to send, or leave it."""
        self.turning = waits

    # An attempt.

    def start(self, now: float) -> None:
        """Begin an attempt."""
        self.active += 1
        if self.breaker.until is not None:
            self.breaker.probing(now)
        if self.recovering is not None:
            self.tokens -= 1
        if self.probation is not None:
            self.probation.started(now)

    def note_answer(self, now: float) -> None:
        """Note that the destination answered, or at least took the connection."""
        if self.breaker.succeeded():
            self.ease_in(now)

    def withhold(self, now: float) -> None:
        """Note that an attempt sent nothing: of the destination that says nothing."""
        self.breaker.withhold(now)
        if self.probation is not None:
            self.probation.withhold(now)

    def ease_in(self, now: float) -> None:
        """Begin with a low rate: much waits for the destination, and nobody knows how it fares. A
        mailbox of our own takes what the store takes."""
        if self.name[0] == SCHEME:
            return
        self.recovering = self.tokens_at = now
        self.tokens = 1.0

    def note_trouble(self, error: str, now: float) -> None:
        """Note that the destination could not be connected to."""
        if self.trouble is None:
            self.trouble = Trouble(0, now, now, error)
        self.trouble.failed(error, now)

    def clear_trouble(self) -> None:
        self.trouble = None

    def name_failing(self, change: int) -> None:
        """Count the failing subscriptions that the log was told of: one more (1), or less (-1)."""
        self.named = max(0, self.named + change)

    # Whether its host has agreed.

    def learn_agreed(self, agreed: bool) -> bool:
        """Note, once, whether the host has agreed. Returns whether it has."""
        self.known, self.agreed = True, agreed
        return agreed

    def put_on_probation(self, probation: Probation | None) -> None:
        """Bound attempts by *probation*; None: somebody speaks for the host."""
        self.probation = probation

    def agree(self) -> None:
        """Note that the host has accepted a message."""
        self.agreed = True

    def free(self) -> None:
        """End the probation: the host has accepted a message, here or elsewhere."""
        self.agreed, self.probation = True, None

    def doubt(self) -> None:
        """Know nothing of whether the host has agreed: why it counted as agreed is no more."""
        self.known = self.agreed = False

    def forbid(self, forbidden: bool) -> None:
        """Let nothing be sent here any more, or again."""
        self.forbidden = forbidden

    def lead_to(self, address: str) -> None:
        """Note the *address* to which the name led, on probation."""
        self.address = address
