"""The store: subscriptions, held deliveries and dead letters, in SQLite or PostgreSQL."""

from gateway.store.engine import Operation, Store, StoreUnavailable, run_apart
from gateway.store.held import DeadLetter, HeldRow, Reason
from gateway.store.totals import Totals

__all__ = [
    "DeadLetter",
    "HeldRow",
    "Operation",
    "Reason",
    "Store",
    "StoreUnavailable",
    "Totals",
    "run_apart",
]
