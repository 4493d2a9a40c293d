"""Sets of message numbers, as ranges: what was received, what is acknowledged."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from mediation.model.values import checked_dataclass


@checked_dataclass(frozen=True, slots=True)
class Ranges:
    """An immutable set of positive numbers.

    Attributes:
        pairs: Lowest and highest number of each range, rising; no two overlap or touch.
    """

    pairs: tuple[tuple[int, int], ...] = ()

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, int]]) -> "Ranges":
        """The union of *pairs*, in any order, however they overlap.

        Raises:
            ValueError: A pair has a number below 1, or its lower end above its upper one.
        """
        merged: list[tuple[int, int]] = []
        for lower, upper in sorted(pairs):
            if not 1 <= lower <= upper:
                raise ValueError(f"no range: {lower} to {upper}")
            if merged and lower <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(merged[-1][1], upper))
            else:
                merged.append((lower, upper))
        return cls(tuple(merged))

    @classmethod
    def parse(cls, text: str) -> "Ranges":
        """The inverse of ``str``.

        Raises:
            ValueError: *text* is not what ``str`` writes.
        """
        pairs = (part.partition("-") for part in text.split(",") if part)
        return cls.of((int(lower), int(upper if dash else lower)) for lower, dash, upper in pairs)

    def text(self) -> str:
        """What a store keeps; `parse` reads it."""
        return str(self)

    def __str__(self) -> str:
        """Such as ``1-4,6``."""
        return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in self.pairs)

    def __contains__(self, number: object) -> bool:
        if not isinstance(number, int):
            return False
        place = bisect_right(self.pairs, number, key=_lower) - 1
        return place >= 0 and number <= self.pairs[place][1]

    def __or__(self, other: "Ranges") -> "Ranges":
        if not other.pairs or self.pairs == other.pairs:
            return self
        if not self.pairs:
            return other
        # What is added to says all of what it said before, nearly always: it is the longer one.
        if len(self.pairs) == len(other.pairs) == 1:
            [(low, high)], [(lower, upper)] = self.pairs, other.pairs
            if low == lower:
                return self if high >= upper else other
        return Ranges.of(self.pairs + other.pairs)

    def __bool__(self) -> bool:
        return bool(self.pairs)

    def __len__(self) -> int:
        """How many numbers there are."""
        return self.count

    def upto(self, highest: int) -> "Ranges":
        """Those that are not above *highest*."""
        return Ranges(
            tuple((low, min(high, highest)) for low, high in self.pairs if low <= highest)
        )

    def add(self, number: int) -> "Ranges":
        """With *number*.

        Raises:
            ValueError: It is below 1.
        """
        if number < 1:
            raise ValueError(f"no message number: {number}")
        if self.pairs and self.pairs[-1][1] == number - 1:  # In order, as nearly all come.
            return Ranges((*self.pairs[:-1], (self.pairs[-1][0], number)))
        place = bisect_left(self.pairs, number, key=_lower)
        around = self.pairs[max(place - 1, 0) : place + 1]
        joined = Ranges.of((*around, (number, number))).pairs
        return Ranges(self.pairs[: max(place - 1, 0)] + joined + self.pairs[place + 1 :])

    @property
    def count(self) -> int:
        """How many numbers there are."""
        return sum(upper - lower + 1 for lower, upper in self.pairs)

    @property
    def highest(self) -> int:
        """0 where there is none."""
        return self.pairs[-1][1] if self.pairs else 0

    @property
    def first_gap(self) -> int:
        """The lowest number that is not in it."""
        if not self.pairs or self.pairs[0][0] > 1:
            return 1
        return self.pairs[0][1] + 1

    def is_all(self, last: int) -> bool:
        """Whether it has just the numbers from 1 to *last*."""
        return self.pairs == (((1, last),) if last else ())

    def gaps(self, last: int) -> Iterator[tuple[int, int]]:
        """The ranges of the numbers up to *last* that are not in it."""
        following = 1
        for lower, upper in self.pairs:
            if lower > last:
                break
            if lower > following:
                yield following, lower - 1
            following = upper + 1
        if following <= last:
            yield following, last


NO_NUMBERS = EMPTY = Ranges()


def _lower(pair: tuple[int, int]) -> int:
    return pair[0]
