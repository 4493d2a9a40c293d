"""Seeded messages and filters to measure engines with. The same seed always gives the same.

Four styles of filters. ``xm0``, ``xm1``, ``xm3`` are those of the literature (YFilter's query
generator): paths of a corpus to depth 6, ``//`` and ``*`` with probability 0.2 at each step, 0, 1
or 3 value predicates, paths and values drawn from a Zipf distribution. ``ev`` is what subscribers
of Windows events write: sets of ids, a provider and ids, the value of a named datum, ranges,
``not``, ``contains``, in the proportions of published Windows Event Forwarding subscriptions.

Two families of messages stand in where there is no corpus. To measure on other messages, read them
into a `Vocabulary`.
"""

from filters.workloads.messages import AUCTIONS, EVENTS, FAMILIES, messages
from filters.workloads.queries import EVENT_STYLE, STYLES, Unfit, Vocabulary, expressions

__all__ = [
    "AUCTIONS",
    "EVENTS",
    "FAMILIES",
    "STYLES",
    "Unfit",
    "Vocabulary",
    "expressions",
    "family_of",
    "messages",
]


def family_of(style: str) -> str:
    """Return the family of messages that filters of *style* are about, for use without a corpus."""
    return EVENTS if style == EVENT_STYLE else AUCTIONS
