"""The store: subscriptions, held deliveries and dead letters, in SQLite or PostgreSQL."""

from gateway.store.deadline import answered_in_time
from gateway.store.engine import Operation, Store, run_apart
from gateway.store.outages import StoreUnavailable
from gateway.store.totals import Totals
from gateway.store.waiting_deliveries import HeldRow

__all__ = [
    "HeldRow",
    "Operation",
    "Store",
    "StoreUnavailable",
    "Totals",
    "answered_in_time",
    "run_apart",
]
