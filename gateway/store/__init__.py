"""The store: subscriptions, held deliveries and dead letters, in SQLite or PostgreSQL."""

from gateway.store.engine import Store, StoreUnavailable
from gateway.store.outbox import DeadLetter, HeldRow, Reason
from gateway.store.totals import Totals

__all__ = ["DeadLetter", "HeldRow", "Reason", "Store", "StoreUnavailable", "Totals"]
