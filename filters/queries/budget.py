"""The time that a query may take."""

from collections.abc import Callable
from math import inf
from time import monotonic
from types import TracebackType

SecondsLeft = Callable[[], float]
"""Says how many seconds are left: from zero on, what was found so far is the answer."""


def seconds(number: float) -> SecondsLeft:
    """Return a budget of *number* seconds from now on."""
    end = monotonic() + number
    return lambda: end - monotonic()


def unlimited() -> float:
    """A budget that has no end."""
    return inf


class Spent:
    """A budget of *number* seconds, which pass only while it is entered."""

    def __init__(self, number: float) -> None:
        self._left = number
        self._since: float | None = None

    def __call__(self) -> float:
        return self._left - (0.0 if self._since is None else monotonic() - self._since)

    def __enter__(self) -> "Spent":
        self._since = monotonic()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._left, self._since = self(), None
