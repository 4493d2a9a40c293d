"""Explains why an event passes a filter or fails it, for people."""

from filters.explaining.explanation import Explanation, shortened
from filters.explaining.filters import explain

__all__ = ["Explanation", "explain", "shortened"]
