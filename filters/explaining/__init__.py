"""Explains why an event passes a filter or fails it, for people."""
