"""Quotas and rates: how much one stranger may ask for."""

import time
from collections import OrderedDict
from dataclasses import dataclass

from filters import Reason, Refused
from gateway.security.principals import Principal

REMEMBERED = 10_000
"""Strangers whose rate is remembered; the one unseen the longest goes."""


class QuotaExceeded(Refused):
    """More than the limits allow."""

    def __init__(self, reason: Reason, text: str, *, retry_after: float | None = None) -> None:
        super().__init__(reason, text)
        self.retry_after = retry_after


@dataclass(frozen=True, slots=True)
class SubscriptionQuotas:
    """Numbers of subscriptions: of one owner, of one owner to one destination, in all."""

    owner: int = 1000
    destination: int = 100
    total: int = 100_000


class TokenBucket:
    """A rate for each of many: *rate* a second on average, *burst* at once. Times in seconds."""

    def __init__(self, rate: float, burst: float) -> None:
        self._rate = rate
        self._burst = burst
        self._levels: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, who: str, now: float, *, number: float = 1.0) -> float:
        """Take *number* for *who*: 0, or the seconds after which it could be taken."""
        level, at = self._levels.pop(who, (self._burst, now))
        level = min(self._burst, level + (now - at) * self._rate)
        granted = level >= number
        self._levels[who] = (level - number if granted else level, now)
        if len(self._levels) > REMEMBERED:
            self._levels.popitem(last=False)
        return 0.0 if granted else (number - level) / self._rate

    def wait_of(self, who: str, now: float, *, number: float) -> float:
        """The seconds after which *who* could take *number*, 0 for now; nothing is taken."""
        level, at = self._levels.get(who, (self._burst, now))
        missing = number - min(self._burst, level + (now - at) * self._rate)
        return max(0.0, missing / self._rate)


class PrincipalRate:
    """A rate that binds each stranger by itself, and no trusted principal.

    Args:
        text: What a stranger is told that exceeds it.
    """

    def __init__(self, rate: float, burst: float, text: str) -> None:
        self._bucket = TokenBucket(rate, burst)
        self._text = text

    def take(self, principal: Principal, number: float = 1.0) -> None:
        """Count *number* for *principal*.

        Raises:
            QuotaExceeded: It is more than the rate allows; nothing is counted.
        """
        if principal.trusted:
            return
        wait = self._bucket.take(principal.owner, time.monotonic(), number=number)
        if wait:
            raise QuotaExceeded(Reason.RATE, self._text, retry_after=wait)

    def check(self, principal: Principal, number: float) -> None:
        """Check that *number* could be counted for *principal*; nothing is counted.

        Raises:
            QuotaExceeded: It is more than the rate allows.
        """
        if principal.trusted:
            return
        wait = self._bucket.wait_of(principal.owner, time.monotonic(), number=number)
        if wait:
            raise QuotaExceeded(Reason.RATE, self._text, retry_after=wait)
