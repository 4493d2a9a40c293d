"""The last requests that made subscriptions, as they came: for those who look for what a subscriber
asked for. Bounded, and in memory."""

from collections import OrderedDict
from dataclasses import dataclass

KEPT = 1000
"""Requests that are kept."""
LARGEST = 64 * 2**10
"""Bytes of one; a larger one is not kept."""
BYTES = 8 * 2**20
"""Bytes of all together."""


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    """A request in SOAP: the path that it came to, and its envelope."""

    path: str
    envelope: bytes


class SubscribeRequests:
    """The last requests, by the ids of the subscriptions that they made.

    Args:
        kept: How many are kept.
        octets: Their bytes.
    """

    def __init__(self, kept: int = KEPT, octets: int = BYTES) -> None:
        self._kept = kept
        self._most_octets = octets
        self._octets = 0
        self._requests: OrderedDict[str, SubscribeRequest] = OrderedDict()

    def note(self, subscription: str, path: str, envelope: bytes) -> None:
        """Keep the request that made the subscription with this id; one that was repeated last."""
        former = self._requests.pop(subscription, None)
        if former is not None:
            self._octets -= len(former.envelope)
        if not 0 < len(envelope) <= LARGEST:
            return
        self._requests[subscription] = SubscribeRequest(path, envelope)
        self._octets += len(envelope)
        while len(self._requests) > self._kept or self._octets > self._most_octets:
            _, oldest = self._requests.popitem(last=False)
            self._octets -= len(oldest.envelope)

    def find(self, subscription: str) -> SubscribeRequest | None:
        """The request that made the subscription with this id, where it is kept."""
        return self._requests.get(subscription)
