"""Messages that sources of WS-Management send to the gateway as their sink: batches, heartbeats and
DroppedEvents (DSP0226 1.2, section 10.2.9; MS-WSMV, "Event Subscriptions").

Windows writes each event as text, often in a CDATA section, which is a document of its own.
"""

import re
from collections.abc import Mapping

from lxml import etree

from filters import Reason, Refused, Step, Topic, parse_document
from filters.documents import replace_forbidden
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.messages import EndpointReference
from mediation.model.requests import Arrival, Context, Operation, Publish, Request, Response
from mediation.model.specification import Answer
from mediation.notification.reading_notify import numbered, read_payload
from mediation.profiles import spellings_of
from mediation.soap.addressing import MAX_URI
from mediation.soap.contents import attributes_told, check_nothing_else
from mediation.soap.envelopes import elements, octets_of, text_of, whole_text
from mediation.soap.payloads import payload_of

MOST_EVENTS = 1024
"""Events in one batch: Windows bounds its batches by octets, of which an event may have few."""
_EVENTS = f"{{{names.WSMAN}}}Events"
_EVENT = f"{{{names.WSMAN}}}Event"
_DROPPED = f"{{{names.WSMAN}}}DroppedEvents"
_DECLARATION = re.compile(r"\A<\?xml\s[^>]*\?>")
"""An XML declaration names the encoding that a document once had: text has none."""
_ACTIONS = ("Action", f"{{{names.WSMAN}}}Action")
"""The attribute with an event's action: openwsman's is of the namespace."""
_WINDOWS_EVENT = f"{{{names.WINDOWS_EVENTS}}}Event"
_CHANNEL = f"{{{names.WINDOWS_EVENTS}}}System/{{{names.WINDOWS_EVENTS}}}Channel"
_NO_NAME = re.compile(r"[^\w.-]")
_MOST_STEPS = 8


class DeliveryRequests:
    """Deliveries to the gateway, which are publications. An acknowledgement that is asked for says
    that the events are durable."""

    namespaces = frozenset({names.WSMAN})
    elements: Mapping[str, Operation] = {
        _EVENTS: Operation.PUBLISH,
        _DROPPED: Operation.PUBLISH,
    }
    actions: Mapping[str, Operation] = {
        **dict.fromkeys(spellings_of(names.WSMAN_HEARTBEAT), Operation.PUBLISH),
    }

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        """Read a delivery; a heartbeat has no event, whether its body is empty or its batch."""
        events: list[tuple[Topic | None, bytes, EndpointReference | None]] = []
        actions: list[str | None] = []
        if element.tag == _DROPPED:
            events.append((arrival.url_topic, payload_of(element), None))
            actions.append(context.headers.action)
        for event in _members(element):
            topic, payload = event_in(event, arrival.learnt)
            events.append((arrival.url_topic or topic, payload, None))
            actions.append(action_of(event))
        if len(events) > MOST_EVENTS:
            raise MediationError(Reason.MESSAGE_INVALID, "The message has too many notifications.")
        return Publish(
            numbered(events, None, context, arrival, actions=actions),
            acknowledged=context.managed is not None and context.managed.ack,
        )

    def write(self, response: Response, context: Context) -> Answer:
        """Write Ack; its body is empty."""
        return Answer(names.WSMAN_ACK)


def _members(element: etree._Element) -> list[etree._Element]:
    """The events of a batch, which holds nothing else.

    Raises:
        MediationError: ``MESSAGE_INVALID``.
    """
    if element.tag != _EVENTS:
        return []
    check_nothing_else(element, expected=(_EVENT,))
    return elements(element)


def action_of(event: etree._Element) -> str | None:
    """The action of a member of a batch."""
    found = (str(event.get(name) or "").strip() for name in _ACTIONS)
    return next((action[:MAX_URI] for action in found if action), None)


def event_in(event: etree._Element, learnt: set[str] | None) -> tuple[Topic | None, bytes]:
    """Read a member of a batch: an element, or a document in its text, whose names go to *learnt*;
    the topic is that of a Windows event's channel."""
    children = elements(event)
    root = children[0] if len(children) == 1 else None
    if not children and not attributes_told(event, _ACTIONS):
        root = _document_in(whole_text(event), learnt)
    if root is None or children:
        topic = None if root is None else channel_topic(root)
        return topic, read_payload(event, _ACTIONS)
    return channel_topic(root), octets_of(root)


def _document_in(text: str, learnt: set[str] | None) -> etree._Element | None:
    """The root of the document that *text* is; None if it is not a document that is taken."""
    if "<" not in text:
        return None
    document = _DECLARATION.sub("", text.strip(), count=1).encode(errors="replace")
    try:
        return parse_document(document, names=learnt)
    except Refused as refused:
        # What XML forbids may be referred to, which is but text where the event is text.
        mended = replace_forbidden(document) if refused.reason is Reason.NOT_XML else None
    try:
        return parse_document(mended, names=learnt) if mended is not None else None
    except Refused:
        return None


def channel_topic(event: etree._Element) -> Topic | None:
    """The topic of an event that names its channel: the channel's path, in which every character
    that no name of a topic has is an underscore. None for an event of somebody else."""
    if event.tag != _WINDOWS_EVENT:
        return None
    channel = event.find(_CHANNEL)
    pieces = text_of(channel).split("/")[:_MOST_STEPS] if channel is not None else []
    steps = [_NO_NAME.sub("_", piece).lstrip(".") for piece in pieces]
    if not steps or not all(steps):
        return None
    return Topic(tuple(Step(None, step) for step in steps))
