"""A rate for each of many peers, in memory: `TokenBucket`."""

from collections import OrderedDict

MOST_PEERS = 10_000
"""Peers that are remembered; the one unseen the longest goes first."""


class TokenBucket:
    """A rate for each of many peers: *rate* a second on average, *burst* at once.

    Each peer has a level of its own, so that one who asks for too much takes nothing from others.
    A level that is unseen for long is full again, so the one that is forgotten first loses least;
    what a crash forgets does no harm. Times are in seconds, of any clock.

    Args:
        burst: One second's worth, but one at least, when None.
    """

    def __init__(self, rate: float, burst: float | None = None) -> None:
        self._rate = rate
        self._burst = max(rate, 1.0) if burst is None else burst
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The level of each peer, and the time of that."""

    def __len__(self) -> int:
        return len(self._levels)

    def take(self, who: str, now: float, *, number: float = 1.0) -> float:
        """Take *number* for *who*: 0, or the seconds after which it could be taken."""
        level = self._level(who, now)
        granted = level >= number
        self._levels[who] = (level - number if granted else level, now)
        self._levels.move_to_end(who)
        if len(self._levels) > MOST_PEERS:
            self._levels.popitem(last=False)
        return 0.0 if granted else (number - level) / self._rate

    def allows(self, who: str, now: float, *, number: float = 1.0) -> bool:
        """Return True if *who* may have *number* now; if so, it is taken."""
        return not self.take(who, now, number=number)

    def wait_of(self, who: str, now: float, *, number: float) -> float:
        """Return the seconds after which *who* could take *number*, 0 for now; take nothing."""
        return max(0.0, (number - self._level(who, now)) / self._rate)

    def _level(self, who: str, now: float) -> float:
        level, at = self._levels.get(who, (self._burst, now))
        # A clock that goes back gives nothing, and takes nothing.
        return min(self._burst, level + max(now - at, 0.0) * self._rate)
