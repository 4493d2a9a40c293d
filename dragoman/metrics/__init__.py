"""Metrics of Prometheus: ``prometheus_client.REGISTRY.register(OutboxCollector(engine))``."""

from gateway.client.outbox.metrics import OutboxCollector

__all__ = ["OutboxCollector"]
