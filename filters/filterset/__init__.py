"""The set of filters that is matched against each event."""

from filters.filterset.entries import Deferred, Matching
from filters.filterset.filterset import FilterSet

__all__ = ["Deferred", "FilterSet", "Matching"]
