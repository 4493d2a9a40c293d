"""What destinations answered that take nothing, in words: `Refusals`. It is in memory alone, for
the reason that people are told when a sequence is given up."""

from collections import OrderedDict

KEPT = 10_000
"""The sequences whose last answer is remembered; the one noted longest ago is forgotten first."""
MOST = 300
"""Characters of an answer."""

SILENT, NOTHING = "the destination does not answer", "the destination takes nothing"


class Refusals:
    """The last answers that took nothing, by the key of the sequence."""

    def __init__(self) -> None:
        self._said: OrderedDict[str, str] = OrderedDict()

    def note(self, key: str, words: str) -> bool:
        """Keep what a destination answered; whether it says something new."""
        words = words[:MOST]
        new = self._said.pop(key, None) != words
        self._said[key] = words
        if len(self._said) > KEPT:
            self._said.popitem(last=False)
        return new

    def forget(self, key: str) -> None:
        """Forget it: the destination took something."""
        self._said.pop(key, None)

    def reason(self, key: str, why: str) -> str:
        """*why* a sequence is given up, with what its destination answered last."""
        words = self._said.pop(key, None)
        if words is None:
            return why
        return f"{NOTHING if why == SILENT else why}; it answered: {words}"
