"""Explains why an event passes a filter or fails it, for people."""

from filters.explaining.filters import explain

__all__ = ["explain"]
