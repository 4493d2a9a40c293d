"""Messaging systems behind Dragoman: the protocol of an adapter, the adapters themselves, and the
filter adapter that puts subscriptions in front of any of them.

Public, for authors of adapters: the names here, and what docs/adapters.md lists of `broker`,
`deduplication`, `interests`, `options` and `testing`.
"""

from adapters.filtering import Evaluated, Matched, ObservedDelivery, XPathFilterAdapter
from adapters.loading import load, schemes
from adapters.protocol import (
    API_VERSION,
    EVERYTHING_WANTED,
    Adapter,
    AdapterError,
    AdapterFailed,
    AdapterState,
    AdapterUnavailable,
    Capabilities,
    Delivery,
    Interest,
    Isolated,
    Isolating,
    PublicationRefused,
    Refusal,
    RefusalMemory,
    Sharing,
)

__all__ = [
    "API_VERSION",
    "EVERYTHING_WANTED",
    "Adapter",
    "AdapterError",
    "AdapterFailed",
    "AdapterState",
    "AdapterUnavailable",
    "Capabilities",
    "Delivery",
    "Evaluated",
    "Interest",
    "Isolated",
    "Isolating",
    "Matched",
    "ObservedDelivery",
    "PublicationRefused",
    "Refusal",
    "RefusalMemory",
    "Sharing",
    "XPathFilterAdapter",
    "load",
    "schemes",
]
