"""Delivery modes: how the deliveries of a subscription are made, and acknowledged (DSP0226 1.2,
section 10.2.9)."""

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum
from hashlib import sha256


class Mode(Enum):
    """A delivery mode; the value is its name in lists and in the store."""

    PUSH = "push"
    """One event, one message; any 2xx is enough."""
    PUSH_WITH_ACK = "push-with-ack"
    """One event, one message, which the sink acknowledges before it gets the next."""
    EVENTS = "events"
    """Several events in a message, which the sink acknowledges as a whole."""
    BATCH = "batch"
    """Several events in a message; any 2xx is enough (CloudEvents)."""
    PULL = "pull"
    """The sink fetches."""


class DeliveryAssurance(Enum):
    """The number of times that a consumer gets an event, whatever fails; the value is its name for
    subscribers."""

    AT_MOST_ONCE = "at-most-once"
    """One attempt, and nothing is stored."""
    AT_LEAST_ONCE = "at-least-once"
    """It is tried until it is taken, is too old, or nobody is there any more."""
    EXACTLY_ONCE = "exactly-once"
    """In a sequence of WS-ReliableMessaging, in order."""


class Oversize(Enum):
    """The treatment of an event that is too large for the sink; the value is the word of
    ``wsman:MaxEnvelopeSize/@Policy``."""

    CANCEL = "CancelSubscription"
    SKIP = "Skip"
    NOTIFY = "Notify"
    """A DroppedEvents message takes its place."""


@dataclass(frozen=True, slots=True)
class DeliveryMode:
    """The delivery that a sink of WS-Management, a consumer of CloudEvents in batches, or one of
    sequences asked for with its subscription. Times are seconds.

    Attributes:
        max_elements: Events in one message at most; None leaves it to the gateway.
        max_time: For which an event may wait for others of its message; None: it does not.
        max_envelope_size: Octets of one message at most; None: no limit of the sink's.
        oversize: What becomes of an event for which that is too little.
        heartbeats: In each such interval the sink gets an event or a heartbeat; None: it does not
            want any.
        bookmarks: Each message has a bookmark.
        encoding: ``utf-8`` or ``utf-16``.
        retry_every, retries: How often a message that failed is sent again, and how many times:
            then the subscription ends. None: by the gateway's own schedule.
        reliable: The version of WS-ReliableMessaging, ``1.0`` or ``1.1``, in whose sequence the
            deliveries go, each once and in order; empty: they go in none.
        at_most_once: An event is tried once, and never stored.
    """

    mode: Mode = Mode.PUSH
    max_elements: int | None = None
    max_time: float | None = None
    max_envelope_size: int | None = None
    oversize: Oversize = Oversize.NOTIFY
    heartbeats: float | None = None
    bookmarks: bool = False
    encoding: str = "utf-8"
    retry_every: float | None = None
    retries: int | None = None
    reliable: str = ""
    at_most_once: bool = False

    @property
    def assurance(self) -> DeliveryAssurance:
        """The number of times that the consumer gets an event."""
        if self.at_most_once:
            return DeliveryAssurance.AT_MOST_ONCE
        return DeliveryAssurance.EXACTLY_ONCE if self.reliable else DeliveryAssurance.AT_LEAST_ONCE

    @property
    def acknowledged(self) -> bool:
        """True if a message counts as delivered only when the sink has acknowledged it."""
        return self.mode in (Mode.PUSH_WITH_ACK, Mode.EVENTS)

    @property
    def batched(self) -> bool:
        """True if one message has several events."""
        return self.mode in (Mode.EVENTS, Mode.BATCH)


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options that the gateway, as a sink, gives a source of WS-Management.

    Attributes:
        resource: The URI of the resource that is subscribed to.
        timeout: For which the source may work on a request.
        heartbeats: In each such interval the source is to send an event or a heartbeat; None: it is
            not asked to.
        bookmarks: Each message is to have a bookmark.
        bookmark: The element with the last one, behind which the source is to go on.
    """

    resource: str
    timeout: timedelta
    heartbeats: timedelta | None = None
    bookmarks: bool = False
    bookmark: bytes | None = None


@dataclass(frozen=True, slots=True)
class Bookmark:
    """The place in a subscription up to which its sink has got.

    ``proof`` shows that who names it has had deliveries of the subscription with this id.
    """

    subscription: str
    proof: str
    position: int


def bookmark_of(id: str, key: str, position: int) -> Bookmark:
    """The bookmark at *position* in the subscription with this id and key."""
    return Bookmark(id, sha256(f"bookmark {key}".encode()).hexdigest()[:32], position)


PUSH = DeliveryMode()
"""The delivery of base WS-Eventing, and of every other specification."""
