"""How often a peer may ask for something: `Rates`. It is in memory alone, and bounded: what a crash
forgets of it does no harm."""

from collections import OrderedDict

MOST_PEERS = 10_000
"""The peers that are remembered; the one that was seen longest ago is forgotten first."""


class Rates:
    """What peers used of their allowances.

    Args:
        per_second: How often, on average; up to one second's worth at once.
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._used: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """When each was seen last, and how much of its allowance was left then."""

    def allows(self, peer: str, now: float) -> bool:
        """Whether *peer* may do it now; if so, it is counted."""
        most = max(self._per_second, 1.0)
        seen, left = self._used.pop(peer, (now, most))
        left = min(most, left + max(now - seen, 0.0) * self._per_second)
        allowed = left >= 1.0
        self._used[peer] = (now, left - 1.0 if allowed else left)
        if len(self._used) > MOST_PEERS:
            self._used.popitem(last=False)
        return allowed
