"""Delivery: one ordered, bounded outbox a subscription; what waits lies in the store."""

from gateway.delivery.again import deliver_again
from gateway.delivery.courier import HOPS_PROPERTY, NEVER_AGREED, Courier
from gateway.delivery.couriers import Couriers
from gateway.delivery.ledger import Law
from gateway.delivery.parcels import WINDOW, Entry
from gateway.delivery.probation import ProbationLimits, Probations
from gateway.delivery.schedule import Schedule
from gateway.delivery.sender import Sender
from gateway.delivery.shares import AUTHORS, Share, author, next_position

__all__ = [
    "AUTHORS",
    "HOPS_PROPERTY",
    "NEVER_AGREED",
    "WINDOW",
    "Courier",
    "Couriers",
    "Entry",
    "Law",
    "ProbationLimits",
    "Probations",
    "Schedule",
    "Sender",
    "Share",
    "author",
    "deliver_again",
    "next_position",
]
