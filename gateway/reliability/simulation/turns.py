"""Take the messages for a side of a run in turns, as many together as came meanwhile."""

from collections.abc import Callable
from random import Random
from typing import Generic, TypeVar

from gateway.reliability.simulation.timeline import Timeline

T = TypeVar("T")

WAITS = (0.0, 0.02, 0.3)
"""Seconds that a turn lasts at most, one of them: the commit before it is so slow."""


class Turns(Generic[T]):
    """The turns of one side.

    Args:
        most: The most messages of a turn; the room of each turn is drawn.
        take: Takes the messages of a turn.
    """

    def __init__(
        self, timeline: Timeline, random: Random, most: int, take: Callable[[list[T]], object]
    ) -> None:
        self._timeline, self._random = timeline, random
        self._most, self._take = most, take
        self._waiting: list[T] = []
        self._room = 0
        self._number = 0

    def add(self, one: T) -> None:
        """Let *one* be of this turn, which begins with it where none goes on."""
        if not self._waiting:
            self._number += 1
            self._room = self._random.randint(1, self._most)
            number = self._number
            end = self._timeline.now + self._random.choice(WAITS)
            self._timeline.at(end, lambda: self._end(number))
        self._waiting.append(one)
        if len(self._waiting) >= self._room:
            self._end(self._number)

    def _end(self, number: int) -> None:
        if number == self._number and self._waiting:
            taken, self._waiting = self._waiting, []
            self._take(taken)
