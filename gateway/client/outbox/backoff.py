"""Pauses that grow from one try to the next."""

import random
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Backoff:
    """Twice as long each time, up to a bound; up to a quarter less, so that not all come at once.

    Attributes:
        first: Seconds after the first failure.
        longest: Seconds at most.
    """

    first: float = 1.0
    longest: float = 300.0

    def seconds(self, failures: int) -> float:
        """The pause after so many failures, which are at least one."""
        grown = min(self.longest, self.first * 2.0 ** min(failures - 1, 60))
        return grown * random.uniform(0.75, 1.0)  # Nobody has to guess it.
