"""Delivery: one ordered, bounded outbox a subscription; what waits lies in the store."""

from gateway.delivery.courier import HOPS_PROPERTY, Courier
from gateway.delivery.ledger import Law
from gateway.delivery.parcels import Entry
from gateway.delivery.schedule import Schedule

__all__ = ["HOPS_PROPERTY", "Courier", "Entry", "Law", "Schedule"]
