"""Refusals of a broker, remembered for a while, so that the like of them is refused at once.

A refusal teaches one of three things: how large a message may be, that a destination takes nothing
from us, or, where its words say neither, that this one message is not taken. Permissions and limits
change, so all of it is forgotten after `REMEMBERED` seconds.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

REMEMBERED = 60.0
"""Seconds until what was refused is tried again."""
MOST = 1000
"""Destinations, and messages, that are remembered; the oldest make room."""


@dataclass(frozen=True, slots=True)
class Lesson:
    """The conclusion from a refusal for other messages: those of *octets* bytes or more are
    refused, or all for *destination*; with neither, only the message itself."""

    octets: int | None = None
    destination: str | None = None


class Refusals:
    """The messages that are known to be refused.

    Args:
        clock: Seconds, of any beginning.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._too_large: tuple[int, str, float] | None = None
        """Bytes from which on a message is too large, the broker's words, until when it counts."""
        self._known: OrderedDict[tuple[str, str], tuple[str, float]] = OrderedDict()
        """The words, and until when they count, of destinations ("", name) and of messages (source,
        id)."""

    def __bool__(self) -> bool:
        return self._too_large is not None or bool(self._known)

    def learn(self, lesson: Lesson, words: str, message: tuple[str, str]) -> None:
        """Remember that *message* (source and id) was refused in *words*, and what that teaches."""
        until = self._clock() + REMEMBERED
        if lesson.octets is not None:
            self._too_large = lesson.octets, words, until
            return
        key = message if lesson.destination is None else ("", lesson.destination)
        self._known[key] = words, until
        self._known.move_to_end(key)
        if len(self._known) > MOST:
            self._known.popitem(last=False)

    def words_for(
        self, message: tuple[str, str], destinations: tuple[str, ...], octets: int
    ) -> str:
        """Return why *message*, of so many bytes, is refused for one of *destinations*; "" where
        nothing is known against it."""
        if self._too_large is not None and octets >= self._too_large[0]:
            if self._clock() < self._too_large[2]:
                return self._too_large[1]
            self._too_large = None
        for key in (message, *(("", name) for name in destinations)):
            found = self._known.get(key)
            if found is not None and self._clock() < found[1]:
                return found[0]
            self._known.pop(key, None)
        return ""

    def forget(self, message: tuple[str, str], destinations: tuple[str, ...], octets: int) -> None:
        """Forget whatever is known against *message*."""
        if self._too_large is not None and octets >= self._too_large[0]:
            self._too_large = None
        for key in (message, *(("", name) for name in destinations)):
            self._known.pop(key, None)
