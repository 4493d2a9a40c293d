"""Notifications as CloudEvents, and back. This is the one place where their parts are matched.

    attribute         of an event that came as a      of any other notification
                      CloudEvent
    ----------------  ------------------------------  --------------------------------------------
    id                as it came                      ``id``: the publisher's ``wsa:MessageID``
    source            as it came                      the address of the producer reference, else
                                                      the ``source`` that a program at the broker
                                                      named, else `GATEWAY`
    type              as it came                      the action, else the one that consumers of
                                                      WS-Eventing get: made from the payload's name
    subject           as it came                      the names of the topic: ``storms/coast``
    time              as it came, else when it was    when it was accepted
                      accepted
    topic             the topic in Clark notation, where there is one: ``{urn:w}storms/coast``
    expirytime        as it came                      when the event expires, where it does
    contentencoding   as it came                      that of data which came from a broker in one
                                                      that nobody knew
    datacontenttype   as it came, or not at all       application/xml, or that of `wrap`
    dataschema        as it came, unless the data
                      is projected
    others            as they came, in their types    properties that a publisher of SOAP said
                                                      (`mediation.soap.properties`)

What a publisher named is kept whole in one property of the notification, `ATTRIBUTES`, and each
extension in a property of its own, where filters over properties find it.

    notification      of a CloudEvent
    ----------------  ------------------------------------------------------------------------------
    id                ``id``
    source            the publisher's own, then ``source``: nobody can use up another's ids
    action            ``type``, where that is an absolute URI
    topic             ``topic``, else that of the URL
    expires           ``expirytime``
    payload           the data if it is XML, else wrapped (`mediation.packaging.data`); if no type
                      is said, it is XML if it is an element, JSON if it is an object or an array
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import lru_cache
from urllib.parse import quote

from filters import DocumentLimits, Reason, Refused, Topic, parse_clark, quoted
from filters.documents import DEFAULT_LIMITS
from filters.topics import is_namespace
from mediation.cloudevents.events import (
    SPECVERSION,
    CloudEvent,
    Value,
    clean,
    extensions_of,
    is_media_type,
    is_xml,
    json_member,
    json_object,
    read_attributes,
    read_time,
    text_of,
)
from mediation.cloudevents.json_format import is_evidently_json
from mediation.cloudevents.projection import may_project, write_projection
from mediation.model.errors import MediationError
from mediation.model.messages import Notification
from mediation.model.versions import DataForm
from mediation.names import EVENT_SIGNATURE, PUBLISHER
from mediation.packaging.data import NO_DATA, UNTYPED, Data, described, unwrap, wrap, xml_payload
from mediation.packaging.records import TYPE
from mediation.soap.actions import payload_action
from mediation.soap.properties import has_properties, properties_in

ATTRIBUTES = "ce_attributes"
"""The property with all attributes that a publisher gave its CloudEvent, as JSON."""
GATEWAY = "urn:dragoman:gateway"
"""The source of events whose publisher named none: who that was is told to nobody."""
EXPIRY = "expirytime"
"""The extension attribute that says when the event's life is over."""
ENCODING = "contentencoding"
"""The one that names the codings of the data, where they could not be undone."""
TOPIC = "topic"
"""The extension attribute that holds the topic."""
TRACE_ATTRIBUTES = ("traceparent", "tracestate")
"""The attributes of the extension Distributed Tracing, which notifications have as properties."""
_ABSOLUTE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:[^\s<>\"{}|\\^`]+\Z")
_NOT_IN_URI = "-._~:/?#[]@!$&'()*+,;=%"
_FIRST, _LAST = datetime(1, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
_XML, _JSON = "application/xml", "application/json"
_BEFORE_XML = b"\xef\xbb\xbf \t\r\n"
_STEPS = 64
_DATA = b"<data"
"""What `wrap` begins payloads with that are no XML, and some publishers theirs."""
_HIDDEN = re.compile(rf"{PUBLISHER}|(?:amqp|mqtt|nats|stomp)[a-z+]*://")
"""Sources that nobody named: the network addresses of publishers, and those of brokers."""


def notification_of(
    event: CloudEvent,
    *,
    time: datetime,
    publisher: str | None = None,
    topic: Topic | None = None,
    learnt: set[str] | None = None,
    limits: DocumentLimits = DEFAULT_LIMITS,
) -> Notification:
    """Read a CloudEvent as a notification.

    Args:
        time: When it was accepted.
        publisher: The scope of the sources that its sender may name; None: it may name any.
        topic: That of the URL, for an event that names none.
        learnt: Collects the names in the data, as in `mediation.read`.
        limits: Those of data that is XML.

    Raises:
        Refused: ``TOPIC_INVALID``; ``MESSAGE_INVALID``: `EXPIRY` is not a time; what is wrong with
            data that says that it is XML.
    """
    attributes = event.attributes
    named = topic_of(event)
    type_, source = str(attributes["type"]), str(attributes["source"])
    properties = properties_of(event)
    properties[TYPE] = type_
    came = dict(attributes)
    came.pop(TOPIC, None)
    properties[ATTRIBUTES] = _write_came(came)
    return Notification(
        str(attributes["id"]),
        source if publisher is None else f"{publisher}#{source}",
        _payload(event, learnt, limits),
        time,
        topic if named is None else named,
        type_ if _is_absolute(type_) else None,
        expires=_expiry_of(attributes),
        properties=properties,
    )


def _expiry_of(attributes: Mapping[str, Value]) -> datetime | None:
    said = attributes.get(EXPIRY)
    if said is None:
        return None
    time = read_time(EXPIRY, said)
    try:
        return time.astimezone(UTC)
    except OverflowError:  # On the first day of all, or the last.
        return _FIRST if time.year == 1 else _LAST


def topic_of(event: CloudEvent) -> Topic | None:
    """The topic that *event* names itself.

    Raises:
        Refused: ``TOPIC_INVALID``.
    """
    named = event.attributes.get(TOPIC)
    if named is None:
        return None
    text = text_of(named)
    return _kept_topic(text) if len(text) <= _SHORT else _read_topic(text)


def properties_of(event: CloudEvent) -> dict[str, str]:
    """The extension attributes of *event* as text, by name, but for the topic."""
    attributes = event.attributes
    return {name: text_of(attributes[name]) for name in extensions_of(attributes) if name != TOPIC}


def event_of(notification: Notification, data: DataForm = DataForm.AS_PUBLISHED) -> CloudEvent:
    """Write a notification as a CloudEvent, with its data in this form; XML that is too much to
    become JSON stays what it is, and its media type says so."""
    attributes = attributes_of(notification)
    content = unwrap(notification.payload)
    if content is None and data is DataForm.JSON and may_project(notification.payload):
        attributes["datacontenttype"] = "application/json"
        attributes.pop("dataschema", None)
        return CloudEvent(attributes, write_projection(notification.payload))
    _set_type(attributes, content, notification)
    return CloudEvent(attributes, notification.payload if content is None else content.content)


def attributes_of(notification: Notification) -> dict[str, Value]:
    """The attributes of a notification, but for those that its data decides, unless they came."""
    topic = notification.topic
    came = came_as(notification.properties)
    if came is not None:
        attributes = dict(came)
        if "time" not in attributes:
            attributes["time"] = _written(notification.time)
    else:
        attributes = {
            "specversion": SPECVERSION,
            "id": clean(notification.id) or "-",
            "source": _source(notification),
            "type": _type_of(notification),
            "time": _written(notification.time),
        }
        if topic is not None:
            attributes["subject"] = _written_topic(topic)[0]
        _add_said(attributes, notification)
        if EVENT_SIGNATURE in notification.properties:
            attributes[EVENT_SIGNATURE] = clean(notification.properties[EVENT_SIGNATURE])
    _add_trace(attributes, notification.properties)
    if notification.expires is not None:
        attributes.setdefault(EXPIRY, _written(notification.expires))
    if topic is not None:
        attributes[TOPIC] = _written_topic(topic)[1]
    return attributes


def _add_said(attributes: dict[str, Value], notification: Notification) -> None:
    """Add the properties that a publisher of SOAP said, as far as attributes have such names."""
    for name, value in properties_in(notification.headers).items():
        if _ATTRIBUTE.fullmatch(name) and name not in _TAKEN:
            attributes[name] = clean(value)


def _add_trace(attributes: dict[str, Value], properties: Mapping[str, str]) -> None:
    """Add the context of the trace that a notification carries, unless its publisher said one."""
    if TRACE_ATTRIBUTES[0] not in attributes:
        for name in TRACE_ATTRIBUTES:
            if name in properties:
                attributes[name] = clean(properties[name])


_ATTRIBUTE = re.compile("[a-z0-9]{1,20}")
_TAKEN = frozenset(
    {"id", "source", "type", "specversion", "subject", "time", "data", "datacontenttype"}
    | {"dataschema", "topic", EXPIRY, ENCODING}
)
"""Names of attributes that are not a publisher's of SOAP to say."""


def json_of(notification: Notification) -> tuple[str, str] | None:
    """The attributes of the event that a notification with XML becomes, as `event_of` has them, as
    an object of JSON, and its media type; None where it takes that to make them."""
    if notification.payload.startswith(_DATA):
        return None
    text = notification.properties.get(ATTRIBUTES)
    return _json_made(notification) if text is None else _json_as_it_came(text, notification)


def _json_as_it_came(text: str, notification: Notification) -> tuple[str, str] | None:
    """As `json_of`, of an event that came lately as a CloudEvent with this *text*, if all is as it
    came but the topic behind it."""
    came = _written_lately.get(text)
    if (
        came is None
        or "time" not in came
        or (notification.expires is not None and EXPIRY not in came)
        or (TRACE_ATTRIBUTES[0] in notification.properties and TRACE_ATTRIBUTES[0] not in came)
    ):
        return None
    media_type = str(came.get("datacontenttype", ""))
    if not _stays(media_type, notification.payload):
        return None
    topic = notification.topic
    if topic is not None:
        text = f"{text[:-1]},{json_member(TOPIC, _written_topic(topic)[1])}}}"
    return text, media_type


def _json_made(notification: Notification) -> tuple[str, str] | None:
    """As `json_of`, of an event of another specification: id and time aside, its members recur."""
    if (
        notification.expires is not None
        or has_properties(notification.headers)
        or EVENT_SIGNATURE in notification.properties
        or TRACE_ATTRIBUTES[0] in notification.properties
    ):
        return None
    source, type_ = _source(notification), _type_of(notification)
    said = (_json_said if len(source) + len(type_) <= _SHORT else _json_said.__wrapped__)(
        source, type_
    )
    text = (
        f'{{"specversion":"{SPECVERSION}",{json_member("id", clean(notification.id) or "-")},{said}'
        f'"time":"{_written(notification.time)}"{_json_topic(notification.topic)}'
        f'"datacontenttype":"{_XML}"}}'
    )
    return text, _XML


@lru_cache(maxsize=256)
def _json_said(source: str, type_: str) -> str:
    return f"{json_member('source', source)},{json_member('type', type_)},"


@lru_cache(maxsize=256)
def _json_topic(topic: Topic | None) -> str:
    if topic is None:
        return ","
    subject, text = _written_topic(topic)
    return f",{json_member('subject', subject)},{json_member(TOPIC, text)},"


@lru_cache(maxsize=256)
def _written_topic(topic: Topic) -> tuple[str, str]:
    """The subject that a topic becomes, and the topic in Clark notation."""
    return clean("/".join([step.name for step in topic.steps])), clean(str(topic))


def write_attributes(notification: Notification) -> bytes:
    """The attributes that filters see: JSON, each as text."""
    attributes = attributes_of(notification)
    _set_type(attributes, described(notification.payload), notification)
    return json.dumps({name: text_of(value) for name, value in attributes.items()}).encode()


def _set_type(
    attributes: dict[str, Value], content: Data | None, notification: Notification
) -> None:
    """Set ``datacontenttype`` to that of data as it was published; None: the payload itself, XML.
    Where a publisher of CloudEvents said none, none is said."""
    if content is not None and content.encoding:
        attributes.setdefault(ENCODING, clean(content.encoding))
    if "datacontenttype" not in attributes and ATTRIBUTES in notification.properties:
        return
    if content is None:
        if not _stays(str(attributes.get("datacontenttype", "")), notification.payload):
            attributes["datacontenttype"] = _XML
    elif content.media_type is not None and content.content is not None:
        known = content.media_type if is_media_type(content.media_type) else UNTYPED
        attributes.setdefault("datacontenttype", known)


def _stays(media_type: str, payload: bytes) -> bool:
    """Return whether XML that came as this media type is still of it as *payload*, which is in
    UTF-8."""
    charset = _charset_of_xml(media_type)
    return charset in _UTF_8 or (charset in _ASCII and payload.isascii())


@lru_cache(maxsize=256)
def _charset_of_xml(media_type: str) -> str | None:
    """The charset that a media type of XML names, in lower case; ``""`` where it names none, None
    where it is not of XML."""
    if not is_xml(media_type):
        return None
    found = _CHARSET.search(media_type)
    return found[1].lower() if found is not None else ""


_CHARSET = re.compile(r';\s*charset\s*=\s*"?([^";\s]*)', re.IGNORECASE)
_UTF_8 = frozenset({"", "utf-8", "utf8"})
_ASCII = frozenset({"us-ascii", "ascii"})


def _write_came(attributes: Mapping[str, Value]) -> str:
    """Write attributes that were checked, for `came_as`."""
    text = json_object(attributes)
    if len(text) <= _SHORT:
        if len(_written_lately) >= _REMEMBERED:
            _written_lately.clear()
        _written_lately[text] = attributes
    return text


_REMEMBERED, _SHORT = 256, 2048
_written_lately: dict[str, Mapping[str, Value]] = {}
"""Attributes of so many events, of so many characters at most, by what was written of them: an
event is sent on soon after it came, and need not be read and checked again. They are forgotten as a
whole."""


def came_as(properties: Mapping[str, str]) -> Mapping[str, Value] | None:
    """The attributes with which a publisher sent its CloudEvent; None of any other event. Whoever
    may write to the broker may write anything there."""
    text = properties.get(ATTRIBUTES)
    if text is None:
        return None
    written = _written_lately.get(text)
    if written is not None:
        return written
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    try:
        return read_attributes(found.items()) if isinstance(found, dict) else None
    except MediationError:
        return None


@lru_cache(maxsize=256)
def _kept_absolute(type_: str) -> bool:
    return _ABSOLUTE.match(type_) is not None


def _is_absolute(type_: str) -> bool:
    """Return whether a type is an absolute URI."""
    return (_kept_absolute if len(type_) <= _SHORT else _kept_absolute.__wrapped__)(type_)


def _payload(event: CloudEvent, learnt: set[str] | None, limits: DocumentLimits) -> bytes:
    if event.data is None:
        return NO_DATA
    if event.media_type is None:
        return _untyped_payload(event.data, learnt, limits)
    if is_xml(event.media_type):
        return xml_payload(event.data, event.media_type, learnt, limits)
    return wrap(event.data, event.media_type)


def _untyped_payload(data: bytes, learnt: set[str] | None, limits: DocumentLimits) -> bytes:
    """Make a payload of data of which no media type is said."""
    if data.lstrip(_BEFORE_XML)[:1] == b"<":
        try:
            return xml_payload(data, None, learnt, limits)
        except Refused:
            pass
    return wrap(data, _JSON if is_evidently_json(data) else None)


def _read_topic(text: str) -> Topic:
    try:
        topic = parse_clark(text)
    except ValueError:
        topic = None
    if (
        topic is None
        or len(topic.steps) > _STEPS
        or not all(step.name.isprintable() and step.name.strip() for step in topic.steps)
        or not all(is_namespace(step.namespace) for step in topic.steps if step.namespace)
    ):
        raise MediationError(
            Reason.TOPIC_INVALID,
            f"The attribute {quoted(TOPIC)} is not a topic: write {{namespace}}name/name.",
        )
    return topic


_kept_topic = lru_cache(maxsize=256)(_read_topic)  # The same few topics come with every event.


def _type_of(notification: Notification) -> str:
    return clean(notification.action or payload_action(notification.payload))


def _source(notification: Notification) -> str:
    if notification.producer is not None and notification.producer.address:
        named = notification.producer.address
    elif notification.source and not _HIDDEN.match(notification.source):
        named = notification.source
    else:
        named = GATEWAY
    return _quoted(named) if len(named) <= _SHORT else _quoted.__wrapped__(named)


@lru_cache(maxsize=256)
def _quoted(named: str) -> str:
    return quote(named, safe=_NOT_IN_URI) or GATEWAY


def _written(time: datetime) -> str:
    if time.tzinfo is not UTC:
        time = time.astimezone(UTC)
    return "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ" % (  # noqa: UP031 - half as dear as others
        time.year,
        time.month,
        time.day,
        time.hour,
        time.minute,
        time.second,
        time.microsecond,
    )
