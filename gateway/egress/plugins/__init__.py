"""Transports of other packages: their settings, how they are found, and the bounds around them."""

from gateway.egress.plugins.guarded import GuardedTransport, transport_samples
from gateway.egress.plugins.loading import (
    ENTRY_POINT_GROUP,
    OURS,
    TransportError,
    load_transport,
    transport_class,
)
from gateway.egress.plugins.settings import PluggedScheme

__all__ = [
    "ENTRY_POINT_GROUP",
    "OURS",
    "GuardedTransport",
    "PluggedScheme",
    "TransportError",
    "load_transport",
    "transport_class",
    "transport_samples",
]
