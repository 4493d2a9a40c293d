"""Delivery: one ordered, bounded outbox a subscription; what waits lies in the store."""

from gateway.delivery.dispatcher import HOPS_PROPERTY, NEVER_AGREED, Dispatcher
from gateway.delivery.dispatchers import Dispatchers
from gateway.delivery.outbox import WINDOW, Entry
from gateway.delivery.partition_share import AUTHORS, Share, author, next_position
from gateway.delivery.probation import ProbationLimits, Probations
from gateway.delivery.resend import deliver_again
from gateway.delivery.schedule import Schedule
from gateway.delivery.scheduler import SendScheduler
from gateway.delivery.settlement import Conservation

__all__ = [
    "AUTHORS",
    "HOPS_PROPERTY",
    "NEVER_AGREED",
    "WINDOW",
    "Conservation",
    "Dispatcher",
    "Dispatchers",
    "Entry",
    "ProbationLimits",
    "Probations",
    "Schedule",
    "SendScheduler",
    "Share",
    "author",
    "deliver_again",
    "next_position",
]
