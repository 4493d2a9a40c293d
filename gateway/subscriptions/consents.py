"""Consents that consumers give later than they are asked: by a callback (HTTP 1.1 Web Hooks for
Event Delivery 1.0.2, section 4.1.3), also by a person who found its URL in a log.

They are known to one process alone, for a day: each start, and each of several gateways, begins
anew.
"""

from collections import OrderedDict
from dataclasses import dataclass

from gateway.security.keys import new_key

PATH = "/events/consents"
KEPT = 86400.0
"""Seconds that a callback can be used after the consumer was asked, and that a consent lasts."""
MOST = 4096
"""Callbacks and consents that are remembered; the one asked for longest ago goes."""


@dataclass(slots=True)
class _Asked:
    """A consumer that was asked: the last part of its callback, and the rate that it allows, in
    requests a minute; 0 is any rate, and None is no consent yet."""

    key: str
    until: float
    rate: int | None = None


class Consents:
    """The consents that were asked for. Each is for the subscriber on whose behalf that was done.

    Args:
        base: The gateway's own URL, without a slash at the end.
    """

    def __init__(self, base: str) -> None:
        self._base = base
        self._asked: OrderedDict[tuple[str, str], _Asked] = OrderedDict()
        """By owner and the consumer's URL."""
        self._of_key: dict[str, tuple[str, str]] = {}

    def callback(self, owner: str, consumer: str, now: float) -> str:
        """The URL at which *consumer* agrees to what *owner* asked for; the same until it is used,
        or over. *now* is in seconds of any clock that does not go back."""
        asked = self._asked.pop((owner, consumer), None)
        if asked is not None and (asked.rate is not None or asked.until <= now):
            del self._of_key[asked.key]  # A consent that is over is not given again by asking.
            asked = None
        if asked is None:
            asked = _Asked(new_key(), 0.0)
            self._of_key[asked.key] = (owner, consumer)
        asked.until = now + KEPT
        self._asked[owner, consumer] = asked
        if len(self._asked) > MOST:
            _, oldest = self._asked.popitem(last=False)
            del self._of_key[oldest.key]
        return f"{self._base}{PATH}/{asked.key}"

    def agree(self, key: str, rate: int, now: float) -> bool:
        """Take the consent of the consumer whose callback this was; False if *key* is unknown
        or too old."""
        named = self._of_key.get(key)
        asked = None if named is None else self._asked[named]
        if asked is None or asked.until <= now:
            return False
        asked.rate, asked.until = rate, now + KEPT
        return True

    def given(self, owner: str, consumer: str, now: float) -> int | None:
        """The rate that *consumer* allows; None where it has not agreed."""
        asked = self._asked.get((owner, consumer))
        return None if asked is None or asked.until <= now else asked.rate
