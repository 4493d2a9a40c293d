"""The store: subscriptions, held deliveries and dead letters, in SQLite or PostgreSQL."""

from gateway.store.engine import Operation, Store, StoreUnavailable, run_apart
from gateway.store.held import HeldRow
from gateway.store.totals import Totals

__all__ = [
    "HeldRow",
    "Operation",
    "Store",
    "StoreUnavailable",
    "Totals",
    "run_apart",
]
