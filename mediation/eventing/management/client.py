"""The gateway as a client of WS-Management, a sink: the header blocks of its requests to a source,
the deliveries that it wants (DSP0226 1.2, sections 5.1, 6 and 10.2), and events that it pulls
(section 10.2.9.5).

``wsen:Items`` has events bare, or as ``wsman:Event`` with their actions, as a batch has them.
openwsman has no ``wsen:PullResponse``: it answers with the message of one event. Between two
gateways of ours a header block tells what else there is to say of each event.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lxml import etree

from filters import Reason, Topic, parse_document
from mediation import names
from mediation.eventing.management.publications import (
    MOST_EVENTS,
    action_of,
    channel_topic,
    event_in,
)
from mediation.eventing.management.values import to_give_back
from mediation.model.delivery_modes import SourceOptions
from mediation.model.errors import MediationError
from mediation.model.expiry import format_duration, parse_date_time
from mediation.model.messages import NO_PROPERTIES, EndpointReference
from mediation.model.specification import RequestParts
from mediation.model.versions import Soap
from mediation.notification.topics import received_topic
from mediation.soap.envelopes import Envelope, elements, local_name, text_of, xml_text
from mediation.soap.payloads import payload_of
from mediation.soap.properties import PROPERTIES, take_numbered

MOST_OCTETS = 512 * 1024
"""Of an answer, and of a delivery."""
_WSMAN = f'xmlns:wsman="{names.WSMAN}"'
EARLIEST_BOOKMARK = f"<wsman:Bookmark {_WSMAN}>{names.WSMAN_EARLIEST}</wsman:Bookmark>".encode()
"""The bookmark behind which a source has all events that it has kept (DSP0226 1.2, section
10.2.6)."""
_RESOURCE = f"{{{names.WSMAN}}}ResourceURI"
ABOUT = f"{{{names.DRAGOMAN_DATA}}}pulled"
"""The block of our own, with an ``event`` for each item."""
_RESPONSE = f"{{{names.WSEN}}}PullResponse"
_ITEMS = f"{{{names.WSEN}}}Items"
_CONTEXT = f"{{{names.WSEN}}}EnumerationContext"
_END = f"{{{names.WSEN}}}EndOfSequence"
_BOOKMARK = f"{{{names.WSMAN}}}Bookmark"
_EVENTS = f"{{{names.WSMAN}}}Events"
_EVENT = f"{{{names.WSMAN}}}Event"
_DROPPED = f"{{{names.WSMAN}}}DroppedEvents"


def request_headers(options: SourceOptions, soap: Soap, to: EndpointReference | None = None) -> str:
    """Write the header blocks of a request *to* a source, or to the manager of a subscription,
    whose reference may name the resource by itself."""
    must = f'xmlns:s="{soap.value}" s:mustUnderstand="{"true" if soap is Soap.V1_2 else "1"}"'
    blocks = (
        f"<wsman:MaxEnvelopeSize {_WSMAN}>{MOST_OCTETS}</wsman:MaxEnvelopeSize>"
        f"<wsman:OperationTimeout {_WSMAN}>{format_duration(options.timeout)}"
        "</wsman:OperationTimeout>"
    )
    if to is not None and _names_resource(to):
        return blocks
    uri = xml_text(options.resource)
    return f"<wsman:ResourceURI {_WSMAN} {must}>{uri}</wsman:ResourceURI>{blocks}"


def _names_resource(reference: EndpointReference) -> bool:
    blocks = (*reference.parameters, *reference.properties)
    return any(parse_document(block).tag == _RESOURCE for block in blocks)


def write_delivery_options(options: SourceOptions | None) -> str:
    """Write how deliveries are wanted, as content of ``wse:Delivery`` behind ``wse:NotifyTo``."""
    if options is None or options.heartbeats is None:
        return ""
    interval = format_duration(options.heartbeats)
    return f"<wsman:Heartbeats {_WSMAN}>{interval}</wsman:Heartbeats>"


def write_bookmarks(options: SourceOptions | None) -> str:
    """Write that bookmarks are wanted, and behind which one to go on, as the end of a
    Subscribe."""
    if options is None or not options.bookmarks:
        return ""
    mark = "" if options.bookmark is None else options.bookmark.decode()
    return f"{mark}<wsman:SendBookmarks {_WSMAN}/>"


@dataclass(frozen=True, slots=True)
class PulledEvent:
    """An event that was pulled. What stands behind ``topic`` is what another gateway of
    ours said of it."""

    payload: bytes
    action: str | None = None
    topic: Topic | None = None
    id: str | None = None
    hops: str | None = None
    origin: str | None = None
    via: str | None = None
    expires: datetime | None = None
    properties: Mapping[str, str] = field(default_factory=lambda: NO_PROPERTIES)


@dataclass(frozen=True, slots=True)
class Pulled:
    """The answer to Pull.

    Attributes:
        context: The element that the next Pull has; None: that of this one.
        over: Nothing more will come.
        bookmark: The element behind which a later subscription can go on.
    """

    events: tuple[PulledEvent, ...] = ()
    context: bytes | None = None
    over: bool = False
    bookmark: bytes | None = None


def pull_parts(context: bytes, wait: timedelta, most: int) -> RequestParts:
    """Write the Pull of at most so many events, the first of which may be waited for."""
    body = (
        f'<wsen:Pull xmlns:wsen="{names.WSEN}">{context.decode()}'
        f"<wsen:MaxTime>{format_duration(wait)}</wsen:MaxTime>"
        f"<wsen:MaxElements>{most}</wsen:MaxElements></wsen:Pull>"
    )
    return RequestParts(f"{names.WSEN}/Pull", body)


def context_in(response: etree._Element) -> bytes | None:
    """The EnumerationContext in a response, as an element that can be given back.

    Raises:
        MediationError: ``MESSAGE_INVALID``: it is too large.
    """
    found = response.find(_CONTEXT)
    if found is None:
        return None
    kept = to_give_back(found)
    if kept is None:
        raise MediationError(Reason.MESSAGE_INVALID, "The EnumerationContext is too large.")
    return kept


def pulled_in(envelope: Envelope, learnt: set[str] | None = None) -> Pulled:
    """Read the answer to Pull; the names in its texts go to *learnt*.

    Raises:
        MediationError: ``MESSAGE_INVALID``.
    """
    bookmark = next((to_give_back(one) for one in envelope.headers if one.tag == _BOOKMARK), None)
    response = envelope.body[0] if envelope.body else None
    if response is None:
        return Pulled(bookmark=bookmark)
    if response.tag != _RESPONSE:
        action = next(
            (text_of(one) for one in envelope.headers if local_name(one) == "Action"), None
        )
        events = [replace(one, action=one.action or action) for one in _read(response, learnt)]
        return Pulled(tuple(events), bookmark=bookmark)
    items = response.find(_ITEMS)
    inside = [] if items is None else elements(items)
    found = [one for item in inside for one in _read(item, learnt)]
    if len(found) > MOST_EVENTS:
        raise MediationError(Reason.MESSAGE_INVALID, "The answer has too many events.")
    about = next((one for one in envelope.headers if one.tag == ABOUT), None)
    if about is not None:
        found = _with(found, elements(about))
    found = _with_properties(found, envelope)
    return Pulled(tuple(found), context_in(response), response.find(_END) is not None, bookmark)


def _read(item: etree._Element, learnt: set[str] | None) -> Iterator[PulledEvent]:
    """Read what stands for an event, or for several of a batch."""
    if item.tag == _EVENTS:
        for event in elements(item):
            yield from _read(event, learnt)
    elif item.tag == _EVENT:
        topic, payload = event_in(item, learnt)
        yield PulledEvent(payload, action_of(item), topic)
    elif item.tag == _DROPPED:
        yield PulledEvent(payload_of(item), names.WSMAN_DROPPED_EVENTS)
    else:
        yield PulledEvent(payload_of(item), None, channel_topic(item))


def _with(found: list[PulledEvent], told: list[etree._Element]) -> list[PulledEvent]:
    """*found* with what is *told* of each; of another number it is told of something else."""
    if len(told) != len(found):
        return found
    return [_told(event, one) for event, one in zip(found, told, strict=True)]


def _with_properties(found: list[PulledEvent], envelope: Envelope) -> list[PulledEvent]:
    """*found* with the properties of each, such as its signature."""
    blocks = tuple(payload_of(one) for one in envelope.headers if one.tag == PROPERTIES)
    try:
        _, each = take_numbered(blocks)
    except MediationError:  # They are no reason to lose an event.
        return found
    return [
        replace(event, properties=each[number]) if number in each else event
        for number, event in enumerate(found, 1)
    ]


def _told(event: PulledEvent, told: etree._Element) -> PulledEvent:
    topics = (received_topic(one) for one in elements(told) if local_name(one) == "Topic")
    return replace(
        event,
        action=event.action or told.get("action"),
        topic=next(topics, None) or event.topic,
        id=told.get("id"),
        hops=told.get("hops"),
        origin=told.get("origin"),
        via=told.get("via"),
        expires=_moment(told.get("expires")),
    )


def _moment(text: str | None) -> datetime | None:
    """The end of an event's life; None if it cannot be read."""
    with suppress(ValueError):
        return None if text is None else parse_date_time(text)
    return None
