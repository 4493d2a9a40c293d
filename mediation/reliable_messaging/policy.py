"""How long a side of a sequence waits, how often it tries, how much it takes: `Policy`, and what
follows from it. Nothing here has a clock or draws a random number: both come in as arguments."""

from dataclasses import dataclass
from enum import Enum

from mediation.reliable_messaging.ranges import Ranges
from mediation.reliable_messaging.values import MAX_RANGES
from mediation.reliable_messaging.versions import LARGEST_NUMBER

TRIES = 10


class Verdict(Enum):
    """What a destination does with a number that came."""

    TAKE = "store it, and acknowledge it"
    DUPLICATE = "acknowledge it again"
    AFTER_LAST = "refuse it: the sequence ends before it"
    TOO_FAR = "drop it without a word: the gap before it is too large"
    FULL = "drop it without a word: too many messages wait"
    ROLLOVER = "refuse it: no number is that large"


@dataclass(frozen=True, slots=True)
class Policy:
    """Times in seconds.

    Attributes:
        interval: From sending something for the first time to sending it again.
        factor: By which that grows each time.
        jitter: The part of it that is random, either way.
        ceiling: The longest it gets, before jitter.
        tries: How often something is sent before the sequence is given up; None: `TRIES`, or,
            in a program's queue (`gateway.client.reliable`), until the sequence expires.
        reply_tries: How often a request is sent whose reply comes back on its connection, when it
            is acknowledged and has none: about a day.
        reply_within: How long a request that is acknowledged waits for its reply before the
            sequence is given up, wherever replies come; None: as long as *reply_tries* take, and
            for ever where they come at an address, or are fetched.
        ack_after, ack_every: When new messages are acknowledged at the latest.
        window: The most numbers between the lowest one that is not acknowledged and the highest
            one that is sent.
        attempts: How often a message is given to an application that fails before it is dead.
        poll: Between two MakeConnections of a client that nothing waits for.
        tombstone: How long an ended sequence answers late requests.
        inactivity: After how long a destination ends a sequence that it hears nothing of.
        keep_alive: After how long a source asks for an acknowledgement only to be heard of.
        expiry: The longest life of a sequence, whatever is asked for.
        sequences_per_peer, sequences: The most sequences of one owner and of all.
        creations: CreateSequence requests of one peer a second.
        unknown_every: A peer hears of an unknown identifier once in that time.
        stored: The most messages of a sequence that wait for the application, or to be sent.
        gap: How far above the highest number received another one may be.
    """

    interval: float = 2.0
    factor: float = 2.0
    jitter: float = 0.2
    ceiling: float = 120.0
    tries: int | None = None
    reply_tries: int = 720
    reply_within: float | None = None
    ack_after: float = 0.2
    ack_every: int = 32
    window: int = 64
    attempts: int = 10
    poll: float = 2.0
    tombstone: float = 3600.0
    inactivity: float = 3600.0
    keep_alive: float = 600.0
    expiry: float = 24 * 3600.0
    sequences_per_peer: int = 64
    sequences: int = 10_000
    creations: float = 10.0
    unknown_every: float = 1.0
    stored: int = 10_000
    gap: int = 10_000

    def retry_after(self, tries: int, random: float) -> float:
        """The time until what was sent *tries* times is sent again.

        Args:
            random: From 0 to 1.
        """
        # Beyond 64 doublings every interval is at the ceiling; the power would be no float.
        grown = self.interval * self.factor ** min(max(tries - 1, 0), 64)
        return min(grown, self.ceiling) * (1 + self.jitter * (2 * random - 1))

    def gives_up(self, tries: int) -> bool:
        """Whether what was sent *tries* times without an answer is given up."""
        return tries >= (TRIES if self.tries is None else self.tries)

    def lifetime(self, asked: float | None) -> float:
        """The life of a sequence, where *asked* was; None or 0 asks for one without an end."""
        return min(asked, self.expiry) if asked and asked > 0 else self.expiry

    def hurries(self, tries: int, next_at: float | None, now: float) -> bool:
        """Whether a message that was sent *tries* times goes again at once, and not at *next_at*,
        where its destination asks for it (Nack). After the first time, some of the interval has to
        be over: whoever asks with each message that comes would use up all tries.
        """
        if next_at is None or tries <= 1:
            return True
        grown = self.interval * self.factor ** min(tries - 1, 64)
        return next_at - now <= 0.75 * min(grown, self.ceiling)

    def acknowledge_at(self, unacknowledged: int, planned: float | None, now: float) -> float:
        """When an acknowledgement is due, after a message that is the *unacknowledged*-th since the
        last one.

        Args:
            planned: When one was due before this message came, or None.
        """
        if unacknowledged >= self.ack_every:
            return now
        return now + self.ack_after if planned is None else planned

    def admits(self, of_peer: int, of_all: int) -> bool:
        """Whether a sequence more is taken of a peer who has *of_peer* of *of_all*."""
        return of_peer < self.sequences_per_peer and of_all < self.sequences

    def highest_sent(self, acknowledged: Ranges, room: int | None) -> int:
        """The highest number that may be sent.

        Args:
            room: How many messages the destination said that it takes, or None. Where it takes
                none, one is sent all the same: it tells when there is room again.
        """
        window = self.window if room is None else min(self.window, max(room, 1))
        return acknowledged.first_gap - 1 + window

    def verdict(
        self, number: int, received: Ranges, *, last: int | None = None, waiting: int = 0
    ) -> Verdict:
        """What a destination does with message *number*.

        Args:
            last: The number that the sequence ends with, once it is known.
            waiting: How many messages wait for the application.
        """
        if number > LARGEST_NUMBER:
            return Verdict.ROLLOVER
        if number in received:
            return Verdict.DUPLICATE
        if last is not None and number > last:
            return Verdict.AFTER_LAST
        if number > received.highest + self.gap:
            return Verdict.TOO_FAR
        if len(received.pairs) >= MAX_RANGES and len(received.add(number).pairs) > MAX_RANGES:
            return Verdict.TOO_FAR  # No acknowledgement could list it.
        # That which fills the first gap is taken always: nothing else lets the rest go.
        if waiting >= self.stored and number != received.first_gap:
            return Verdict.FULL
        return Verdict.TAKE

    def is_half_gone(self, created: float, expires: float | None, now: float) -> bool:
        """Whether a sequence is so near to its expiry that messages go to a new one."""
        return expires is not None and now - created > (expires - created) / 2
