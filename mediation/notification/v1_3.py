"""WS-BaseNotification 1.3, with the WS-ResourceProperties and WS-ResourceLifetime operations of
its subscriptions, and ONVIF's event service: requests and answers."""

from collections.abc import Sequence
from dataclasses import replace

from lxml import etree

from filters import (
    EVERYTHING,
    Expression,
    Filter,
    FilterError,
    Reason,
    Topic,
    dialects,
    parse_expression,
    parse_topics,
)
from mediation import names
from mediation.codec import Answer, Arrival
from mediation.filtering import CHANGED_ONLY, WSN_NAMESPACES, dialect_of, read_wsn_filter
from mediation.mailboxes.kept import notification_messages, read_most
from mediation.model.errors import MediationError
from mediation.model.expiry import format_seconds
from mediation.model.messages import NO_PROPERTIES, EndpointReference, Notification, Subscription
from mediation.model.versions import Soap, Version, Wsa
from mediation.notification import onvif
from mediation.notification.subscribing import child_of, read_policy, read_time
from mediation.requests import (
    Context,
    CreateMailbox,
    CurrentMessage,
    DestroyMailbox,
    GetCurrentMessage,
    GetStatus,
    MailboxMade,
    Operation,
    Pause,
    Publish,
    Renew,
    Request,
    Response,
    Resume,
    Subscribe,
    Subscribed,
    Take,
    Taken,
    Unsubscribe,
)
from mediation.resources import wsrf
from mediation.soap.addressing import id_to_keep, key_parameter, read_epr, write_epr
from mediation.soap.envelopes import (
    elements,
    namespace_of,
    namespaces_of,
    octets_of,
    text_of,
    whole_text,
    xml_text,
)
from mediation.soap.payloads import payload_of

NAMESPACE = names.WSN_1_3
TRANSIENT_ATTRIBUTES = frozenset(
    f"{{{soap.value}}}{name}"
    for soap in Soap
    for name in ("mustUnderstand", "actor", "role", "relay")
) | {f"{{{wsa.value}}}IsReferenceParameter" for wsa in Wsa}
"""Attributes of header blocks that are meant for one message, from hop to hop."""
MAX_MESSAGES = 256
"""Notifications in one message."""

_PORT_TYPES = {
    Operation.SUBSCRIBE: "NotificationProducer",
    Operation.GET_CURRENT_MESSAGE: "NotificationProducer",
    Operation.RENEW: "SubscriptionManager",
    Operation.UNSUBSCRIBE: "SubscriptionManager",
    Operation.GET_STATUS: "SubscriptionManager",
    Operation.PAUSE: "PausableSubscriptionManager",
    Operation.RESUME: "PausableSubscriptionManager",
    Operation.CREATE_PULL_POINT: "CreatePullPoint",
    Operation.GET_MESSAGES: "PullPoint",
    Operation.DESTROY_PULL_POINT: "PullPoint",
}
_OPERATIONS = {
    f"{{{namespace}}}{operation.value}": operation
    for namespace in WSN_NAMESPACES
    for operation in (*_PORT_TYPES, Operation.PUBLISH)
}
_NOTIFYING = WSN_NAMESPACES | {names.WSN_IBM}
_MESSAGES = frozenset(f"{{{namespace}}}NotificationMessage" for namespace in _NOTIFYING)
_PARTS = {
    f"{{{namespace}}}{name}": name
    for namespace in _NOTIFYING
    for name in ("Topic", "ProducerReference", "Message")
}
"""Of a NotificationMessage, by their expanded names."""
NOTIFY_ACTION = names.WSN_1_3_ACTIONS + "NotificationConsumer/Notify"
NOTIFY_ACTIONS = frozenset(
    {
        NOTIFY_ACTION,
        names.WSN_1_3_ACTIONS + "PullPoint/Notify",
        "http://docs.oasis-open.org/wsn/brw-2/NotificationBroker/Notify",
    }
)


class WsNotification13:
    """The codec of `Version.WSN_1_3`."""

    version = Version.WSN_1_3
    namespaces = WSN_NAMESPACES | wsrf.NAMESPACES | onvif.NAMESPACES

    def operation(self, name: str) -> Operation | None:
        return _OPERATIONS.get(name) or wsrf.OPERATIONS.get(name) or onvif.OPERATIONS.get(name)

    def action(self, action: str) -> Operation | None:
        for operation, port_type in _PORT_TYPES.items():
            if action in (
                f"{names.WSN_1_3_ACTIONS}{port_type}/{operation.value}Request",
                f"{names.WSN_1_3_ACTIONS}Pausable{port_type}/{operation.value}Request",
            ):
                return operation
        return wsrf.ACTIONS.get(action) or onvif.ACTIONS.get(action)

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        match operation:
            case Operation.PUBLISH:
                return Publish(read_notify(element, context, arrival))
            case Operation.SUBSCRIBE:
                return _read_subscribe(element)
            case Operation.RENEW:
                return Renew(read_time(child_of(element, "TerminationTime")))
            case Operation.UNSUBSCRIBE:
                return Unsubscribe()
            case Operation.PAUSE:
                return Pause()
            case Operation.RESUME:
                return Resume()
            case Operation.GET_STATUS:
                return GetStatus()
            case Operation.GET_CURRENT_MESSAGE:
                return GetCurrentMessage(_read_one_topic(element))
            case Operation.CREATE_PULL_POINT:
                return CreateMailbox()
            case Operation.GET_MESSAGES:
                return Take(read_most(child_of(element, "MaximumNumber")))
            case Operation.DESTROY_PULL_POINT:
                return DestroyMailbox()
            case _ if operation in onvif.ACTION_OF:
                return onvif.read(operation, element)
            case _:
                return wsrf.read(operation, element)

    def write(self, response: Response, context: Context) -> Answer:
        operation = context.operation or Operation.UNSUBSCRIBE
        if operation in wsrf.ACTION_OF:
            return wsrf.write(response, operation)
        if operation in onvif.ACTION_OF:
            return onvif.write(response, operation)
        name = f"wsnt:{operation.value}Response"
        match response:
            case Subscribed():
                inner = _write_times(response, operation)
            case CurrentMessage(notification):
                inner = notification.payload.decode()
            case MailboxMade():
                inner = _write_pull_point(response, context.wsa or Wsa.V2005_08)
            case Taken(envelopes):
                inner = b"".join(
                    message for kept in envelopes for message in notification_messages(kept)
                ).decode()
            case _:
                inner = ""
        body = f'<{name} xmlns:wsnt="{NAMESPACE}">{inner}</{name}>'
        return Answer(_response_action(operation, context.headers.action), body)


def _response_action(operation: Operation, request: str | None) -> str:
    """The response action of the request's own port type, where that is one of the table's."""
    port_type = _PORT_TYPES[operation]
    pausable = f"{names.WSN_1_3_ACTIONS}Pausable{port_type}/{operation.value}Request"
    if request == pausable and port_type == "SubscriptionManager":
        port_type = "Pausable" + port_type
    return f"{names.WSN_1_3_ACTIONS}{port_type}/{operation.value}Response"


def _read_subscribe(element: etree._Element) -> Subscribe:
    reference = child_of(element, "ConsumerReference")
    if reference is None:
        raise MediationError(Reason.MESSAGE_INVALID, "Subscribe has no ConsumerReference.")
    filter_element = child_of(element, "Filter")
    filter_ = EVERYTHING if filter_element is None else read_wsn_filter(filter_element)
    raw, changed_only = read_policy(child_of(element, "SubscriptionPolicy"))
    if changed_only:
        filter_ = Filter(filter_.topics, (*filter_.contents, CHANGED_ONLY))
    return Subscribe(
        read_epr(reference, forged="refuse"),
        filter_,
        read_time(child_of(element, "InitialTerminationTime")),
        raw=raw,
        dialect=filter_.topics[0].dialect if filter_.topics else None,
    )


def _read_one_topic(element: etree._Element) -> Topic:
    topic = child_of(element, "Topic")
    if topic is None:
        raise MediationError(Reason.MESSAGE_INVALID, "GetCurrentMessage has no Topic.")
    text, dialect = text_of(topic), dialect_of(topic) or dialects.TOPIC_SIMPLE
    scope = namespaces_of(topic)
    parse_expression(Expression(text, dialect, scope))
    several = "*" in text or "//" in text
    topics = () if several else parse_topics(text, dialect, scope)
    if len(topics) != 1:
        raise MediationError(Reason.TOPICS_SEVERAL, "The expression names more than one topic.")
    return topics[0]


def read_topics(element: etree._Element | None) -> tuple[Topic | None, ...]:
    """The topics of a notification's ``Topic`` element or header; none, as (None,).

    Bad senders write ``|`` unions: an event on each alternative. A dialect that nobody
    knows is no reason to lose an event: its text is read as a concrete path.
    """
    if element is None or not (text := text_of(element)):
        return (None,)
    dialect = dialect_of(element) or dialects.TOPIC_SIMPLE
    # Only a prefix asks for what is in scope.
    scope = namespaces_of(element) if ":" in text else ()
    try:
        return parse_topics(text, dialect, scope) or (None,)
    except FilterError as error:
        if error.reason is not Reason.TOPIC_DIALECT:
            raise
        return parse_topics(text, dialects.TOPIC_CONCRETE, scope) or (None,)


def read_notify(
    element: etree._Element, context: Context, arrival: Arrival
) -> tuple[Notification, ...]:
    """The events of a Notify of WS-BaseNotification 1.3, or of WS-Messenger's 1.0.

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
    """A topic's element as a publisher of WS-Messenger wrote it, for its consumers, if it is one
    and names one topic; without the attributes of SOAP and WS-Addressing."""
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
    """*notifications*, each with its own of the topics' elements *written*."""
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
    """Notifications whose ids are the message's, with ``#n`` where it holds several."""
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
    """The one element of ``Message``, as `payload_of`; text, several or no elements are wrapped in
    one."""
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
    """A producer reference decides nothing, so a broken one is left out."""
    if element is None:
        return None
    try:
        return read_epr(element, forged="drop")
    except MediationError:
        return None


def _write_times(response: Subscribed, operation: Operation) -> str:
    current = f"<wsnt:CurrentTime>{format_seconds(response.now)}</wsnt:CurrentTime>"
    termination = _write_termination(response.subscription)
    if operation is Operation.SUBSCRIBE:
        epr = EndpointReference(response.subscription.manager, response.subscription.consumer.wsa)
        reference = f"<wsnt:SubscriptionReference>{write_epr(epr)}</wsnt:SubscriptionReference>"
        return reference + current + termination
    return termination + current  # Renew has the two in the opposite order.


def _write_pull_point(response: MailboxMade, wsa: Wsa) -> str:
    parameter = key_parameter(response.key, wsa)
    epr = EndpointReference(response.address, wsa, parameters=(parameter,))
    return f"<wsnt:PullPoint>{write_epr(epr)}</wsnt:PullPoint>"


def _write_termination(subscription: Subscription) -> str:
    expires = subscription.lease.expires
    if expires is None:
        return f'<wsnt:TerminationTime xmlns:xsi="{names.XSI}" xsi:nil="true"/>'
    return f"<wsnt:TerminationTime>{format_seconds(expires)}</wsnt:TerminationTime>"
