"""One delivery that several take on: it is settled when all have settled it."""

from adapters import Delivery
from mediation.model.messages import Notification


class _Count:
    """How many have yet to settle a delivery."""

    __slots__ = ("delivery", "left")

    def __init__(self, delivery: Delivery, left: int) -> None:
        self.delivery = delivery
        self.left = left

    def less(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.delivery.settle()


class PartDelivery:
    """A delivery as one of several has it."""

    __slots__ = ("_count", "_settled")

    def __init__(self, count: _Count) -> None:
        self._count = count
        self._settled = False

    @property
    def notification(self) -> Notification:
        return self._count.delivery.notification

    @property
    def partition(self) -> int:
        return self._count.delivery.partition

    @property
    def redelivered(self) -> bool:
        return self._count.delivery.redelivered

    def settle(self) -> None:
        if not self._settled:
            self._settled = True
            self._count.less()


def shared_settlement(delivery: Delivery, number: int) -> list[PartDelivery]:
    """*delivery* for *number* takers, each of which settles its own."""
    count = _Count(delivery, number)
    return [PartDelivery(count) for _ in range(number)]
