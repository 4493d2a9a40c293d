"""Keeps work that is done in steps to a rate."""

import asyncio
import math
import time


class Pace:
    """Has steps last so long that no more than *rate* things are done a second; None: no bound."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._began = time.monotonic()
        self._done = 0

    def step(self, most: int) -> int:
        """How many things to do in one step: those of a second, at least 1, at most *most*."""
        return most if self._rate is None else max(1, min(most, math.ceil(self._rate)))

    async def keep(self, done: int) -> None:
        """Wait until *done* more things do not exceed the rate."""
        self._done += done
        if self._rate is not None:
            due = self._began + self._done / self._rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
