"""The clock of a run: what happens when, one thing after the other."""

import heapq
from collections.abc import Callable
from itertools import count


class Timeline:
    """Simulated time, in seconds from the start of the run."""

    def __init__(self) -> None:
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._order = count()

    def at(self, time: float, event: Callable[[], object]) -> None:
        """Let *event* happen at *time*; what is planned for the same time happens in the order in
        which it was planned."""
        heapq.heappush(self._events, (max(time, self.now), next(self._order), event))

    def step(self, within: float | None = None) -> bool:
        """Let the next event happen; False after the last one.

        Args:
            within: Only one of the next so many seconds.
        """
        if not self._events:
            return False
        if within is not None and self._events[0][0] > self.now + within:
            return False
        self.now, _, event = heapq.heappop(self._events)
        event()
        return True
