"""Delivery: one ordered, bounded outbox a subscription; what waits lies in the store."""

from gateway.delivery.dispatcher import HOPS_PROPERTY, NEVER_AGREED, Courier
from gateway.delivery.dispatchers import Couriers
from gateway.delivery.outbox import WINDOW, Entry
from gateway.delivery.partition_share import AUTHORS, Share, author, next_position
from gateway.delivery.probation import ProbationLimits, Probations
from gateway.delivery.resend import deliver_again
from gateway.delivery.schedule import Schedule
from gateway.delivery.scheduler import Sender
from gateway.delivery.settlement import Law

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
