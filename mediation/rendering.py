"""Notifications as each subscriber reads them: rendered once for a shape, with holes that are
filled with strings prepared at Subscribe.

Most of its octets depend on the shape, the topic and the action alone, which recur from message to
message: they are a *frame*, made once.

    frame    message id    frame    consumer's headers, event's headers
    frame    subscription reference    frame    payload    frame
"""

import uuid
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha1

from filters import DEFAULT_TOPIC, Event, Topic, View, dialects
from mediation import names
from mediation.filtering import ENVELOPE_VIEWS
from mediation.model.messages import EndpointReference, Notification, Subscription
from mediation.model.versions import Family, Soap, Version, Wsa
from mediation.notification.messenger import is_messenger
from mediation.notification.topics import topic_element, written_topic
from mediation.notification.v1_3 import NOTIFY_ACTION
from mediation.soap.actions import payload_action
from mediation.soap.addressing import reference_headers, write_epr
from mediation.soap.envelopes import (
    ENVELOPE_END,
    ENVELOPE_MIDDLE,
    envelope_start,
    http_headers,
    xml_attribute,
    xml_text,
)

_DELIVERIES = uuid.UUID("6f3b1f0e-6a2c-5b0e-9d0b-6a1c5f1f7d11").bytes
"""The namespace of the message ids of deliveries."""
_VARIANT = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


@dataclass(frozen=True, slots=True)
class Shape:
    """All that the octets of a delivery depend on, but the consumer."""

    version: Version
    soap: Soap
    wsa: Wsa
    epr: Wsa
    raw: bool
    dialect: str | None
    messenger: bool = field(init=False, repr=False, compare=False)
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        parts = (self.version, self.soap, self.wsa, self.epr, self.raw, self.dialect)
        object.__setattr__(self, "_hash", hash(parts))
        messenger = is_messenger(self.version, self.soap, self.dialect)
        object.__setattr__(self, "messenger", messenger)

    def __hash__(self) -> int:  # Looked up with every delivery.
        return self._hash


@dataclass(frozen=True, slots=True)
class Recipient:
    """What of a delivery depends on the consumer alone: prepared at Subscribe."""

    shape: Shape
    headers: bytes
    reference: bytes


@dataclass(frozen=True, slots=True)
class _Frame:
    """What is the same in all messages of one shape, topic and action."""

    http_headers: tuple[tuple[str, str], ...]
    before_id: bytes
    before_headers: bytes
    before_reference: bytes
    before_payload: bytes
    after_payload: bytes


@dataclass(slots=True)  # Not frozen: that makes it dearer, for every message.
class Rendering:
    """A notification in one shape."""

    frame: _Frame
    headers: bytes
    payload: bytes

    @property
    def http_headers(self) -> tuple[tuple[str, str], ...]:
        return self.frame.http_headers

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


def shape_of(subscription: Subscription) -> Shape:
    """The shape of a subscriber's notifications: the versions of its Subscribe; without
    addressing headers there, the version of its consumer reference."""
    spec, epr = subscription.spec, subscription.consumer.wsa
    wsa = spec.wsa or epr
    policy = subscription.policy
    return _shape(spec.version, spec.soap, wsa, epr, policy.raw, policy.dialect)


_shape = lru_cache(maxsize=4096)(Shape)
"""Few shapes serve all subscriptions; each is one object."""


def prepare(subscription: Subscription) -> Recipient:
    """The strings that fill the holes for *subscription*."""
    shape = shape_of(subscription)
    consumer = subscription.consumer
    to = f"<wsa:To>{xml_text(consumer.address)}</wsa:To>".encode()
    reference = b""
    if shape.version.family is Family.WSN and not shape.raw:
        epr = write_epr(EndpointReference(subscription.manager, shape.epr))
        reference = f"<wsnt:SubscriptionReference>{epr}</wsnt:SubscriptionReference>".encode()
    return Recipient(shape, to + reference_headers(consumer, shape.wsa), reference)


def delivery_id(notification: Notification, subscription_id: str) -> str:
    """The ``wsa:MessageID`` of a delivery: the same on every attempt, replica and restart."""
    return delivery_id_of(notification.source, notification.id, subscription_id)


def delivery_id_of(source: str, id: str, subscription_id: str) -> str:
    """The same for the notification with this source and id."""
    name = f"{source}\n{id}\n{subscription_id}".encode()
    # uuid.uuid5 spelled out (RFC 9562, section 5.5): it is made for every delivery.
    digest = sha1(_DELIVERIES + name, usedforsecurity=False).hexdigest()
    return (
        f"urn:uuid:{digest[:8]}-{digest[8:12]}-5{digest[13:16]}"
        f"-{_VARIANT[digest[16]]}{digest[17:20]}-{digest[20:32]}"
    )


def render(notification: Notification, shape: Shape, producer: str) -> Rendering:
    """Render *notification* in *shape*. *producer* is the gateway's own address, for events
    whose publisher gave no producer reference."""
    action = _action(notification, shape)
    topic = notification.topic or DEFAULT_TOPIC
    headers = notification.headers
    if shape.messenger and notification.topic_header is not None:
        frame = _frame(shape, None, action, "")
        headers = (*headers, notification.topic_header)
    elif shape.version.family is Family.WSE or shape.raw:
        frame = _frame(shape, topic, action, "")
    else:
        named = notification.producer
        remembered = named is None or not (named.properties or named.parameters or named.metadata)
        frame = (_frame if remembered else _make_frame)(shape, topic, action, named or producer)
    return Rendering(frame, b"".join(headers) if headers else b"", notification.payload)


def _make_frame(
    shape: Shape, topic: Topic | None, action: str, producer: EndpointReference | str
) -> _Frame:
    """*producer* is a reference, or the address of one in the subscriber's version; only wrapped
    messages have it. *topic* None: the message brings its own header block."""
    before_id = (
        f"{envelope_start(shape.soap, shape.wsa)}<wsa:Action>{xml_text(action)}</wsa:Action>"
    )
    before_reference, before_payload, after_payload = ENVELOPE_MIDDLE, "", ENVELOPE_END
    if topic is None:
        pass
    elif shape.messenger:
        before_reference = _messenger_topic(topic) + ENVELOPE_MIDDLE
    elif shape.version.family is Family.WSE:
        declaration = f' xmlns:wsnt="{names.WSN_1_3}"'
        before_reference = (
            topic_element("wsnt:Topic", topic, shape.dialect, declaration) + ENVELOPE_MIDDLE
        )
    elif not shape.raw:
        before_reference = (
            f'{ENVELOPE_MIDDLE}<wsnt:Notify xmlns:wsnt="{names.WSN_1_3}"><wsnt:NotificationMessage>'
        )
        if isinstance(producer, str):
            producer = EndpointReference(producer, shape.epr)
        before_payload = (
            f"{topic_element('wsnt:Topic', topic, shape.dialect)}"
            f"<wsnt:ProducerReference>{write_epr(producer, shape.epr)}</wsnt:ProducerReference>"
            "<wsnt:Message>"
        )
        after_payload = f"</wsnt:Message></wsnt:NotificationMessage></wsnt:Notify>{ENVELOPE_END}"
    return _Frame(
        http_headers(shape.soap, action),
        f"{before_id}<wsa:MessageID>".encode(),
        b"</wsa:MessageID>",
        before_reference.encode(),
        before_payload.encode(),
        after_payload.encode(),
    )


_frame = lru_cache(maxsize=1024)(_make_frame)
"""Topics, actions and addresses have at most a few KiB each."""


def _action(notification: Notification, shape: Shape) -> str:
    if shape.version.family is Family.WSN and not shape.raw:
        return NOTIFY_ACTION
    if notification.action:
        return notification.action
    if shape.version.family is Family.WSN:
        return NOTIFY_ACTION
    return payload_action(notification.payload)


def _messenger_topic(topic: Topic) -> str:
    """The header block in which consumers of WS-Messenger look for a topic. They take what follows
    the first colon of its text for it, so there is a prefix always (its broker binds this one)."""
    text, scope = written_topic(topic)
    if not topic.steps[0].namespace:
        text, scope = f"ns2:{text}", f'{scope} xmlns:ns2="{names.MESSENGER_TOPICS}"'
    dialect = xml_attribute(dialects.TOPIC_IBM_SIMPLE)
    return f'<wsnt:Topic xmlns:wsnt="{names.WSN_IBM}"{scope} Dialect={dialect}>{text}</wsnt:Topic>'


def event(notification: Notification) -> Event:
    """What filters see of *notification*."""

    def view(name: View) -> bytes:
        soap, wsa = ENVELOPE_VIEWS[name]
        return shared_envelope(notification, soap, wsa)

    return Event(
        notification.payload,
        topic=notification.topic,
        action=notification.action,
        properties=notification.properties,
        views=view,
    )


def shared_envelope(notification: Notification, soap: Soap, wsa: Wsa) -> bytes:
    """The envelope over which WS-Eventing 2004/08 filters are evaluated: what all consumers of
    these versions get, without what is a consumer's own (To, MessageID, its parameters)."""
    action = notification.action or payload_action(notification.payload)
    header = f"<wsa:Action>{xml_text(action)}</wsa:Action>"
    header += b"".join(notification.headers).decode()
    header += topic_element(
        "wsnt:Topic", notification.topic or DEFAULT_TOPIC, None, f' xmlns:wsnt="{names.WSN_1_3}"'
    )
    body = notification.payload.decode()
    return f"{envelope_start(soap, wsa)}{header}{ENVELOPE_MIDDLE}{body}{ENVELOPE_END}".encode()
