"""Deliveries of events of tenants, with topics as each tenant knows them: without its name."""

from adapters.protocol import Delivery
from mediation.model.messages import Notification


class TenantDelivery:
    """Wraps a delivery of any system, whose notification its tenant knows as *notification*."""

    __slots__ = ("_delivery", "notification")

    def __init__(self, delivery: Delivery, notification: Notification) -> None:
        self._delivery = delivery
        self.notification = notification

    @property
    def partition(self) -> int:
        return self._delivery.partition

    @property
    def redelivered(self) -> bool:
        return self._delivery.redelivered

    def settle(self) -> None:
        self._delivery.settle()
