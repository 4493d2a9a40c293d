"""What stands between Dragoman and a messaging system: the protocol of an adapter, the adapters,
and the filter adapter that puts subscriptions in front of any of them."""

from adapters.filtering.adapter import XPathFilterAdapter
from adapters.filtering.slow_filters import Evaluated, Matched
from adapters.loading import load, schemes
from adapters.protocol import (
    API_VERSION,
    EVERYTHING_WANTED,
    Adapter,
    AdapterError,
    AdapterState,
    AdapterUnavailable,
    Capabilities,
    Delivery,
    Interest,
    ReportingAdapter,
    SelectedDelivery,
    SharedAdapter,
    SharedDelivery,
)

__all__ = [
    "API_VERSION",
    "EVERYTHING_WANTED",
    "Adapter",
    "AdapterError",
    "AdapterState",
    "AdapterUnavailable",
    "Capabilities",
    "Delivery",
    "Evaluated",
    "Interest",
    "Matched",
    "ReportingAdapter",
    "SelectedDelivery",
    "SharedAdapter",
    "SharedDelivery",
    "XPathFilterAdapter",
    "load",
    "schemes",
]
