"""The probation of one host: few attempts, until it has accepted a message."""

from collections import deque
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from gateway.delivery.breaker import FIRST_PROBE, Breaker

MINUTE = 60.0
LOOK_AGAIN = 1.0
"""Seconds after which it is looked whether one of the last attempts succeeded."""


class _Active(Protocol):
    """A destination, with the number of its attempts under way."""

    active: int


D = TypeVar("D", bound=_Active)


@dataclass(frozen=True, slots=True)
class ProbationLimits:
    """Attempts a minute, and in all; and seconds until the first probe of a host's breaker."""

    a_minute: int = 6
    in_all: int = 20
    probe: float = FIRST_PROBE


class Probation(Generic[D]):
    """One host, and the destinations that it is. Times are the event loop's, in seconds."""

    __slots__ = ("_limits", "_recent", "attempts", "breaker", "destinations", "last")

    def __init__(self, limits: ProbationLimits) -> None:
        self._limits = limits
        self._recent: deque[float] = deque(maxlen=limits.a_minute)
        self.attempts = 0
        self.breaker = Breaker(limits.probe)
        self.destinations: set[D] = set()
        self.last = 0.0

    @property
    def over(self) -> bool:
        """Whether all attempts were made, and none of them succeeded."""
        return self.attempts >= self._limits.in_all and not self._in_flight

    @property
    def _in_flight(self) -> int:
        return sum(destination.active for destination in self.destinations)

    def wait(self, now: float) -> float:
        """Seconds until the next attempt may start; 0 when it is over, which who asks is told."""
        if self.attempts >= self._limits.in_all:
            return LOOK_AGAIN if self._in_flight else 0.0
        wait = self.breaker.until - now if self.breaker.until is not None else 0.0
        if len(self._recent) == self._recent.maxlen:
            wait = max(wait, self._recent[0] + MINUTE - now)
        return max(0.0, wait)

    def started(self, now: float) -> None:
        """An attempt starts."""
        self.attempts += 1
        self._recent.append(now)
        self.last = now
        self.breaker.probing(now)

    def failed(self, now: float, *, at_least: float = 0.0) -> None:
        """An attempt ended otherwise than with a 2xx."""
        self.breaker.failed(now, at_least=at_least)
