"""The last attempts to deliver to each subscription, for those who ask how a consumer answers.

Bounded, and in memory: a subscription has its last `KEPT`; of all together what was tried the
longest ago is forgotten first.
"""

from bisect import bisect_left
from collections import OrderedDict, deque
from operator import itemgetter
from typing import NamedTuple, TypeAlias

KEPT = 50
"""Attempts of one subscription."""
SUBSCRIPTIONS = 10_000
"""Subscriptions whose attempts are kept."""
BYTES = 32 * 2**20
"""Bytes of all attempts that are kept, about."""
_OF_ONE = 320
"""Bytes that an attempt takes beside its texts: what it is made of, and its place in a ring."""
_ENDED = itemgetter(0)


class Attempt(NamedTuple):
    """One attempt that has ended.

    Attributes:
        ended: When it ended, in POSIX seconds.
        seconds: How long it took.
        verdict: What came of it, as the label of the metrics says it.
        status: Of the answer; None where there was none.
        error: What went wrong, in words; None where nothing did.
        answer: The first kilobyte of what the consumer said.
        message: The id of the message; of a heartbeat empty.
        deliveries: How many deliveries it carried.
        again: It was sent once more because an operator asked for that.
    """

    ended: float
    seconds: float
    verdict: str
    status: int | None
    error: str | None
    answer: str
    message: str
    deliveries: int = 1
    again: bool = False


Fields: TypeAlias = tuple[float, float, str, int | None, str | None, str, str, int, bool]
"""The fields of an `Attempt` as a bare tuple, which is made in a fifth of the time."""


class AttemptLog:
    """The last attempts of the subscriptions that something was sent to last.

    Args:
        kept: Attempts of one subscription.
        subscriptions: Subscriptions that have some here.
        octets: Bytes of all together, about.
    """

    def __init__(
        self, kept: int = KEPT, subscriptions: int = SUBSCRIPTIONS, octets: int = BYTES
    ) -> None:
        self._kept = kept
        self._most = subscriptions
        self._most_octets = octets
        self._octets = 0
        self._rings: OrderedDict[str, deque[Fields]] = OrderedDict()

    @property
    def octets(self) -> int:
        """Bytes that are kept, about."""
        return self._octets

    def note(self, subscription: str, attempt: Fields) -> None:
        """Keep *attempt* of the subscription with this id. It is called for every attempt."""
        ring = self._rings.get(subscription)
        if ring is None:
            ring = self._rings[subscription] = deque()
            if len(self._rings) > self._most:
                self._forget_oldest()
        else:
            self._rings.move_to_end(subscription)
        ring.append(attempt)
        octets = _octets(attempt)
        if len(ring) > self._kept:
            octets -= _octets(ring.popleft())
        if octets:
            self._octets += octets
            while self._octets > self._most_octets and len(self._rings) > 1:
                self._forget_oldest()

    def _forget_oldest(self) -> None:
        _, ring = self._rings.popitem(last=False)
        self._octets -= sum(map(_octets, ring))

    def rates(self, since: float, now: float) -> dict[str, float]:
        """Attempts a second from *since* to *now*, by the ids of the subscriptions that had any. Of
        one whose attempts within that time are more than are kept, it is the rate of those."""
        rates = {}
        for id_, ring in self._rings.items():
            if ring[-1][0] < since:
                continue
            # By bisection: of 10,000 subscriptions a look at each attempt took 25 ms.
            number = len(ring) - bisect_left(ring, since, key=_ENDED)
            began = ring[0][0] if number == self._kept else since
            rates[id_] = number / max(now - began, 1.0)
        return rates

    def of(self, subscription: str) -> list[Attempt]:
        """The attempts of the subscription with this id, the last one first."""
        return [Attempt._make(fields) for fields in reversed(self._rings.get(subscription, ()))]


def _octets(attempt: Fields) -> int:
    answer = attempt[5]
    if not answer:
        return _OF_ONE + len(attempt[6])
    return _OF_ONE + len(attempt[6]) + len(answer) * (1 if answer.isascii() else 4)
