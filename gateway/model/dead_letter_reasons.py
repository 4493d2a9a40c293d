"""Deliveries that died, and why."""

from dataclasses import dataclass
from enum import Enum


class DeathReason(Enum):
    """Why a delivery died."""

    REJECTED = "rejected"
    EXHAUSTED = "exhausted"
    EXPIRED_BACKLOG = "expired-backlog"
    FILTER_BUDGET = "filter-budget"
    EGRESS_FORBIDDEN = "egress-forbidden"
    TOO_LARGE = "too-large"
    BLACK_LISTED = "black-listed"
    UNREADABLE = "unreadable"
    UNKNOWN_TOPIC = "unknown-topic"
    COPY_REFUSED = "copy-refused"
    SIGNATURE_REFUSED = "signature-refused"
    RIGHT_WITHDRAWN = "right-withdrawn"
    MAILBOX_OVERFLOW = "mailbox-overflow"
    MAILBOX_AGE = "mailbox-age"
    MAILBOX_RIGHT_WITHDRAWN = "mailbox-right-withdrawn"


NOBODY = ""
"""The subscription of a message that could not be read, whose signature does not count, or whose
copy was refused: no subscription counts it. Where the messaging system yielded it, nobody owns it,
either."""

OF_MAILBOXES = (
    DeathReason.MAILBOX_OVERFLOW.value,
    DeathReason.MAILBOX_AGE.value,
    DeathReason.MAILBOX_RIGHT_WITHDRAWN.value,
)
"""Reasons of letters that lay in a mailbox: they are envelopes, and no subscription counts them."""


@dataclass(frozen=True, slots=True)
class Death:
    """Why and when a delivery died, and what the consumer said last."""

    subscription: str
    owner: str
    delivery_id: str
    topic: str | None
    reason: DeathReason
    status: int | None
    failure: str | None
    answer: str
    attempts: int
    since: float
    died: float
    partition: int = 0
    consumer: str | None = None
    """Its address; None where it is not known."""


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A dead letter as it is listed; ``octets`` are the bytes of its message, ``published`` is the
    id that its publisher gave it, or that it got when it was accepted without one."""

    number: int
    death: Death
    octets: int = 0
    published: str = ""
