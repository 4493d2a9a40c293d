"""Searches that take longer than others should wait: beside everything else, in turns.

They have a thread of their own, in which each goes on for a moment and lets the next one go on; so
what is found quickly is answered meanwhile, and many slow searches do not wait for one another. How
many there are is bounded, of one entity too: beyond, an answer is what was found at once.
"""

import asyncio
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from filters.queries import Spent, seconds
from gateway.discovery.outcomes import Asked, Searching

SOON = 0.01
"""Seconds after which a search goes on here."""
TURN = 0.05
"""Seconds after which it is the next one's turn."""
MOST = 8
"""Searches that go on at a time."""
MOST_OF_ONE = 2
"""How many of them may be of one entity, or of all strangers together."""


class Searches:
    """The searches that go on."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="discovery-searches")
        self._of: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._of.total()

    def has_room(self, asked: Asked) -> bool:
        """Whether one more search may go on."""
        return len(self) < MOST and self._of[_whose(asked)] < MOST_OF_ONE

    async def finish(self, searching: Searching, left: Spent) -> None:
        """Let *searching* go on until it is done; *left* is what it was begun with, and passes in
        its turns alone."""
        whose, loop = _whose(searching.asked), asyncio.get_running_loop()
        self._of[whose] += 1
        try:
            while not await loop.run_in_executor(self._thread, _turn, searching, left):
                pass
        finally:
            self._of[whose] -= 1
            if not self._of[whose]:
                del self._of[whose]

    def close(self) -> None:
        """Begin no more turns."""
        self._thread.shutdown(wait=False, cancel_futures=True)


def _turn(searching: Searching, left: Spent) -> bool:
    with left:
        return searching.go_on(seconds(TURN))


def _whose(asked: Asked) -> str:
    return "" if asked.checked.signer is None else asked.head.sender
