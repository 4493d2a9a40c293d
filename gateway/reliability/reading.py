"""Messages that are read twice: when they come, and when an application gets them."""

from functools import lru_cache

from mediation.reliable_messaging import ReliableMessage, read_message

SHORT = 8 * 1024
"""Bytes of a message that is worth keeping; all that are kept have a few MiB."""
KEPT = 256


def read_again(envelope: bytes) -> ReliableMessage:
    """Read a message, as `read_message` does; a short one that was read just now is remembered."""
    return _read(envelope) if len(envelope) <= SHORT else read_message(envelope)


_read = lru_cache(KEPT)(read_message)
