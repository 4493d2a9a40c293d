"""Loads the adapter of a messaging system's URL, and makes it anew when it fails."""

from adapters.loading.copies import EventCopies, load_event_copies
from adapters.loading.entry_points import (
    ENTRY_POINT_GROUP,
    adapter_class,
    bundled_schemes,
    load,
    schemes,
    without_password,
)
from adapters.loading.restarting import RestartingAdapter

__all__ = [
    "ENTRY_POINT_GROUP",
    "EventCopies",
    "RestartingAdapter",
    "adapter_class",
    "bundled_schemes",
    "load",
    "load_event_copies",
    "schemes",
    "without_password",
]
