"""The schedule of attempts."""

import random
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Self

from gateway.delivery.destinations.breaker import FIRST_PROBE
from mediation.model.delivery_modes import DeliveryMode

DELAYS = (5.0, 30.0, 120.0, 600.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 28800.0)
"""Seconds from one attempt to the next: eleven attempts in about a day."""
JITTER = 0.2
ANSWERED = 5
PATIENCE = 600.0
"""Seconds for which a message that its consumer answers with failures holds up those behind it at
least: consumers are restarted, and their databases."""


@dataclass(frozen=True, slots=True)
class BlackList:
    """The rest that a consumer gets which does not answer in time, as in WS-Messenger: *after*
    so many time-outs in a row, for so many *seconds*."""

    after: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Schedule:
    """The attempts that a delivery gets. Times are seconds.

    ``answered``: after so many attempts that were answered with a failure, a delivery dies when
    others of its subscription wait behind it. ``black_list``: None means that consumers are
    never left alone.
    """

    delays: tuple[float, ...] = DELAYS
    age: float = 30 * 3600.0
    answered: int = ANSWERED
    forbidden: int = 3
    probe: float = FIRST_PROBE
    """Until the first probe after a breaker opened."""
    gives_up: bool = False
    """The subscription ends when the attempts of a delivery are used up."""
    black_list: BlackList | None = None

    @classmethod
    def of(cls, delays: tuple[float, ...], black_list: BlackList | None = None) -> Self:
        """One with these *delays*, whose failures are answered for `PATIENCE` at least."""
        attempts = 1
        waited = 0.0
        for delay in delays:
            if attempts >= ANSWERED and waited >= PATIENCE:
                break
            attempts += 1
            waited += delay
        return cls(delays, answered=max(attempts, ANSWERED), black_list=black_list)

    def wanted_by(self, delivery: DeliveryMode) -> "Schedule":
        """The schedule of a subscription: its own, where its sink asked for one."""
        if delivery.retry_every is None:
            return self
        return _retrying(self, delivery.retry_every, delivery.retries or 1)

    @property
    def attempts(self) -> int:
        return len(self.delays) + 1

    def next(self, attempts: int) -> float | None:
        """Seconds until the next attempt after *attempts* were made; None when they are used up."""
        if attempts >= self.attempts:
            return None
        delay = self.delays[max(attempts, 1) - 1]
        return delay * random.uniform(1 - JITTER, 1 + JITTER)


@lru_cache(maxsize=64)
def _retrying(schedule: Schedule, every: float, times: int) -> Schedule:
    return replace(schedule, delays=(every,) * times, answered=times + 2, gives_up=True)
