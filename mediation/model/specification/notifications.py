"""Notifications of a specification, and its messages about the end of a subscription."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from filters import Topic
from mediation.model.facts import Fact
from mediation.model.messages import End, EndpointReference, Subscription
from mediation.model.versions import Soap, Wsa


class EnvelopeParts(NamedTuple):
    """The parts of an envelope around the payload.

    *header* follows the addressing headers. In the body *before_reference* comes first, then the
    subscription's reference, *before_payload*, the payload, and *after_payload*.
    """

    header: str = ""
    before_reference: str = ""
    before_payload: str = ""
    after_payload: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Wrapping:
    """One way to wrap notifications. It is compared by identity: every rendering looks it up."""

    around: Callable[[Topic, EndpointReference, str | None, Wsa], EnvelopeParts]
    """Called with the topic, the producer, the topic dialect of the subscriber, and the version of
    WS-Addressing for references; once for all messages with these."""
    reference: Callable[[str, Wsa], str] | None = None
    """Writes the reference of the subscription, with its manager's address, where messages have
    one."""
    action: str | None = None
    """The action of every message; None: each has its event's."""
    opening: Callable[[str], str] | None = None
    """Writes the start tag around the payload by the event's own action, where messages tell it."""
    default_action: str | None = None
    """The action of an event without one; None: it is made from the payload."""
    names_producer: bool = False
    """True if *around* writes the producer; then frames differ by producer."""
    names_gateway: bool = True
    """True if the gateway stands for a producer that nobody named; else the address of the one that
    *around* gets is empty."""
    keeps_topic_header: bool = False
    """True if a publisher's own topic header goes to the consumer as it is."""
    tells: frozenset[Fact] = frozenset()
    """What its messages say of an event besides the payload; `mediation.matrix` reports the rest as
    lost."""
    around_written: Callable[[str, EndpointReference, Wsa], EnvelopeParts] | None = None
    """Called instead of *around*, for one message, with the element in which the publisher itself
    wrote the topic, where it did and consumers get it as it is."""


class Notifications(Protocol):
    """The ways in which a version wraps notifications."""

    @property
    def actions(self) -> frozenset[str]:
        """The actions of its wrapped messages; an event that came with one has none of its own."""

    def wrapping(self, soap: Soap, *, raw: bool, dialect: str | None) -> Wrapping:
        """The way for a subscriber that used this SOAP and topic dialect, and asked for *raw*
        messages or not."""


class Ending(Protocol):
    """The message that tells a subscriber that its subscription ended before its time."""

    @property
    def element(self) -> str:
        """The expanded name of the message's element."""

    def write(self, subscription: Subscription, end: End, reason: str) -> tuple[str, str]:
        """The action and the body of the message to the ``EndTo`` of *subscription*."""
