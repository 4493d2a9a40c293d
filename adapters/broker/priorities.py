"""The priority of an event: its property ``priority``, a whole number, which is one of a message to
brokers; they order queues by it that are declared so (``x-max-priority``, JMSPriority)."""

from collections.abc import Mapping

PRIORITY = "priority"
_DIGITS = 9


def priority_of(properties: Mapping[str, str], highest: int) -> int | None:
    """Return the priority that *properties* say, at most the *highest* that the broker has; None
    where they say none."""
    text = properties.get(PRIORITY)
    if text is None or not (text.isascii() and text.isdigit()) or len(text) > _DIGITS:
        return None
    return min(int(text), highest)
