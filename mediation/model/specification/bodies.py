"""Notifications of a specification that are not SOAP, or are calls in SOAP."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from filters import Topic
from mediation.model.facts import Fact
from mediation.model.messages import Notification, Policy, Subscription
from mediation.model.versions import Form, Soap


class Holes(NamedTuple):
    """Values put into the octets of a `BodyShape` for one recipient, prepared at Subscribe, and
    the headers that go to it alone."""

    headers: bytes = b""
    reference: bytes = b""
    closing: bytes = b""
    http_headers: tuple[tuple[str, str], ...] = ()


NO_HOLES = Holes()


class Filling(Protocol):
    """A recipient, as far as its strings fill the holes of a `BodyRendering`. *number* counts what
    it is sent."""

    @property
    def headers(self) -> bytes: ...

    @property
    def reference(self) -> bytes: ...

    @property
    def closing(self) -> bytes: ...

    @property
    def number(self) -> int: ...


class BodyRendering(Protocol):
    """A notification in one `BodyShape`. ``own_headers`` are headers that no other message has;
    ``numbered``: each recipient's number is put in."""

    @property
    def http_headers(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def own_headers(self) -> tuple[tuple[str, str], ...]: ...

    @property
    def numbered(self) -> bool: ...

    def fill(self, recipient: Filling, message_id: str) -> bytes:
        """The octets for one recipient."""


@dataclass(slots=True)  # Not frozen: that makes it dearer, for every message.
class Body:
    """A message that is not SOAP: the same octets for every recipient of its shape."""

    http_headers: tuple[tuple[str, str], ...]
    octets: bytes
    own_headers: tuple[tuple[str, str], ...] = ()

    @property
    def numbered(self) -> bool:
        return False

    def fill(self, recipient: object, message_id: str) -> bytes:
        """The octets for one recipient."""
        return self.octets


class BodyShape(Protocol):
    """All that the octets of a message without SOAP, or a call in SOAP, depend on, but the event
    and what fills their holes. It is hashed and compared by value."""

    @property
    def soap(self) -> Soap | None:
        """The version of the envelope; None if the message is not SOAP."""

    @property
    def tells(self) -> frozenset[Fact]:
        """The facts of an event that its messages say besides the payload, as in `Wrapping`."""

    def __hash__(self) -> int: ...

    def topic_of(self, notification: Notification) -> Topic | None:
        """The topic that recipients read, as far as *tells* has it."""

    def render(self, notification: Notification, producer: str) -> BodyRendering:
        """Write *notification*; *producer* is the gateway's own address."""

    def batch(self, notifications: Sequence[Notification], producer: str) -> Body:
        """Write several notifications as one message.

        Raises:
            ValueError: The form has none for several.
        """


class Bodies(Protocol):
    """The ways in which a version writes notifications that are no SOAP, or calls in it."""

    def shape(self, form: Form, policy: Policy) -> BodyShape:
        """The way for a subscriber that asked for this form, and whose policy this is."""

    def holes(self, subscription: Subscription) -> Holes:
        """Return the values for this subscriber."""
