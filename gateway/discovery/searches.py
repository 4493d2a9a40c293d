"""Searches that take longer than others should wait: beside everything else, in turns.

They have a thread of their own, in which each goes on for a moment and lets the next one go on; so
what is found quickly is answered meanwhile, and many slow searches do not wait for one another.
Strangers have another thread, so that who signs waits for none of them. How many searches there are
is bounded, of one entity or stranger too: beyond, an answer is what was found at once.
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
MOST = 32
"""Searches that go on at a time, of those who sign."""
MOST_OF_ONE = 8
"""How many of them may be of one entity."""
MOST_OF_STRANGERS, MOST_OF_STRANGER = 8, 2
"""The same of those who do not sign, and of one address of theirs."""


class Searches:
    """The searches that go on."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="discovery-searches")
        self._of_strangers = ThreadPoolExecutor(1, thread_name_prefix="discovery-strangers")
        self._of: Counter[tuple[bool, str]] = Counter()

    def __len__(self) -> int:
        return self._of.total()

    def has_room(self, asked: Asked) -> bool:
        """Whether one more search may go on."""
        most, most_of_one = MOST, MOST_OF_ONE
        if not asked.signed:
            most, most_of_one = MOST_OF_STRANGERS, MOST_OF_STRANGER
        there = sum(number for (signed, _), number in self._of.items() if signed is asked.signed)
        return there < most and self._of[_whose(asked)] < most_of_one

    async def finish(self, searching: Searching, left: Spent) -> None:
        """Let *searching* go on until it is done; *left* is what it was begun with, and passes in
        its turns alone."""
        whose, loop = _whose(searching.asked), asyncio.get_running_loop()
        thread = self._thread if searching.asked.signed else self._of_strangers
        self._of[whose] += 1
        try:
            while not await loop.run_in_executor(thread, _turn, searching, left):
                pass
        finally:
            self._of[whose] -= 1
            if not self._of[whose]:
                del self._of[whose]

    def close(self) -> None:
        """Begin no more turns."""
        for thread in (self._thread, self._of_strangers):
            thread.shutdown(wait=False, cancel_futures=True)


def _turn(searching: Searching, left: Spent) -> bool:
    with left:
        return searching.go_on(seconds(TURN))


def _whose(asked: Asked) -> tuple[bool, str]:
    return asked.signed, asked.head.sender if asked.signed else asked.publisher
