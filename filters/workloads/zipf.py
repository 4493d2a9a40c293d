"""Draws in which the first are the likeliest."""

import random
from bisect import bisect
from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, TypeVar

SKEW = 1.0
"""The exponent of every Zipf distribution here."""

T = TypeVar("T")


class Zipf(Generic[T]):
    """Draws from *items*, the first the likeliest: the n-th with a weight of 1 / n ** skew."""

    def __init__(self, items: Sequence[T], skew: float = SKEW) -> None:
        self._items = items
        self._sums = list(accumulate((n + 1) ** -skew for n in range(len(items))))

    def draw(self, chance: random.Random) -> T:
        return self._items[bisect(self._sums, chance.random() * self._sums[-1])]
