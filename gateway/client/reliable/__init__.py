"""Queued transactions for applications: messages are stored with what a program changes, sent in
sequences of WS-ReliableMessaging, and given to the other program once, in order, in a transaction
with what that one changes.

::

    client = ReliableClient("sqlite:///shop.db")
    receiver = Receiver("sqlite:///warehouse.db")
"""

import logging

from filters.extras import how_to_install

try:
    import sqlalchemy as _sqlalchemy  # noqa: F401 (its absence is said once, here)
except ModuleNotFoundError as error:
    if error.name != "sqlalchemy":
        raise
    raise ModuleNotFoundError(
        "reliable messaging needs SQLAlchemy (the extra reliable), which is not installed: "
        + how_to_install("reliable"),
        name="sqlalchemy",
    ) from error

from gateway.client.reliable.client import ReliableClient, Replies
from gateway.client.reliable.deliveries import Completed, Delivery, GivenUp
from gateway.client.reliable.receiver import Receiver
from gateway.client.reliable.transactions import ClientTransaction, MessageOptions
from gateway.reliability.loading import load_store
from gateway.reliability.source import SourceFull
from gateway.reliability.storage import InDoubt, StorageUnavailable
from gateway.reliability.stores.database import DatabaseStore
from gateway.reliability.stores.memory import MemoryStore
from gateway.reliability.stores.participants import (
    ConnectionManager,
    EngineConnections,
    LastResource,
    PsycopgConnections,
)
from gateway.reliability.stores.two_phase import TwoPhaseStore
from gateway.reliability.values import Answer
from gateway.reliability.values import ApplicationFault as Fault
from mediation.model.versions import Soap, Wsa
from mediation.reliable_messaging import Rm
from mediation.reliable_messaging.policy import Policy

__all__ = [
    "Answer",
    "ClientTransaction",
    "Completed",
    "ConnectionManager",
    "DatabaseStore",
    "Delivery",
    "EngineConnections",
    "Fault",
    "GivenUp",
    "InDoubt",
    "LastResource",
    "MemoryStore",
    "MessageOptions",
    "Policy",
    "PsycopgConnections",
    "Receiver",
    "ReliableClient",
    "Replies",
    "Rm",
    "Soap",
    "SourceFull",
    "StorageUnavailable",
    "TwoPhaseStore",
    "Wsa",
    "load_store",
]

logging.getLogger("dragoman.reliable").addHandler(logging.NullHandler())
