"""Why a filter matched an event or did not, as a tree of values."""

from collections.abc import Iterator
from dataclasses import dataclass

MAX_TEXT = 120
_WORDS = {True: "yes", False: "no ", None: "?  "}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The result of one piece of a filter; `str` gives indented lines, for people.

    Args:
        verdict: True if it holds; None if that was not found out (it is too expensive, or depends
            on a position).
        text: The piece as it was written, shortened.
        note: What was found, in a few words; may be empty.
        children: The pieces of it that say why.
    """

    verdict: bool | None
    text: str
    note: str = ""
    children: "tuple[Explanation, ...]" = ()

    def __str__(self) -> str:
        return "\n".join(self._lines(0))

    def _lines(self, depth: int) -> Iterator[str]:
        note = f"  -- {self.note}" if self.note else ""
        yield f"{'  ' * depth}{_WORDS[self.verdict]} {self.text}{note}"
        for child in self.children:
            yield from child._lines(depth + 1)


def shortened(text: str, most: int = MAX_TEXT) -> str:
    """*text* on one line of at most *most* characters."""
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1] + "…"
