"""Delivery: one ordered, bounded outbox a subscription; the backlog lies in the store."""

from gateway.delivery.attempt import Attempts
from gateway.delivery.conservation import Conservation
from gateway.delivery.destinations.probation import ProbationLimits, Probations
from gateway.delivery.dispatcher import NEVER_AGREED, Dispatcher
from gateway.delivery.dispatchers import Dispatchers
from gateway.delivery.entry import Entry
from gateway.delivery.outbox import WINDOW
from gateway.delivery.partition_share import (
    AUTHORS,
    PartitionShare,
    author,
    everything,
    next_position,
)
from gateway.delivery.retry_schedule import BlackList, Schedule
from gateway.delivery.scheduler import SendScheduler
from gateway.delivery.sequences.acknowledgement_addresses import AcknowledgementAddresses
from gateway.delivery.sequences.protocol import SequenceProtocol, handshake, is_one_way
from gateway.delivery.work_sharing import KnownSubscriptions, ReplicaStatus, WorkSharing

__all__ = [
    "AUTHORS",
    "NEVER_AGREED",
    "WINDOW",
    "AcknowledgementAddresses",
    "Attempts",
    "BlackList",
    "Conservation",
    "Dispatcher",
    "Dispatchers",
    "Entry",
    "KnownSubscriptions",
    "PartitionShare",
    "ProbationLimits",
    "Probations",
    "ReplicaStatus",
    "Schedule",
    "SendScheduler",
    "SequenceProtocol",
    "WorkSharing",
    "author",
    "everything",
    "handshake",
    "is_one_way",
    "next_position",
]
