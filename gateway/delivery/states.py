"""The states of a delivery, and all that may happen to it.

A delivery, one message for one subscription, is in one of four states. `TRANSITIONS` is the picture
as a table; nothing but the methods of `gateway.delivery.outbox.Outbox` makes a transition.

             hold                 stored
      LIVE --------> HOLDING ---------------> HELD <---+
       |                |                      |  |    | postponed
       |                | already there        |  +----+
       |                v                      |
       +------------> DONE <-------------------+
        delivered,     ^          delivered, buried,
        buried,        |          dropped, expired
        dropped,       |
        expired        +-- abandoned, from everywhere
"""

from collections.abc import Mapping
from enum import Enum


class State(Enum):
    """Of a delivery."""

    __hash__ = object.__hash__  # Enum's own is a Python function, called for every delivery.

    LIVE = "live"
    """In memory alone; its message stays unsettled."""
    HOLDING = "holding"
    """On its way into the store."""
    HELD = "held"
    """A row of the store."""
    DONE = "done"


class Event(Enum):
    """Something that happens to a delivery."""

    __hash__ = object.__hash__

    HOLD = "hold"
    """The delivery failed, stalled, or stands behind one that did: it is to become a row."""
    STORED = "stored"
    """The row is committed."""
    ALREADY_THERE = "already there"
    """The store had its row from an earlier run, or has its subscription no more."""
    POSTPONED = "postponed"
    """Its attempt failed, and its row says when the next one is due."""
    DELIVERED = "delivered"
    BURIED = "buried"
    """The delivery became a dead letter."""
    DROPPED = "dropped"
    """The subscription has ended."""
    EXPIRED = "expired"
    """The life of its event is over."""
    ABANDONED = "abandoned"
    """Another gateway may have its partition."""


TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.LIVE, Event.HOLD): State.HOLDING,
    (State.LIVE, Event.DELIVERED): State.DONE,
    (State.LIVE, Event.BURIED): State.DONE,
    (State.LIVE, Event.DROPPED): State.DONE,
    (State.LIVE, Event.EXPIRED): State.DONE,
    (State.LIVE, Event.ABANDONED): State.DONE,
    (State.HOLDING, Event.STORED): State.HELD,
    (State.HOLDING, Event.ALREADY_THERE): State.DONE,
    (State.HOLDING, Event.ABANDONED): State.DONE,
    (State.HELD, Event.POSTPONED): State.HELD,
    (State.HELD, Event.DELIVERED): State.DONE,
    (State.HELD, Event.BURIED): State.DONE,
    (State.HELD, Event.DROPPED): State.DONE,
    (State.HELD, Event.EXPIRED): State.DONE,
    (State.HELD, Event.ABANDONED): State.DONE,
    (State.DONE, Event.ABANDONED): State.DONE,
}
"""All that may happen. A pair that is not here is a mistake of ours, and raises KeyError."""
