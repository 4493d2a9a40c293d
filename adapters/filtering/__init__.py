"""Subscriptions in front of any adapter: matching, filters that the system evaluates, slow
filters."""

from adapters.filtering.adapter import XPathFilterAdapter
from adapters.filtering.observed import ObservedDelivery
from adapters.filtering.slow_filters import Evaluated, Matched

__all__ = ["Evaluated", "Matched", "ObservedDelivery", "XPathFilterAdapter"]
