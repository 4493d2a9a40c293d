"""Detection: the SOAP, the addressing, the specification and the operation of an envelope.

The QName of the body's first child decides. The action decides only where the body is empty; that
of a request over another body is a fault.
A child in a known specification's namespace that is not an operation of it is a fault; faults and
responses are never events; anything else is an event.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace

from lxml import etree

from filters import DocumentLimits, Reason, Refused, Topic, parse_document, quoted
from filters.documents import DEFAULT_LIMITS, replace_forbidden
from mediation import names, profiles
from mediation.eventing.management import channel_topic, read_management
from mediation.grid_events.recurring import CallMoulds
from mediation.grid_events.rpc import refuse_soap
from mediation.mailboxes.message_box import BOX_NAMES, box_named_in
from mediation.model.errors import MediationError
from mediation.model.messages import (
    NO_HEADERS,
    EndpointReference,
    MessageHeaders,
    Notification,
)
from mediation.model.requests import (
    Arrival,
    Context,
    EndpointRules,
    Incoming,
    Named,
    Operation,
    Publish,
    Rejected,
    Request,
    Sequences,
    Subscribe,
)
from mediation.model.specification import Specification
from mediation.model.versions import Soap, Version, Wsa
from mediation.notification.reading_notify import (
    TRANSIENT_ATTRIBUTES,
    numbered,
    written_topic_header,
)
from mediation.notification.topics import read_topics
from mediation.packaging.attachments import attach
from mediation.reliable_messaging import (
    RM_BY_NAMESPACE,
    Kind,
    ReliableMessage,
    RmFault,
    read_parts,
)
from mediation.request_actions import check_action
from mediation.soap.addressing import (
    MAX_URI,
    first_message_id,
    read_headers,
)
from mediation.soap.contents import body_content, check_alone, check_body
from mediation.soap.envelopes import (
    Envelope,
    check_understood,
    elements,
    local_name,
    namespace_of,
    read_envelope,
    soap_of,
    text_of,
)
from mediation.soap.expiry import take_expiry
from mediation.soap.layout import Layout, layout_of
from mediation.soap.payloads import payload_of
from mediation.soap.properties import properties_in, take_numbered
from mediation.soap.recurring import EventMoulds, Moulds
from mediation.specifications import SPECIFICATIONS

_BY_NAMESPACE = {
    namespace: specification
    for specification in SPECIFICATIONS.values()
    for namespace in specification.requests.namespaces
}
_BY_ELEMENT = {
    element: (specification, operation)
    for specification in SPECIFICATIONS.values()
    for element, operation in specification.requests.elements.items()
}
_BY_ACTION = {
    action: (specification, operation)
    for specification in SPECIFICATIONS.values()
    for action, operation in specification.requests.actions.items()
}
_BY_CALL = {
    method: (specification, operation)
    for specification in SPECIFICATIONS.values()
    for method, operation in specification.calls.items()
}
_BY_EVENT_ACTION = {
    action: specification
    for specification in SPECIFICATIONS.values()
    for action in specification.events
}
_WRAPPING_ACTIONS = frozenset(
    action
    for specification in SPECIFICATIONS.values()
    if specification.notifications is not None
    for action in specification.notifications.actions
)
_IDENTIFYING = frozenset[str]().union(
    *(specification.identifiers for specification in SPECIFICATIONS.values())
)
_PROTOCOLS = frozenset(
    {
        *(wsa.value for wsa in Wsa),
        *(soap.value for soap in Soap),
        *_BY_NAMESPACE,
        *names.KNOWN_ELSEWHERE,
        names.TDN,
        *profiles.TOPIC_HEADERS,
        names.WSSE,
        names.WSU,
        names.WSMAN,
        names.WSMAN_MICROSOFT,
        names.WSMAN_MACHINE_ID,
    }
)
"""Namespaces of header blocks that are for the gateway, and no part of an event."""

_SOAPS = frozenset(soap.value for soap in Soap)
_MARKS = frozenset(f"{{{wsa.value}}}IsReferenceParameter" for wsa in Wsa)
_OFFERED = "; ".join(specification.title for specification in SPECIFICATIONS.values())

_NAMING = frozenset({"Identifier", "SubscriptionReference", "EnumerationContext", *BOX_NAMES})
"""Local names of the elements of a request that may name its subscription or mailbox."""

_NO_NAMESPACES: frozenset[str] = frozenset()
_WINDOWS = f"{{{names.WINDOWS_EVENTS}}}"
"""What the names of events begin with in which a topic is looked for."""

_WITH_PARTS = frozenset({Operation.SUBSCRIBE, Operation.PUBLISH})
"""Operations whose element says what is asked; of the others the action does."""

MAX_HEADER_OCTETS = 6 * 1024
"""The most octets of the header blocks that travel with an event, together."""


def read(
    octets: bytes,
    arrival: Arrival,
    *,
    soap_hint: Soap = Soap.V1_1,
    limits: DocumentLimits = DEFAULT_LIMITS,
    learnt: set[str] | None = None,
) -> Incoming:
    """Read one message.

    Args:
        soap_hint: The version to answer in while the envelope's own is not known.
        learnt: Collects the names in what is parsed, for a caller that bounds what the parser
            keeps: all of the document, or the event alone, should its envelope be known.

    Raises:
        Rejected: with the reason, and with all that is known of how to answer.
    """
    usual = limits.covers_usual
    if usual:
        known = _moulds.read(octets, arrival, learnt)
        if known is not None:
            return known
    found = _read_whole(octets, arrival, soap_hint, limits, learnt)
    if usual:
        _moulds.learn(octets, arrival, found)
    return found


def read_headers_alone(
    octets: bytes,
    *,
    soap_hint: Soap = Soap.V1_1,
    limits: DocumentLimits = DEFAULT_LIMITS,
    learnt: set[str] | None = None,
) -> Context:
    """Read what a fault needs of a message whose Body cannot be read: the versions of SOAP and of
    WS-Addressing, and the message id, as far as they can be read."""
    soap = soap_hint
    try:
        root = _parse(octets, limits, learnt)
        soap = soap_of(root)
        envelope = read_envelope(root)
        return Context(soap, first_message_id(envelope, layout_of(envelope.names).wsa))
    except Refused:
        return Context(soap)


def _read_whole(
    octets: bytes,
    arrival: Arrival,
    soap_hint: Soap = Soap.V1_1,
    limits: DocumentLimits = DEFAULT_LIMITS,
    learnt: set[str] | None = None,
) -> Incoming:
    soap, headers, name, namespaces = soap_hint, NO_HEADERS, "", _NO_NAMESPACES
    specification = operation = managed = reliable = None
    try:
        root = _parse(octets, limits, learnt)
        soap = soap_of(root)
        envelope = read_envelope(root)
        element = envelope.body[0] if envelope.body else None
        name = element.tag if element is not None else ""
        layout = layout_of(envelope.names)
        namespaces = layout.namespaces
        try:
            headers = read_headers(envelope, layout)
        except MediationError:
            headers = first_message_id(envelope, layout.wsa)
            raise
        # A fault is written in it, should the request be refused from here on.
        specification = _BY_NAMESPACE.get(name[1:].rpartition("}")[0]) if name else None
        strange: Iterable[int] = layout.strange
        if arrival.rules.sequences is not Sequences.OFF:
            reliable = _read_sequences(envelope, layout, headers, name)
        own = arrival.rules.operation_of(headers.action, arrival.http_action)
        if own is None or name:
            specification, operation = _detect(name, headers.action, reliable)
        else:
            specification, operation = _own_specification(arrival.rules), own
        if own is not None and not _is_asked(own, name, specification, operation):
            specification, operation = _own_specification(arrival.rules), own
            raise _element_missing(own)
        called = None
        if specification is None and name and headers.action is None:
            called = _BY_CALL.get(name.rpartition("}")[2])
            if called is not None:
                specification, operation = called
                if soap is not Soap.V1_1:
                    soap = Soap.V1_1  # In which it is refused, too.
                    raise refuse_soap(name.rpartition("}")[2])
        if name and called is None:
            check_action(name, operation, headers.action, arrival.http_action)
        if reliable is not None:
            strange = (at for at in strange if _namespace_at(envelope, at) not in RM_BY_NAMESPACE)
        _check_understood(envelope, strange)
        if names.WSMAN in namespaces:
            managed = read_management(envelope)
        if specification is None:
            specification = _answering(headers.action or arrival.http_action, arrival.rules)
            acknowledged = specification is None and managed is not None and managed.ack
            if acknowledged:
                specification = SPECIFICATIONS[Version.MANAGEMENT]
            version = _version(specification)
            context = Context(
                soap, headers, version, operation, name, namespaces, managed, reliable
            )
            event = _read_event(envelope, layout, context, arrival, acknowledged=acknowledged)
            return Incoming(context, event, Named(_identifiers(envelope, layout), headers.to))
        version = specification.version
        context = Context(soap, headers, version, operation, name, namespaces, managed, reliable)
        if operation is Operation.PUBLISH and layout.topic is not None:
            topic = _header_topics(envelope, layout, arrival)[0] or arrival.url_topic
            arrival = replace(arrival, url_topic=topic)
        if element is None:
            element = etree.Element("empty")
        elif operation is Operation.PUBLISH and called is None:
            check_alone(envelope)
        if learnt is not None and (managed is not None or called is not None):
            arrival = replace(arrival, learnt=learnt)
        read_as = specification.requests.read(operation, element, context, arrival)
        request = _packaged(_headed(read_as, envelope, layout), arrival)
        if operation is Operation.PUBLISH:  # Nothing in its body names a subscription.
            return Incoming(context, request, Named(_identifiers(envelope, layout), headers.to))
        return Incoming(context, request, _read_named(envelope, layout, element, headers.to))
    except Refused as refused:
        # The context has all that was known by then.
        version = _version(specification)
        context = Context(soap, headers, version, operation, name, namespaces, reliable=reliable)
        raise Rejected(context, refused) from refused


def _parse(octets: bytes, limits: DocumentLimits, learnt: set[str] | None) -> etree._Element:
    """Parse an envelope, in a second try one of `profiles.MENDED`."""
    try:
        return parse_document(octets, limits=limits, names=learnt)
    except Refused as refused:
        mended = replace_forbidden(octets) if refused.reason is Reason.NOT_XML else None
        if mended is None:
            raise
        root = parse_document(mended, limits=limits, names=learnt)
        if profiles.MENDED.isdisjoint([one.tag for part in elements(root) for one in part]):
            raise
        return root


def _check_understood(envelope: Envelope, strange: Iterable[int]) -> None:
    """As `check_understood`, which says what is offered instead of a specification that is
    known."""
    try:
        check_understood(envelope, strange)
    except MediationError as refused:
        known = (names.KNOWN_ELSEWHERE.get(name[1:].rpartition("}")[0]) for name in refused.names)
        if (specification := next(filter(None, known), None)) is None:
            raise
        text = f"{refused.text} {specification} is not offered. Offered: {_OFFERED}."
        raise MediationError(refused.reason, text, names=refused.names) from None


def _is_plain_event(name: str) -> bool:
    """Return whether an element of this name is an event wherever it stands, and nothing of its
    message is read in it. Whoever reads a topic, or anything else, in events of some name excepts
    it here."""
    if name.startswith(_WINDOWS) or name in profiles.TOPIC_SIGNS:
        return False
    if name.rpartition("}")[2] in _BY_CALL:
        return False
    try:
        return _detect(name, None)[0] is None
    except MediationError:
        return False


_moulds = Moulds(EventMoulds(_read_whole, _is_plain_event).make, CallMoulds(_read_whole).make)


def _namespace_at(envelope: Envelope, place: int) -> str:
    return envelope.names[place][1:].rpartition("}")[0]


def _read_sequences(
    envelope: Envelope, layout: Layout, headers: MessageHeaders, name: str
) -> ReliableMessage | None:
    """Read what a message says of sequences; None where it says nothing."""
    body = name[1:].rpartition("}")[0]
    silent = layout.namespaces.isdisjoint(RM_BY_NAMESPACE)
    if silent and body not in RM_BY_NAMESPACE and body not in _SOAPS:  # Not even in a fault.
        return None
    said = read_parts(envelope, headers)
    return said if said.rm is not None else None


def _answering(action: str | None, rules: EndpointRules) -> Specification | None:
    """The specification in which a bare event with *action* is answered; None: in none.

    Raises:
        MediationError: ``ACTION_UNSUPPORTED``: the address takes no such event.
    """
    known = _BY_EVENT_ACTION.get(action or "")
    if known is not None:
        return known
    if rules.known_events and action not in _WRAPPING_ACTIONS:
        raise MediationError(
            Reason.ACTION_UNSUPPORTED,
            f"{quoted(action or '')} is not an action of this service: "
            "send events to EventingService.",
        )
    return SPECIFICATIONS[rules.answers] if rules.answers is not None else None


def _version(specification: Specification | None) -> Version | None:
    return None if specification is None else specification.version


def _headed(request: Request, envelope: Envelope, layout: Layout) -> Request:
    """Give wrapped events the application's header blocks of their message, besides those that
    were made of what else it says of them.

    Raises:
        MediationError: ``MESSAGE_INVALID`` where they exceed `MAX_HEADER_OCTETS`.
    """
    if not isinstance(request, Publish):
        return request
    kept, expires = take_expiry(_kept_headers(envelope, layout))
    kept, numbered_properties = take_numbered(kept)
    if numbered_properties:
        request = _numbered_properties(request, numbered_properties)
    if kept or expires is not None:
        said = properties_in(kept)
        request = _each(
            request,
            lambda event: replace(
                event,
                headers=(*event.headers, *kept),
                expires=expires,
                properties={**event.properties, **said} if said else event.properties,
            ),
        )
    for event in (*request.notifications, *(one.notification for one in request.set_aside)):
        if event.headers and event.headers is not kept:
            _check_headers(event.headers)
    return request


def _numbered_properties(request: Publish, properties: Mapping[int, Mapping[str, str]]) -> Publish:
    """*request* with the properties of each of its events, by number."""
    events = tuple(
        [
            replace(event, properties={**event.properties, **properties[number]})
            if number in properties
            else event
            for number, event in enumerate(request.notifications, 1)
        ]
    )
    return replace(request, notifications=events)


def _each(request: Publish, made_of: Callable[[Notification], Notification]) -> Publish:
    """*request* with what is made of each of its events, then of each message set aside."""
    events = tuple([made_of(event) for event in request.notifications])
    aside = [replace(one, notification=made_of(one.notification)) for one in request.set_aside]
    return replace(request, notifications=events, set_aside=tuple(aside))


def _packaged(request: Request, arrival: Arrival) -> Request:
    """Give *request* the attachments, or the packaging, that it came with."""
    match request:
        case Publish():
            if not arrival.attachments:
                return request
            aside = tuple([one.notification for one in request.set_aside])
            attached = iter(attach((*request.notifications, *aside), arrival.attachments))
            return _each(request, lambda _: next(attached))
        case Subscribe():
            return replace(request, packaging=arrival.packaging)
        case _:
            return request


def _detect(
    name: str, action: str | None, reliable: ReliableMessage | None = None
) -> tuple[Specification | None, Operation]:
    """Find the specification and the operation of a body by the expanded *name* of its first child,
    which is empty where there is none. A bare event has no specification.

    Args:
        reliable: What the message says of sequences.

    Raises:
        MediationError: ``ACTION_UNSUPPORTED``; ``MESSAGE_INVALID`` where nothing is said.
    """
    if not name:
        if action in _BY_ACTION:
            return _BY_ACTION[action]
        if action and action not in _BY_EVENT_ACTION:
            raise MediationError(
                Reason.ACTION_UNSUPPORTED, "The body is empty, and the action is not known."
            )
        raise MediationError(Reason.MESSAGE_INVALID, "The body is empty.")
    detected = _BY_ELEMENT.get(name)
    if detected is not None:
        return detected
    namespace = name[1:].rpartition("}")[0]
    if namespace in _SOAPS:
        if reliable is not None and reliable.rm and isinstance(reliable.fault, RmFault):
            # What ends a sequence of ours comes where that is acknowledged.
            return _BY_ACTION[reliable.rm.action(Kind.ACKNOWLEDGEMENT)]
        raise MediationError(Reason.ACTION_UNSUPPORTED, "A fault is not a request.")
    elsewhere = names.KNOWN_ELSEWHERE.get(namespace)
    found = _BY_NAMESPACE.get(namespace)
    if elsewhere is None and found is None and namespace.endswith("/ws-evt"):
        elsewhere = "This version of WS-Eventing"
    if elsewhere is not None:
        raise _not_offered(name, elsewhere)
    if found is not None:
        raise MediationError(
            Reason.ACTION_UNSUPPORTED,
            f"{_shown(name)} is not implemented: no request of {found.title}.",
        )
    return None, Operation.PUBLISH


def _own_specification(rules: EndpointRules) -> Specification | None:
    return None if rules.own is None else SPECIFICATIONS[rules.own]


def _is_asked(
    own: Operation, name: str, specification: Specification | None, operation: Operation
) -> bool:
    """Return whether a body asks for *own*, the operation of its action; *specification* and
    *operation* are what its first child, of this expanded *name*, was detected as."""
    if not name:
        return own not in _WITH_PARTS
    return specification is not None and operation is own


def _element_missing(operation: Operation) -> MediationError:
    return MediationError(
        Reason.MESSAGE_INVALID,
        f"The action is that of {operation.value}, and the body has no such element.",
        missing=operation.value,
    )


def _not_offered(name: str, specification: str) -> MediationError:
    return MediationError(
        Reason.ACTION_UNSUPPORTED,
        f"{specification} is not offered ({_shown(name)} was asked for). Offered: {_OFFERED}.",
    )


def _shown(name: str) -> str:
    return quoted(name.rpartition("}")[2])


def _read_event(
    envelope: Envelope, layout: Layout, context: Context, arrival: Arrival, *, acknowledged: bool
) -> Publish:
    """Read a bare event: what stands in the body is one (WS-Eventing, Notifications; raw
    notifications of WS-BaseNotification 1.3, section 3.2), however many elements it has, of which
    some may be independent elements of SOAP's encoding (SOAP 1.1, section 5.1)."""
    action = context.headers.action or (arrival.http_action or "")[:MAX_URI] or None
    if action in _WRAPPING_ACTIONS:
        action = None  # A raw notification that knows no better one.
    kept, expires = take_expiry(_kept_headers(envelope, layout))
    topics = _header_topics(envelope, layout, arrival)
    check_body(envelope)
    payload, channel = body_content(envelope), _channel(envelope.body[0], context)
    events: list[tuple[Topic | None, bytes, EndpointReference | None]] = [
        (topic or arrival.url_topic or channel, payload, None) for topic in topics
    ]
    element = None if layout.topic is None else envelope.headers[layout.topic]
    written = written_topic_header(element, topics)
    headers = None if written is None else [written] * len(events)
    notifications = numbered(events, action, context, arrival, kept, headers)
    answered = context.version is not None and not acknowledged
    if expires is not None:
        notifications = tuple([replace(event, expires=expires) for event in notifications])
    if said := properties_in(kept):
        notifications = tuple([replace(event, properties=said) for event in notifications])
    notifications = attach(notifications, arrival.attachments)
    return Publish(notifications, answered=answered, acknowledged=acknowledged)


def _channel(event: etree._Element, context: Context) -> Topic | None:
    """The topic that an event of Windows names, where its source speaks WS-Management."""
    return None if context.managed is None else channel_topic(event)


def _header_topics(
    envelope: Envelope, layout: Layout, arrival: Arrival
) -> tuple[Topic | None, ...]:
    """Read the topics of the header block that names them; it may be an echoed reference
    parameter."""
    if layout.topic is None:
        return (None,)
    return read_topics(envelope.headers[layout.topic], arrival.topics.prefixes)


def _kept_headers(envelope: Envelope, layout: Layout) -> tuple[bytes, ...]:
    """The application's own header blocks, without SOAP's attributes; they travel with the event.

    Raises:
        MediationError: ``MESSAGE_INVALID`` where they exceed `MAX_HEADER_OCTETS`.
    """
    if layout.namespaces <= _PROTOCOLS:
        return ()
    kept = []
    for block in envelope.headers:
        if namespace_of(block) in _PROTOCOLS or not _MARKS.isdisjoint(block.keys()):
            continue
        for attribute in TRANSIENT_ATTRIBUTES.intersection(block.keys()):
            del block.attrib[attribute]
        kept.append(payload_of(block))
    _check_headers(kept)
    return tuple(kept)


def _check_headers(blocks: Collection[bytes]) -> None:
    if sum(map(len, blocks)) > MAX_HEADER_OCTETS:
        raise MediationError(
            Reason.MESSAGE_INVALID, "The event's own header blocks exceed 6 KiB together."
        )


def _read_named(
    envelope: Envelope, layout: Layout, element: etree._Element, to: str | None
) -> Named:
    """Find each name of a subscription in a request (WS-BaseNotification clients name it in six
    ways)."""
    identifiers = _identifiers(envelope, layout)
    if _NAMING.isdisjoint([str(child.tag).rpartition("}")[2] for child in element]):
        return Named(identifiers, to)
    identifiers = identifiers or tuple(_child_identifiers(element))
    in_body = _body_reference(element) or box_named_in(element)
    return Named(identifiers, to, in_body)


def _identifiers(envelope: Envelope, layout: Layout) -> tuple[str, ...]:
    if not layout.identifiers:
        return ()
    return tuple([text_of(envelope.headers[place]) for place in layout.identifiers])


def _child_identifiers(element: etree._Element) -> Iterable[str]:
    for child in elements(element):
        if child.tag in _IDENTIFYING:
            yield text_of(child)


def _body_reference(element: etree._Element) -> str | None:
    """``SubscriptionReference/Address`` in the body, whatever the address's namespace."""
    for child in elements(element):
        if local_name(child) == "SubscriptionReference":
            for inner in child.iter(etree.Element):
                if local_name(inner) == "Address":
                    return text_of(inner)
    return None
