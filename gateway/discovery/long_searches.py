"""Continue long searches beside everything else, in turns.

They have a thread of their own, in which each runs for a moment and then lets the next one run. So
quick searches are answered meanwhile, and slow ones do not wait for one another. Requests without a
signature have another thread, so that no signed one waits for them. The number of long searches is
bounded, in all and for each entity or stranger; beyond it, an answer has what was found at once.
"""

from collections import Counter
from functools import partial

from filters.queries import Spent, seconds
from gateway.discovery.node_messages import NodeRequest, RunningSearch
from gateway.parsing import RenewedThread

SOON = 0.01
"""Seconds after which a search goes on here."""
TURN = 0.05
"""Seconds of one turn."""
MOST = 32
"""Long searches at a time, of signed requests."""
MOST_OF_ONE = 8
"""The most of them that may be of one entity."""
MOST_OF_STRANGERS, MOST_OF_STRANGER = 8, 2
"""The same for requests without a signature: in all, and of one network address."""


class LongSearches:
    """The long searches that are under way."""

    def __init__(self) -> None:
        self._thread = RenewedThread("discovery-searches")
        self._of_strangers = RenewedThread("discovery-strangers")
        self._of: Counter[tuple[bool, str]] = Counter()

    def __len__(self) -> int:
        return self._of.total()

    def has_room(self, asked: NodeRequest) -> bool:
        """Return True if one more search may go on."""
        most, most_of_one = MOST, MOST_OF_ONE
        if not asked.signed:
            most, most_of_one = MOST_OF_STRANGERS, MOST_OF_STRANGER
        there = sum(number for (signed, _), number in self._of.items() if signed is asked.signed)
        return there < most and self._of[_whose(asked)] < most_of_one

    async def finish(self, searching: RunningSearch, left: Spent) -> None:
        """Run *searching* to its end. *left* is the budget that it began with, which passes in its
        turns alone."""
        whose = _whose(searching.asked)
        thread = self._thread if searching.asked.signed else self._of_strangers
        self._of[whose] += 1
        try:
            while not await thread.run(partial(_turn, searching, left)):
                pass
        finally:
            self._of[whose] -= 1
            if not self._of[whose]:
                del self._of[whose]

    def close(self) -> None:
        """Begin no more turns."""
        for thread in (self._thread, self._of_strangers):
            thread.close()


def _turn(searching: RunningSearch, left: Spent) -> bool:
    with left:
        return searching.go_on(seconds(TURN))


def _whose(asked: NodeRequest) -> tuple[bool, str]:
    return asked.signed, asked.head.sender if asked.signed else asked.publisher
