"""Notifications as each subscriber reads them: rendered once for a shape, with holes that are
filled with strings prepared at Subscribe.

Most octets of a message depend on the shape, the topic and the action alone, which recur from
message to message: they are a *frame*, made once.

    frame    message id    frame    consumer's headers, event's headers
    frame    subscription reference    frame    payload    frame
"""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache, partial
from hashlib import sha1
from types import MappingProxyType
from typing import TypeAlias

from filters import ATTRIBUTES, DEFAULT_TOPIC, Event, Topic, View
from mediation import names
from mediation.cloudevents.mapping import write_attributes
from mediation.eventing.management import delivery_headers
from mediation.filtering import ENVELOPE_VIEWS
from mediation.model.facts import Fact
from mediation.model.messages import End, EndpointReference, Notification, Subscription
from mediation.model.specification import BodyRendering, BodyShape, EnvelopeParts, Wrapping
from mediation.model.versions import Soap, Version, Wsa
from mediation.notification.document_metadata import wants_minimal
from mediation.notification.topics import topic_element
from mediation.resources.termination import asks_for_termination, termination_notification
from mediation.soap.actions import payload_action
from mediation.soap.addressing import reference_headers, write_headers
from mediation.soap.contents import parts_in
from mediation.soap.envelopes import (
    ENVELOPE_END,
    ENVELOPE_MIDDLE,
    envelope_start,
    http_headers,
    write_envelope,
    xml_text,
)
from mediation.soap.expiry import expiry_block
from mediation.soap.properties import signature_block
from mediation.specifications import SPECIFICATIONS

_DELIVERIES = uuid.UUID("6f3b1f0e-6a2c-5b0e-9d0b-6a1c5f1f7d11").bytes
"""The namespace of the message ids of deliveries."""
_REMEMBERED = 1024
"""The most octets of a topic's element whose frame is remembered."""
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


@dataclass(frozen=True, slots=True)
class SoapShape:
    """The key of a rendering in SOAP: all that its octets depend on, but the consumer."""

    wrapping: Wrapping
    soap: Soap
    wsa: Wsa
    epr: Wsa
    dialect: str | None
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = (self.wrapping, self.soap, self.wsa, self.epr, self.dialect)
        object.__setattr__(self, "_hash", hash(parts))

    def __hash__(self) -> int:  # Looked up with every delivery.
        return self._hash

    @property
    def tells(self) -> frozenset[Fact]:
        """The facts of an event that its messages say besides the payload."""
        return self.wrapping.tells


Shape: TypeAlias = SoapShape | BodyShape
"""All that the octets of a delivery depend on, but the consumer."""


@dataclass(frozen=True, slots=True)
class Recipient:
    """The parts of a delivery that depend on the consumer alone, prepared at Subscribe.

    ``minimal``: of what is published in full it gets the minimal form (`minimal_form`).
    """

    shape: Shape
    headers: bytes = b""
    reference: bytes = b""
    closing: bytes = b""
    http_headers: tuple[tuple[str, str], ...] = ()
    """Headers that go to it alone."""
    number: int = 1
    """That of the message, where the subscription counts them."""
    minimal: bool = False


@dataclass(frozen=True, slots=True)
class _Frame:
    """The octets that all messages of one shape, topic and action share."""

    http_headers: tuple[tuple[str, str], ...]
    before_id: bytes
    before_headers: bytes
    before_reference: bytes
    before_payload: bytes
    after_payload: bytes
    bare: bool
    """Whether the payload is the Body's content."""


@dataclass(slots=True)  # Not frozen: that makes it dearer, for every message.
class SoapRendering:
    """A notification in one shape of SOAP."""

    frame: _Frame
    headers: bytes
    payload: bytes

    @property
    def http_headers(self) -> tuple[tuple[str, str], ...]:
        return self.frame.http_headers

    @property
    def own_headers(self) -> tuple[tuple[str, str], ...]:
        """The headers that no other message has: SOAP has its own within."""
        return ()

    @property
    def numbered(self) -> bool:
        return False

    def fill(self, recipient: Recipient, message_id: str) -> bytes:
        """The envelope for one recipient."""
        frame = self.frame
        return b"".join(
            (
                frame.before_id,
                message_id.encode(),
                frame.before_headers,
                recipient.headers,
                self.headers,
                frame.before_reference,
                recipient.reference,
                frame.before_payload,
                self.payload,
                frame.after_payload,
            )
        )


Rendering: TypeAlias = SoapRendering | BodyRendering
"""A notification in one shape."""


def shape_of(subscription: Subscription) -> Shape:
    """The shape of a subscriber's notifications: the versions of its Subscribe; without
    addressing headers there, the version of its consumer reference."""
    spec, policy = subscription.spec, subscription.policy
    bodies = SPECIFICATIONS[spec.version].bodies
    if bodies is not None:
        return bodies.shape(spec.form, policy)
    return _soap_shape(subscription)


def _soap_shape(subscription: Subscription) -> SoapShape:
    spec, policy = subscription.spec, subscription.policy
    epr = subscription.consumer.wsa
    return _shape(spec.version, spec.soap, spec.wsa or epr, epr, policy.raw, policy.dialect)


@lru_cache(maxsize=4096)
def _shape(
    version: Version, soap: Soap, wsa: Wsa, epr: Wsa, raw: bool, dialect: str | None
) -> SoapShape:
    """The shape with these parts. Few shapes serve all subscriptions; each is one object."""
    notifications = SPECIFICATIONS[version].notifications
    if notifications is None:
        raise ValueError(f"nobody subscribes in {version.value}")
    wrapping = notifications.wrapping(soap, raw=raw, dialect=dialect)
    return SoapShape(wrapping, soap, wsa, epr, dialect)


def prepare(subscription: Subscription) -> Recipient:
    """The strings that fill the holes for *subscription*."""
    shape = shape_of(subscription)
    minimal = wants_minimal(subscription.filter)
    bodies = SPECIFICATIONS[subscription.spec.version].bodies
    if bodies is not None:
        return Recipient(shape, *bodies.holes(subscription), minimal=minimal)
    assert isinstance(shape, SoapShape), "all others are"
    consumer = subscription.consumer
    to = f"<wsa:To>{xml_text(consumer.address)}</wsa:To>".encode()
    reference = b""
    if shape.wrapping.reference is not None:
        reference = shape.wrapping.reference(subscription.manager, shape.epr).encode()
    headers = to + reference_headers(consumer, shape.wsa)
    headers += delivery_headers(subscription.policy.delivery, shape.wsa)
    return Recipient(shape, headers, reference, minimal=minimal)


def delivery_id(notification: Notification, subscription_id: str) -> str:
    """The ``wsa:MessageID`` of a delivery: the same on every attempt, replica and restart."""
    return delivery_id_of(notification.source, notification.id, subscription_id)


def batch_id(ids: Iterable[str]) -> str:
    """The ``wsa:MessageID`` of a message with several deliveries, from theirs."""
    return _urn("\n".join(ids))


def delivery_id_of(source: str, id: str, subscription_id: str) -> str:
    """The message id as `delivery_id` makes it, for the notification with this source and id."""
    return _urn(f"{source}\n{id}\n{subscription_id}")


def _urn(name: str) -> str:
    # uuid.uuid5 spelled out (RFC 9562, section 5.5): it is made for every delivery.
    digest = sha1(_DELIVERIES + name.encode(), usedforsecurity=False).hexdigest()
    return (
        f"urn:uuid:{digest[:8]}-{digest[8:12]}-5{digest[13:16]}"
        f"-{_VARIANT[digest[16]]}{digest[17:20]}-{digest[20:32]}"
    )


def render(notification: Notification, shape: Shape, producer: str) -> Rendering:
    """Render *notification* in *shape*. *producer* is the gateway's own address, for events
    whose publisher gave no producer reference."""
    if not isinstance(shape, SoapShape):
        return shape.render(notification, producer)
    wrapping = shape.wrapping
    action = action_of(notification, wrapping)
    topic = notification.topic or DEFAULT_TOPIC
    headers = notification.headers
    if notification.expires is not None:
        headers = (*headers, expiry_block(notification.expires))
    if names.EVENT_SIGNATURE in notification.properties:
        headers = (*headers, signature_block(notification))
    if wrapping.names_producer:
        named = notification.producer
        if not wrapping.names_gateway:
            producer = ""
        if wrapping.around_written is not None and notification.topic_header is not None:
            short = len(notification.topic_header) <= _REMEMBERED
            make = _frame if short and _is_short(named) else _make_frame
            frame = make(shape, notification.topic_header, action, named or producer)
        else:
            make = _frame if _is_short(named) else _make_frame
            frame = make(shape, topic, action, named or producer)
    elif wrapping.keeps_topic_header and notification.topic_header is not None:
        frame = _frame(shape, None, action, "")
        headers = (*headers, notification.topic_header)
    else:
        frame = _frame(shape, topic, action, "")
    payload = notification.payload
    if frame.bare:
        payload = parts_in(payload) or payload
    return SoapRendering(frame, b"".join(headers) if headers else b"", payload)


def _is_short(producer: EndpointReference | None) -> bool:
    """Return whether a producer has no more than an address."""
    return producer is None or not (producer.properties or producer.parameters or producer.metadata)


def action_of(notification: Notification, wrapping: Wrapping | None = None) -> str:
    """The action of *notification* in a message that is wrapped so, or is not SOAP: the event's
    own, where that has a place of its own beside the message's."""
    if wrapping is None:
        return notification.action or payload_action(notification.payload)
    return (
        (wrapping.action if wrapping.opening is None else None)
        or notification.action
        or wrapping.default_action
        or payload_action(notification.payload)
    )


def _make_frame(
    shape: SoapShape,
    topic: Topic | bytes | None,
    action: str,
    producer: EndpointReference | str,
) -> _Frame:
    """Make a frame.

    Args:
        action: The message's, or, where messages tell it in their body, the event's.
        topic: None where the message brings its own header block; bytes are its publisher's own
            element, for a wrapping that passes it on.
        producer: A reference, or the address of one in the subscriber's version; only wrapped
            messages have it."""
    opening = shape.wrapping.opening
    opened = "" if opening is None else opening(action)
    action = shape.wrapping.action or action
    before_id = (
        f"{envelope_start(shape.soap, shape.wsa)}<wsa:Action>{xml_text(action)}</wsa:Action>"
    )
    if isinstance(producer, str):
        producer = EndpointReference(producer, shape.epr)
    around = EnvelopeParts()
    if isinstance(topic, bytes):
        assert shape.wrapping.around_written is not None, "render looked"
        around = shape.wrapping.around_written(topic.decode(), producer, shape.epr)
    elif topic is not None:
        around = shape.wrapping.around(topic, producer, shape.dialect, shape.epr)
    return _Frame(
        http_headers(shape.soap, action),
        f"{before_id}<wsa:MessageID>".encode(),
        b"</wsa:MessageID>",
        f"{around.header}{ENVELOPE_MIDDLE}{around.before_reference}".encode(),
        f"{around.before_payload}{opened}".encode(),
        f"{around.after_payload}{ENVELOPE_END}".encode(),
        not (around.before_reference or around.before_payload or opened),
    )


_frame = lru_cache(maxsize=1024)(_make_frame)
"""Remembered frames; topics, actions and addresses have at most a few KiB each."""


def write_subscription_end(
    subscription: Subscription, end: End, *, message_id: str, reason: str
) -> tuple[str, bytes]:
    """Write the message that tells the subscription's ``EndTo`` of its end: the action and the
    envelope.

    Raises:
        ValueError: There is no ``EndTo``, or the specification has no such message.
    """
    ending = SPECIFICATIONS[subscription.spec.version].ending
    if subscription.end_to is None or ending is None:
        raise ValueError("the subscriber asked for no SubscriptionEnd")
    wsa = subscription.spec.wsa or subscription.end_to.wsa
    action, body = ending.write(subscription, end, reason)
    headers = write_headers(
        wsa, action=action, to=subscription.end_to.address, message_id=message_id
    )
    headers += reference_headers(subscription.end_to, wsa).decode()
    return action, write_envelope(subscription.spec.soap, wsa, headers, body)


def write_termination(
    subscription: Subscription, reason: str, *, producer: str, message_id: str, now: datetime
) -> tuple[tuple[tuple[str, str], ...], bytes] | None:
    """Write the notification that tells the consumer of its subscription's end: the HTTP headers
    and the envelope. None where it did not subscribe for that (see `asks_for_termination`), or the
    specification has no such notification."""
    namespace = SPECIFICATIONS[subscription.spec.version].termination
    if not namespace:
        return None
    notification = termination_notification(namespace, reason, id=message_id, now=now)
    if not asks_for_termination(subscription.filter, notification):
        return None
    recipient = prepare(subscription)
    rendering = render(notification, recipient.shape, producer)
    return rendering.http_headers, rendering.fill(recipient, message_id)


def filter_event_of(
    notification: Notification, documents: Mapping[View, bytes] = MappingProxyType({})
) -> Event:
    """The view that filters have of *notification*. An event without an action has for them, too,
    the one that consumers are sent.

    Args:
        documents: Views that are not of the notification: those of `PRODUCER_VIEWS`.
    """

    def view(name: View) -> bytes:
        if name in documents:
            return documents[name]
        if name == ATTRIBUTES:
            return write_attributes(notification)
        soap, wsa = ENVELOPE_VIEWS[name]
        return shared_envelope(notification, soap, wsa)

    return Event(
        notification.payload,
        topic=notification.topic,
        action=notification.action or partial(payload_action, notification.payload),
        properties=notification.properties,
        views=view,
    )


def shared_envelope(notification: Notification, soap: Soap, wsa: Wsa) -> bytes:
    """Write the envelope over which WS-Eventing 2004/08 filters are evaluated: the one that all
    consumers of these versions get, without To, MessageID and the consumer's parameters."""
    action = notification.action or payload_action(notification.payload)
    header = f"<wsa:Action>{xml_text(action)}</wsa:Action>"
    header += b"".join(notification.headers).decode()
    header += topic_element(
        "wsnt:Topic", notification.topic or DEFAULT_TOPIC, None, f' xmlns:wsnt="{names.WSN_1_3}"'
    )
    body = (parts_in(notification.payload) or notification.payload).decode()
    return f"{envelope_start(soap, wsa)}{header}{ENVELOPE_MIDDLE}{body}{ENVELOPE_END}".encode()
