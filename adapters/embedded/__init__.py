"""The messaging system inside the gateway: a durable journal in SQLite."""

from adapters.embedded.adapter import EmbeddedAdapter, EmbeddedDelivery
from adapters.embedded.journal import SCHEMA_VERSION

__all__ = ["SCHEMA_VERSION", "EmbeddedAdapter", "EmbeddedDelivery"]
