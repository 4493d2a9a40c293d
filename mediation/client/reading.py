"""Read what producers send to subscribers and consumers: answers, notifications,
SubscriptionEnd."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from lxml import etree

from filters import Reason, Refused, Topic, parse_document
from mediation import names, profiles
from mediation.cloudevents import properties_of, read_message, topic_of
from mediation.eventing.common import read_subscription_end
from mediation.eventing.management import context_in
from mediation.grid_events.rpc import HANDLE_EVENT, carried_by, read_call
from mediation.model.errors import MediationError
from mediation.model.expiry import NO_TIME, parse_duration
from mediation.model.messages import NO_PROPERTIES, EndpointReference, Notification
from mediation.model.requests import Operation
from mediation.notification.topics import received_topic
from mediation.soap.actions import payload_action
from mediation.soap.addressing import read_epr
from mediation.soap.answers import PeerFault, fault_in
from mediation.soap.contents import body_content
from mediation.soap.envelopes import (
    Envelope,
    elements,
    local_name,
    namespace_of,
    read_envelope,
    text_of,
    whole_text,
)
from mediation.soap.payloads import is_ours, payload_of
from mediation.soap.properties import PROPERTIES, properties_in, take_numbered
from mediation.specifications import SPECIFICATIONS

_ENDINGS = frozenset(
    element
    for specification in SPECIFICATIONS.values()
    for element, operation in specification.requests.elements.items()
    if operation is Operation.SUBSCRIPTION_END
)
_WRAPPING = {
    element: specification.client
    for specification in SPECIFICATIONS.values()
    if specification.client is not None
    for element in specification.client.notify
}


_ENDING_NAMES = frozenset(element.rpartition("}")[2].encode() for element in _ENDINGS)
_END_ACTIONS = frozenset(element[1:].replace("}", "/") for element in _ENDINGS)
_TERMINATIONS = frozenset(
    f"{namespace}/TerminationNotification" for namespace in names.RESOURCE_LIFETIMES
)


class AnsweredFault(MediationError):
    """The peer answered with a fault."""

    def __init__(self, fault: PeerFault) -> None:
        super().__init__(Reason.MESSAGE_INVALID, fault.reason or fault.subcode or fault.code)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Granted:
    """The lease that a producer granted; times are the producer's own text. ``context``: the
    element by which its events are pulled."""

    manager: EndpointReference | None
    expires: str | None
    current_time: str | None = None
    context: bytes | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """One notification as it arrived at a consumer.

    Attributes:
        media_type: What a CloudEvent says that its data are; None: nothing, or it is of another
            specification.
    """

    topic: Topic | None
    payload: bytes
    action: str | None
    message_id: str | None
    subscription: str | None = None
    properties: Mapping[str, str] = field(default_factory=lambda: NO_PROPERTIES)
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """SubscriptionEnd as it arrived: the status's last word, and the reason."""

    status: str
    reason: str


def read_whole(octets: bytes) -> Envelope:
    """Read an answer that is not a fault.

    Raises:
        AnsweredFault: It is a fault.
        Refused: It cannot be read.
    """
    fault = fault_in(octets)
    if fault is not None:
        raise AnsweredFault(fault)
    return read_envelope(parse_document(octets))


def read_granted(octets: bytes) -> Granted:
    """Read the answer to Subscribe, Renew, GetStatus or SetTerminationTime. The address of a
    manager may be empty: `manager_at` says where it is asked.

    Raises:
        AnsweredFault: It is a fault.
        Refused: It cannot be read.
    """
    envelope = read_whole(octets)
    manager, expires, current, context = None, None, None, None
    for response in envelope.body[:1]:
        context = context_in(response)
        for child in elements(response):
            match local_name(child):
                case "SubscriptionManager" | "SubscriptionReference":
                    manager = read_epr(child, forged="drop", addressed=False)
                case "Expires" | "TerminationTime" | "NewTerminationTime":
                    expires = text_of(child) or None
                case "GrantedExpires":
                    expires = _granted_until(text_of(child))
                case "CurrentTime":
                    current = text_of(child) or None
    return Granted(manager, expires, current, context)


def _granted_until(text: str) -> str | None:
    """The lease that a source of WS-Eventing 2011/03 tells; one without end is ``PT0S`` there."""
    with suppress(ValueError):
        if parse_duration(text) == NO_TIME:
            return None
    return text or None


def read_answer(octets: bytes) -> None:
    """Check that an answer is not a fault; it may be empty.

    Raises:
        AnsweredFault: It is a fault.
    """
    fault = fault_in(octets)
    if fault is not None:
        raise AnsweredFault(fault)


def is_response(octets: bytes) -> bool:
    """Return whether *octets* are an envelope with a response in it, and not just what was sent.

    Raises:
        AnsweredFault: It is a fault.
        Refused: It cannot be read.
    """
    return any(local_name(first).endswith("Response") for first in read_whole(octets).body[:1])


def read_received(octets: bytes, *, room: int | None = None) -> tuple[Received, ...] | Ended:
    """Read what arrives at a consumer: notifications, wrapped or bare, or SubscriptionEnd.

    Args:
        room: Octets that the payloads may have together, the first in any case: each repeats the
            namespaces of the envelope.

    Raises:
        Refused: It is not an envelope, or a fault.
    """
    envelope = read_whole(octets)
    headers = {local_name(block): block for block in reversed(envelope.headers)}
    action = text_of(headers["Action"]) if "Action" in headers else None
    message_id = text_of(headers["MessageID"]) if "MessageID" in headers else None
    if not envelope.body:
        return ()
    first = envelope.body[0]
    if first.tag in _ENDINGS:
        return Ended(*read_subscription_end(first))
    ours = is_ours(octets)
    topic, properties = None, NO_PROPERTIES
    each: Mapping[int, Mapping[str, str]] = {}
    with suppress(Refused):  # They are no reason to lose an event.
        properties, each = read_properties(envelope.headers)
    for block in envelope.headers:
        if local_name(block) == "Topic" and namespace_of(block) in profiles.TOPIC_HEADERS:
            topic = received_topic(block)
    client = _WRAPPING.get(first.tag)
    if client is not None:
        events = client.unwrap(first, in_ours=ours)
        return _within(
            room,
            (
                Received(
                    event.topic or topic,
                    event.payload,
                    event.action or action,
                    message_id,
                    event.subscription,
                    {**properties, **each[number]} if number in each else properties,
                )
                for number, event in enumerate(events, 1)
            ),
        )
    if action is None and local_name(first) == HANDLE_EVENT:
        event = read_call(first)
        return (Received(*carried_by(first, event), None, None, properties=properties),)
    payload = body_content(envelope, in_ours=ours)
    return (Received(topic, payload, action, message_id, properties=properties),)


def may_end(octets: bytes) -> bool:
    """Whether `read_received` may find that a subscription has ended, by a look at the octets
    alone: what is not XML in a charset with the letters of ASCII has to be read to be known."""
    is_plain = octets[:64].lstrip().startswith(b"<") and b"\0" not in octets[:64]
    return not is_plain or any(name in octets for name in _ENDING_NAMES)


def read_properties(
    headers: Iterable[etree._Element],
) -> tuple[Mapping[str, str], Mapping[int, Mapping[str, str]]]:
    """Read the properties that header blocks of ours say: of all events of their message, and of
    single ones, by number from 1.

    Raises:
        Refused: A name is none.
    """
    blocks = tuple(payload_of(block) for block in headers if block.tag == PROPERTIES)
    others, each = take_numbered(blocks)
    return properties_in(others), each


def ending_in(notification: Notification) -> str | None:
    """Why a subscription of ours ended, where *notification*, which came for it, says that it did;
    None where it is an event.

    WS-Notification says so in an event of its own, TerminationNotification (WS-ResourceLifetime
    1.2, section 5); Apache CXF writes SubscriptionEnd of WS-Eventing in an element of another name,
    which its action tells.
    """
    if payload_action(notification.payload) in _TERMINATIONS:
        return "TerminationNotification"
    if notification.action in _END_ACTIONS:
        return "SubscriptionEnd"
    return None


def read_events(headers: Iterable[tuple[bytes, bytes]], octets: bytes) -> tuple[Received, ...]:
    """Read the CloudEvents that arrive at a consumer in a message of HTTP, in any mode. The payload
    of each is its data, and the action its type.

    Args:
        headers: Names in lower case.

    Raises:
        Refused: The message has none.
    """
    return tuple(
        Received(
            topic_of(event),
            event.data or b"",
            str(event.attributes["type"]),
            str(event.attributes["id"]),
            properties=properties_of(event),
            media_type=_text_or_none(event.attributes.get("datacontenttype")),
        )
        for event in read_message(headers, octets)
    )


def _text_or_none(value: object) -> str | None:
    return None if value is None else str(value)


def text_in(payload: bytes) -> str | None:
    """The text that a payload is of which WS-Messenger made an element; None for any other."""
    if b"plainTextWrapper" not in payload:
        return None
    try:
        element = parse_document(payload)
    except Refused:
        return None
    wrapper = f"{{{names.MESSENGER_TEXT}}}plainTextWrapper"
    return whole_text(element) if element.tag == wrapper else None


def _within(room: int | None, events: Iterable[Received]) -> tuple[Received, ...]:
    if room is None:
        return tuple(events)
    read: list[Received] = []
    for event in events:
        room -= len(event.payload)
        if read and room < 0:
            break
        read.append(event)
    return tuple(read)
