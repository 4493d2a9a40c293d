"""Quotas and rates: how much one stranger may ask for."""

import time
from dataclasses import dataclass

from filters import Reason, Refused
from gateway.security.principals import Principal
from gateway.token_bucket import TokenBucket


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
        if not principal.limits.quotas:
            return
        wait = self._bucket.take(principal.owner, time.monotonic(), number=number)
        if wait:
            raise QuotaExceeded(Reason.RATE, self._text, retry_after=wait)

    def check(self, principal: Principal, number: float) -> None:
        """Check that *number* could be counted for *principal*; nothing is counted.

        Raises:
            QuotaExceeded: It is more than the rate allows.
        """
        if not principal.limits.quotas:
            return
        wait = self._bucket.wait_of(principal.owner, time.monotonic(), number=number)
        if wait:
            raise QuotaExceeded(Reason.RATE, self._text, retry_after=wait)
