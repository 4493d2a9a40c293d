"""Counts the names that the event loop's thread has learnt, by who taught them."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

LEARNT_OF_ONE = 5_000
"""Names that one owner may teach the thread."""
LEARNT = 200_000
"""Names that all strangers together may."""
_OCTETS_OF_NAME = 64
"""Octets of a message with a new name that count as one name, at least: names may be long."""
_SHORTEST = len("<a>")


class LearntNames:
    """Names of strangers, which libxml2 keeps for the life of the thread that met them.

    Who has taught too many costs only himself: his messages are parsed elsewhere from then on.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._by_owner: dict[str, int] = {}
        self.number = 0
        """How many were taught, about."""

    def may_teach(self, owner: str) -> bool:
        """Whether what *owner* sends may be parsed in this thread."""
        return self.number < LEARNT and self._by_owner.get(owner, 0) < LEARNT_OF_ONE

    def run(self, octets: int, work: Callable[[set[str] | None], T], owner: str) -> T:
        """Run *work*, which parses *octets* of *owner*, and count what it teaches."""
        known = len(self._names)
        try:
            result = work(self._names)
        except Exception:
            if len(self._names) == known:  # Of what is not well-formed nobody knows the names.
                self._count(owner, octets // _SHORTEST)
            else:
                self._count(owner, self._of(len(self._names) - known, octets))
            raise
        if len(self._names) != known:
            self._count(owner, self._of(len(self._names) - known, octets))
        return result

    def _of(self, new: int, octets: int) -> int:
        return max(new, octets // _OCTETS_OF_NAME)

    def _count(self, owner: str, number: int) -> None:
        self._by_owner[owner] = self._by_owner.get(owner, 0) + number
        self.number += number
