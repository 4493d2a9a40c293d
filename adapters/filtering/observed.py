"""Deliveries that say when they are settled."""

from collections.abc import Callable

from adapters.protocol import Delivery
from mediation.model.messages import Notification


class ObservedDelivery:
    """Wraps a delivery of any system; *settled* is called with its notification once, when it is
    settled."""

    __slots__ = ("__weakref__", "_delivery", "_settled")

    def __init__(self, delivery: Delivery, settled: Callable[[Notification], None]) -> None:
        self._delivery = delivery
        self._settled: Callable[[Notification], None] | None = settled

    @property
    def notification(self) -> Notification:
        return self._delivery.notification

    @property
    def partition(self) -> int:
        return self._delivery.partition

    @property
    def redelivered(self) -> bool:
        return self._delivery.redelivered

    def settle(self) -> None:
        self._delivery.settle()
        settled, self._settled = self._settled, None
        if settled is not None:
            settled(self.notification)
