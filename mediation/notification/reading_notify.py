"""Notify as publishers write it, in every version of WS-BaseNotification, as notifications."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from lxml import etree

from filters import FilterError, Reason, Refused, Topic, parse_document
from filters.documents import DEFAULT_LIMITS
from mediation import names, profiles
from mediation.model.errors import MediationError
from mediation.model.messages import NO_PROPERTIES, EndpointReference, Notification
from mediation.model.requests import Arrival, Context, Publish, SetAside, TopicRules
from mediation.model.specification import UnwrappedEvent
from mediation.model.values import checked_dataclass
from mediation.model.versions import Soap, Wsa
from mediation.notification.topics import read_topics, received_topic, unsaid_topics
from mediation.soap.addressing import id_to_keep, read_epr, write_epr
from mediation.soap.contents import attributes_told, content_of, what_else
from mediation.soap.envelopes import (
    attributes_of,
    children_of,
    elements,
    local_name,
    namespace_of,
    octets_of,
    whole_text,
    xml_text,
)
from mediation.soap.payloads import payload_of

TRANSIENT_ATTRIBUTES = frozenset(
    f"{{{soap.value}}}{name}"
    for soap in Soap
    for name in ("mustUnderstand", "actor", "role", "relay")
) | {f"{{{wsa.value}}}IsReferenceParameter" for wsa in Wsa}
"""Attributes of header blocks that are meant for one hop of one message."""
_LIMITS_OF_SET_ASIDE = replace(
    DEFAULT_LIMITS, octets=64 * 2**20, elements=1_000_000, nodes=2_000_000
)
"""Limits of a message that was accepted before, whatever they were then."""
MAX_MESSAGES = 256
"""The most notifications in one message."""
_LONG_TOPIC = 4096
"""Characters of a topic, its element's attributes and the namespaces in scope together, from which
on the octets of the element are not kept for the next event."""
_IBM = f"{{{names.WSN_IBM}}}"
_DRAFTS = frozenset({names.WSN_2004_06, names.WSN_IBM})
_NOTIFYING = profiles.WSN_1_3_SPELLINGS | _DRAFTS
_MESSAGES = frozenset(f"{{{namespace}}}NotificationMessage" for namespace in _NOTIFYING)
_PARTS = {
    f"{{{namespace}}}{name}": name
    for namespace in _NOTIFYING
    for name in ("Topic", "ProducerReference", "Message")
}
"""The parts of a NotificationMessage that are read, by expanded name."""
_SUBSCRIPTIONS = frozenset(f"{{{namespace}}}SubscriptionReference" for namespace in _NOTIFYING)
"""Names of the reference of the sender's subscription, which is nobody else's."""
_DIALECT = frozenset({"Dialect", "dialect"})
_ADDRESSINGS = frozenset(wsa.value for wsa in Wsa)
_ADDRESSES = frozenset(f"{{{wsa.value}}}Address" for wsa in Wsa)
_OF_REFERENCES = frozenset({"Address", "ReferenceProperties", "ReferenceParameters", "Metadata"})


@checked_dataclass(frozen=True, slots=True)
class _Read:
    """An event of a NotificationMessage, or, with ``why`` it cannot be taken, the message."""

    topic: Topic | None
    payload: bytes
    producer: EndpointReference | None = None
    written: bytes | None = None
    headers: tuple[bytes, ...] = ()
    why: str = ""


def read_notify(element: etree._Element, context: Context, arrival: Arrival) -> Publish:
    """Read the events of a Notify of any version.

    Raises:
        Refused: ``MESSAGE_INVALID``; ``TOPIC_INVALID`` where nothing is set aside.
    """
    messages = [child for child in children_of(element) if child.tag in _MESSAGES]
    if not messages:
        raise MediationError(Reason.MESSAGE_INVALID, "Notify has no NotificationMessage.")
    check_number(len(messages))
    around = what_else(element, read=messages)
    found = [one for message in messages for one in _read_message(message, around, arrival)]
    check_number(len(found))
    return _published(found, context, arrival)


def _published(found: Sequence[_Read], context: Context, arrival: Arrival) -> Publish:
    """Make a publication of what was *found*; the ids are the same, whether published or set
    aside."""
    events = [(one.topic, one.payload, one.producer) for one in found]
    notifications = numbered(events, None, context, arrival, written=[one.written for one in found])
    if not any(one.headers or one.why for one in found):  # As nearly always.
        return Publish(notifications)
    notifications = tuple(
        replace(made, headers=one.headers) for made, one in zip(notifications, found, strict=True)
    )
    pairs = list(zip(notifications, found, strict=True))
    return Publish(
        tuple(made for made, one in pairs if not one.why),
        set_aside=tuple(SetAside(made, one.why) for made, one in pairs if one.why),
    )


def _read_message(
    message: etree._Element, around: bytes | None, arrival: Arrival
) -> Iterable[_Read]:
    """The events of a NotificationMessage, one for each topic; *around* is what Notify says
    besides."""
    parts, rules = _parts_of(message), arrival.topics
    content, written = parts["Message"], parts.get("Topic")
    try:
        topics = read_topics(written, rules.prefixes)
    except FilterError as error:
        if not rules.set_aside:
            raise
        headers = () if around is None else (around,)
        return [_Read(None, octets_of(message), headers=headers, why=error.text)]
    if topics == (None,) and arrival.url_topic is None:
        topics = unsaid_topics(content)
    payload, producer = read_payload(content), _read_producer(parts.get("ProducerReference"))
    further = _further(message, parts, producer, around)
    return [
        _Read(
            topic or arrival.url_topic,
            payload,
            producer,
            written_topic_header(written, topics),
            further,
        )
        for topic in topics
    ]


def read_set_aside(
    kept: Notification, prefixes: tuple[tuple[str, str], ...]
) -> tuple[Notification, ...]:
    """The events of a NotificationMessage that was set aside, with the prefixes that are known
    now.

    Raises:
        Refused: It still cannot be taken.
    """
    arrival = Arrival(kept.source, kept.time, kept.id, topics=TopicRules(prefixes))
    message = parse_document(kept.payload, limits=_LIMITS_OF_SET_ASIDE)
    found = list(_read_message(message, None, arrival))
    made = _published(found, Context(Soap.V1_1), arrival).notifications
    return tuple(
        replace(
            one,
            headers=(*kept.headers, *one.headers),
            attachments=kept.attachments,
            expires=kept.expires,
            properties=kept.properties,
        )
        for one in made
    )


def _parts_of(message: etree._Element) -> dict[str, etree._Element]:
    """The parts of a NotificationMessage that are read.

    Raises:
        MediationError: ``MESSAGE_INVALID``: one is there twice, or there is no Message.
    """
    parts: dict[str, etree._Element] = {}
    for child in children_of(message):
        if (part := _PARTS.get(child.tag)) is not None:
            if part in parts:
                raise MediationError(
                    Reason.MESSAGE_INVALID,
                    f"A NotificationMessage has more than one {part}: send one for each.",
                )
            parts[part] = child
    if "Message" not in parts:
        raise MediationError(Reason.MESSAGE_INVALID, "A NotificationMessage has no Message.")
    return parts


def _further(
    message: etree._Element,
    parts: Mapping[str, etree._Element],
    producer: EndpointReference | None,
    around: bytes | None,
) -> tuple[bytes, ...]:
    """Return what a NotificationMessage says besides its parts, as header blocks of its events.

    Args:
        producer: What was read of its reference.
        around: What Notify says.
    """
    reference = parts.get("ProducerReference")
    whole = reference is None or (producer is not None and _is_plain_reference(reference))
    read = [part for part in parts.values() if whole or part is not reference]
    if len(parts) < len(message):
        read += [one for one in elements(message) if one.tag in _SUBSCRIPTIONS]
    topic = parts.get("Topic")
    said = None if topic is None else what_else(topic, _DIALECT, text=True)
    besides = what_else(message, read=read)
    if around is None and besides is None and said is None:  # As nearly always.
        return ()
    return tuple([one for one in (around, besides, said) if one is not None])


def _is_plain_reference(element: etree._Element) -> bool:
    """Return whether an endpoint reference has nothing but what `read_epr` keeps."""
    children = elements(element)
    if len(children) == 1 and children[0].tag in _ADDRESSES:  # As nearly always.
        return not attributes_told(element) and not attributes_told(children[0])
    for child in children:
        if local_name(child) == "EndpointReference":
            return len(children) == 1 and _is_plain_reference(child)
    return not attributes_told(element) and all(
        namespace_of(child) in _ADDRESSINGS
        and local_name(child) in _OF_REFERENCES
        and not attributes_told(child)
        for child in children
    )


def written_topic_header(
    element: etree._Element | None, topics: tuple[Topic | None, ...]
) -> bytes | None:
    """The octets of a topic's element, for consumers of WS-Messenger, if a publisher of
    WS-Messenger wrote it and it names one topic; without the attributes of SOAP and
    WS-Addressing."""
    if element is None or not element.tag.startswith(_IBM) or len(topics) != 1:
        return None
    if topics == (None,):
        return None
    for attribute in TRANSIENT_ATTRIBUTES.intersection(element.keys()):
        del element.attrib[attribute]
    around = element.getparent()
    text, attributes = element.text or "", attributes_of(element)
    namespaces = tuple(element.nsmap.items())
    inherited = () if around is None else tuple(around.nsmap.items())
    said = (*attributes, *namespaces, *inherited)
    if (
        len(element)
        or len(text) + sum([len(name or "") + len(value) for name, value in said]) > _LONG_TOPIC
    ):
        return payload_of(element)
    return _written_again(element.tag, text, attributes, namespaces, inherited)


@lru_cache(maxsize=256)
def _written_again(
    tag: str,
    text: str,
    attributes: tuple[tuple[str, str], ...],
    namespaces: tuple[tuple[str | None, str], ...],
    inherited: tuple[tuple[str | None, str], ...],
) -> bytes:
    """The octets of an element with no children; the same few topics come with every event."""
    outer: Any = dict(inherited)
    # lxml declares on the element what is not inherited.
    inner: Any = dict(namespaces)
    element = etree.SubElement(
        etree.Element("around", nsmap=outer), tag, dict(attributes), nsmap=inner
    )
    element.text = text
    return payload_of(element)


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
    written: Sequence[bytes | None] | None = None,
    actions: Sequence[str | None] | None = None,
) -> tuple[Notification, ...]:
    """Make notifications whose id is the message's, with ``#n`` behind it where it holds
    several. *written* are their topics' elements, of `written_topic_header`; *actions* are theirs
    where *action* is not that of all."""
    base = id_to_keep((context.headers.message_id or "").strip()) or arrival.fresh_id
    source, time = arrival.source, arrival.time
    alone = len(events) == 1
    return tuple(
        [
            Notification(
                base if alone else f"{base}#{place + 1}",
                source,
                payload,
                time,
                topic,
                action if actions is None else actions[place],
                producer,
                None,
                NO_PROPERTIES,
                headers,
                (),
                None if written is None else written[place],
            )
            for place, (topic, payload, producer) in enumerate(events)
        ]
    )


def written_notify(
    declared: str, topic: str, payload: str, producer: EndpointReference | None
) -> str:
    """A Notify as a publisher writes it; *declared* is the declaration of ``wsnt``, *topic* an
    element or empty."""
    inner = topic
    if producer is not None:
        inner += f"<wsnt:ProducerReference>{write_epr(producer)}</wsnt:ProducerReference>"
    return (
        f"<wsnt:Notify{declared}><wsnt:NotificationMessage>{inner}"
        f"<wsnt:Message>{payload}</wsnt:Message></wsnt:NotificationMessage></wsnt:Notify>"
    )


def unwrapped_events(notify: etree._Element, *, in_ours: bool) -> Iterable[UnwrappedEvent]:
    """The events of a Notify as a consumer reads it; *in_ours* as in `payload_of`."""
    for message in elements(notify):
        yield from _unwrapped(message, in_ours)


def _unwrapped(message: etree._Element, in_ours: bool) -> Iterable[UnwrappedEvent]:
    """The event of one NotificationMessage, or those of each Message in it. A topic or a reference
    that cannot be read is not a reason to lose an event."""
    topic, reference, payloads = None, None, []
    for child in elements(message):
        match local_name(child):
            case "Topic":
                topic = received_topic(child)
            case "SubscriptionReference":
                try:
                    reference = read_epr(child, forged="drop").address
                except Refused:
                    reference = None
            case "Message":
                payloads.append(read_payload(child, in_ours=in_ours))
    return [UnwrappedEvent(topic, payload, reference) for payload in payloads]


def read_payload(
    content: etree._Element, known: Collection[str] = (), *, in_ours: bool = False
) -> bytes:
    """Read what stands in ``Message``, as `content_of`; text alone, or nothing, is wrapped in an
    element. Text of a draft, which allows it, gets the element that WS-Messenger has for it.

    Args:
        known: Attributes that are read elsewhere.
    """
    if elements(content) or attributes_told(content, known):
        return content_of(content, known, in_ours=in_ours)
    text = xml_text(whole_text(content))
    if namespace_of(content) in _DRAFTS:
        name, declared = "wsmg:plainTextWrapper", f'xmlns:wsmg="{names.MESSENGER_TEXT}"'
        return f"<{name} {declared}>{text}</{name}>".encode()
    return f'<data xmlns="{names.DRAGOMAN_DATA}" content-type="text/plain">{text}</data>'.encode()


def _read_producer(element: etree._Element | None) -> EndpointReference | None:
    """Read a producer reference; a broken one is left out, because it decides nothing."""
    if element is None:
        return None
    try:
        return read_epr(element, forged="drop")
    except MediationError:
        return None
