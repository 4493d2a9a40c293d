"""Notify as publishers write it, in WS-BaseNotification 1.3 and 1.0, as notifications."""

from collections.abc import Sequence
from dataclasses import replace

from lxml import etree

from filters import Reason, Topic
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.messages import NO_PROPERTIES, EndpointReference, Notification
from mediation.model.requests import Arrival, Context
from mediation.model.versions import Soap, Wsa
from mediation.notification.topics import read_topics
from mediation.soap.addressing import id_to_keep, read_epr
from mediation.soap.envelopes import elements, namespace_of, octets_of, whole_text, xml_text
from mediation.soap.payloads import payload_of

TRANSIENT_ATTRIBUTES = frozenset(
    f"{{{soap.value}}}{name}"
    for soap in Soap
    for name in ("mustUnderstand", "actor", "role", "relay")
) | {f"{{{wsa.value}}}IsReferenceParameter" for wsa in Wsa}
"""Attributes of header blocks that are meant for one hop of one message."""
MAX_MESSAGES = 256
"""The most notifications in one message."""
_NOTIFYING = names.WSN_1_3_SPELLINGS | {names.WSN_IBM}
_MESSAGES = frozenset(f"{{{namespace}}}NotificationMessage" for namespace in _NOTIFYING)
_PARTS = {
    f"{{{namespace}}}{name}": name
    for namespace in _NOTIFYING
    for name in ("Topic", "ProducerReference", "Message")
}
"""The parts of a NotificationMessage that are read, by expanded name."""


def read_notify(
    element: etree._Element, context: Context, arrival: Arrival
) -> tuple[Notification, ...]:
    """Read the events of a Notify of WS-BaseNotification 1.3, or of WS-Messenger's 1.0.

    Raises:
        Refused: ``MESSAGE_INVALID``, ``TOPIC_INVALID``.
    """
    messages = [child for child in element if child.tag in _MESSAGES]
    if not messages:
        raise MediationError(Reason.MESSAGE_INVALID, "Notify has no NotificationMessage.")
    check_number(len(messages))
    events, written = [], []
    for message in messages:
        parts: dict[str, etree._Element] = {}
        for child in message:
            if (part := _PARTS.get(child.tag)) is not None:
                parts.setdefault(part, child)
        content = parts.get("Message")
        if content is None:
            raise MediationError(Reason.MESSAGE_INVALID, "A NotificationMessage has no Message.")
        payload = read_payload(content)
        producer = _read_producer(parts.get("ProducerReference"))
        topics = read_topics(parts.get("Topic"))
        for topic in topics:
            events.append((topic or arrival.url_topic, payload, producer))
            written.append(written_topic_header(parts.get("Topic"), topics))
    check_number(len(events))
    return with_topic_headers(numbered(events, None, context, arrival), written)


def written_topic_header(
    element: etree._Element | None, topics: tuple[Topic | None, ...]
) -> bytes | None:
    """The octets of a topic's element, for consumers of WS-Messenger, if a publisher of
    WS-Messenger wrote it and it names one topic; without the attributes of SOAP and
    WS-Addressing."""
    if element is None or namespace_of(element) != names.WSN_IBM or len(topics) != 1:
        return None
    if topics == (None,):
        return None
    for attribute in TRANSIENT_ATTRIBUTES.intersection(element.keys()):
        del element.attrib[attribute]
    return octets_of(element)


def with_topic_headers(
    notifications: tuple[Notification, ...], written: Sequence[bytes | None]
) -> tuple[Notification, ...]:
    """Give each of *notifications* its own of the topics' elements *written*."""
    if not any(written):
        return notifications
    return tuple(
        replace(notification, topic_header=header)
        for notification, header in zip(notifications, written, strict=True)
    )


def check_number(events: int) -> None:
    """Refuse more events in one message than the limits allow, unions of topics counted out.

    Raises:
        MediationError: ``MESSAGE_INVALID``.
    """
    if events > MAX_MESSAGES:
        raise MediationError(Reason.MESSAGE_INVALID, "The message has too many notifications.")


def numbered(
    events: list[tuple[Topic | None, bytes, EndpointReference | None]],
    action: str | None,
    context: Context,
    arrival: Arrival,
    headers: tuple[bytes, ...] = (),
) -> tuple[Notification, ...]:
    """Make notifications whose id is the message's, with ``#n`` behind it where it holds
    several."""
    base = id_to_keep((context.headers.message_id or "").strip()) or arrival.fresh_id
    source, time = arrival.source, arrival.time
    ids = [base]
    if len(events) != 1:
        ids = [f"{base}#{number}" for number in range(1, len(events) + 1)]
    numbered = []
    for id, (topic, payload, producer) in zip(ids, events, strict=True):
        numbered.append(
            Notification(
                id, source, payload, time, topic, action, producer, None, NO_PROPERTIES, headers
            )
        )
    return tuple(numbered)


def read_payload(content: etree._Element, *, in_ours: bool = False) -> bytes:
    """Read the one element of ``Message``, as `payload_of`; text, several or no elements are
    wrapped in one."""
    children = elements(content)
    if len(children) == 1:
        return payload_of(children[0], in_ours=in_ours)
    if children:
        # With a prefix: a default namespace would become that of children without one.
        inner = b"".join(map(payload_of, children)).decode()
        return f'<d:data xmlns:d="{names.DRAGOMAN_DATA}">{inner}</d:data>'.encode()
    text = xml_text(whole_text(content))
    return f'<data xmlns="{names.DRAGOMAN_DATA}" content-type="text/plain">{text}</data>'.encode()


def _read_producer(element: etree._Element | None) -> EndpointReference | None:
    """Read a producer reference; a broken one is left out, because it decides nothing."""
    if element is None:
        return None
    try:
        return read_epr(element, forged="drop")
    except MediationError:
        return None
