"""The messaging system inside the gateway: a durable journal in SQLite."""

from adapters.embedded.adapter import EmbeddedAdapter, EmbeddedDelivery

__all__ = ["EmbeddedAdapter", "EmbeddedDelivery"]
