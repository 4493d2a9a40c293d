"""Values that go in and out of the runtime: messages to send, replies, deliveries to applications,
notices to people."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import TypeAlias

from gateway.reliability.records import OutgoingSequence, Wire
from gateway.reliability.storage import StorageUnavailable, Transaction
from mediation.model.messages import EndpointReference
from mediation.model.values import checked_dataclass
from mediation.reliable_messaging import ReliableMessage, read_message
from mediation.soap.body_elements import BodyContent, body_element, detail_content
from mediation.soap.envelopes import http_headers


@checked_dataclass(frozen=True, slots=True)
class Outgoing:
    """An envelope that a transport sends, after the transaction that decided on it. What comes of
    it is told by `Endpoint.sent`.

    Attributes:
        label: Its kind, for people.
        key: The sequence whose worker sent it, or None.
        ends: The sequence has ended once it was handed over (TerminateSequence of 1.0).
        status: The status of HTTP, where it is an answer.
    """

    to: EndpointReference
    envelope: bytes
    action: str
    wire: Wire
    label: str
    key: str | None = None
    ends: bool = False
    status: int = 200

    @property
    def http_headers(self) -> tuple[tuple[str, str], ...]:
        """Content-Type, and in SOAP 1.1 SOAPAction."""
        return http_headers(self.wire.soap, self.action)


@dataclass(frozen=True, slots=True)
class Awaited:
    """The reply that a connection waits for: that to the message *message_id*, which is message
    *number* of a sequence."""

    identifier: str
    message_id: str
    number: int


@checked_dataclass(frozen=True, slots=True)
class Reply:
    """The consequences of a message that was received.

    Attributes:
        answer: The envelope that goes back on the connection; None: none does (202).
        fault: *answer* is a fault.
        outgoing: The envelopes that are sent elsewhere.
        awaited: An application's reply belongs on the connection: hold it open for a while, and
            ask `back_channel.reply_to` when something was delivered.
        unreliable: The message, where it has nothing of reliable messaging: it is not ours.
    """

    answer: Outgoing | None = None
    fault: bool = False
    outgoing: tuple[Outgoing, ...] = ()
    awaited: Awaited | None = None
    unreliable: ReliableMessage | None = None


@checked_dataclass(frozen=True, slots=True)
class Delivered:
    """A message as an application gets it: each once, in the order of its sequence.

    Attributes:
        envelope: As it came.
        owner: The identity of the sequence's creator, where callers are told apart.
    """

    identifier: str
    number: int
    message: ReliableMessage
    envelope: bytes
    content_type: str
    service: str
    owner: str | None
    now: float


def check_action(action: str) -> None:
    """Check the action of a message, which is told in a header of HTTP, too.

    Raises:
        ValueError: It is empty, or has what no URI has.
    """
    if not action:
        raise ValueError("a message needs an action, such as urn:example:orders/Order")
    if not action.isprintable() or not _NOT_IN_URI.isdisjoint(action):
        raise ValueError(f"{action!r} is not an action, such as urn:example:orders/Order")


_NOT_IN_URI = frozenset(' "<>\\^`{|}')


@dataclass(frozen=True, slots=True)
class Answer:
    """An application's reply.

    Args:
        body: The element in its body, which declares every namespace that it uses: bytes, text or
            an element of lxml; bytes afterwards.

    Raises:
        ValueError: *body* is not one well-formed element, or *action* is not a URI.
    """

    action: str
    body: BodyContent

    def __post_init__(self) -> None:
        check_action(self.action)
        object.__setattr__(self, "body", body_element(self.body))


class ApplicationFault(Exception):
    """Raised by an application to answer a fault: what it changed is rolled back, the fault is its
    reply, and the message is consumed. Any other exception leads to another delivery.

    Attributes:
        receiver: The fault is the application's own, not the sender's.
        detail: The content of the fault's detail: elements that declare their namespaces.

    Raises:
        ValueError: *detail* is not well-formed.
    """

    def __init__(self, text: str, *, receiver: bool = False, detail: BodyContent = b"") -> None:
        super().__init__(text)
        self.receiver = receiver
        self.detail = detail_content(detail)


Application: TypeAlias = Callable[[Transaction, Delivered], Answer | None]
"""Gets the messages of a sequence. Its changes through the transaction are committed together with
the message's end, or not at all."""

SequenceCallback: TypeAlias = Callable[[Transaction, OutgoingSequence], None]
"""Is called in the transaction that ends a sequence, or gives it up; its messages are in the
transaction still."""


DeadMessageHandler: TypeAlias = Callable[[Transaction, Delivered, Exception], None]
"""Gets a message that an application refused too often, in the transaction that consumes it."""


class NotHere(StorageUnavailable):
    """A function is needed that this process does not have: another one may, or this one later."""


class NoticeKind(Enum):
    GIVEN_UP = "a sequence was given up"
    DEAD_MESSAGE = "an application refused a message too often"
    UNANSWERED = "an application answered, and there is nowhere to send it"
    DECLINED = "an offer was declined"
    DISCARDED = "messages were discarded, because the sequence ended with a gap"
    SKIPPED = "messages were delivered beyond a gap, because the sequence ended with it"
    REFUSED = "a peer refused something"
    DELIVERY_FAILED = "an application failed, and gets the message again later"
    FAILED = "it failed, and is tried again later"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that people should know of."""

    kind: NoticeKind
    sequence: str
    text: str
    number: int | None = None


REMEMBERED_BYTES = 8 * 1024
"""Bytes of a message that is worth keeping; all that are kept have a few MiB."""
REMEMBERED = 256


def read_again(envelope: bytes) -> ReliableMessage:
    """Read a message, as `read_message` does; a short one that was read just now is remembered."""
    return _read(envelope) if len(envelope) <= REMEMBERED_BYTES else read_message(envelope)


_read = lru_cache(REMEMBERED)(read_message)
