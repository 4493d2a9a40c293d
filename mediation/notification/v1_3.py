"""WS-BaseNotification 1.3, with the WS-ResourceProperties and WS-ResourceLifetime operations of
its subscriptions, and ONVIF's event service: requests and answers."""

from lxml import etree

from filters import (
    EVERYTHING,
    Expression,
    Filter,
    Reason,
    Topic,
    dialects,
    parse_expression,
    parse_topics,
)
from mediation import names
from mediation.codec import Answer
from mediation.filtering import CHANGED_ONLY, dialect_of, read_wsn_filter
from mediation.mailboxes.kept import notification_messages, read_most
from mediation.model.errors import MediationError
from mediation.model.expiry import format_seconds
from mediation.model.messages import EndpointReference, Subscription
from mediation.model.requests import (
    Arrival,
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
from mediation.model.versions import Version, Wsa
from mediation.notification import onvif
from mediation.notification.notify import read_notify
from mediation.notification.subscribing import child_of, read_policy, read_time
from mediation.resources import wsrf
from mediation.soap.addressing import key_parameter, read_epr, write_epr
from mediation.soap.envelopes import (
    namespaces_of,
    text_of,
)

NAMESPACE = names.WSN_1_3
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
    for namespace in names.WSN_1_3_SPELLINGS
    for operation in (*_PORT_TYPES, Operation.PUBLISH)
}
NOTIFY_ACTION = names.WSN_1_3_ACTIONS + "NotificationConsumer/Notify"
NOTIFY_ACTIONS = frozenset(
    {
        NOTIFY_ACTION,
        names.WSN_1_3_ACTIONS + "PullPoint/Notify",
        names.WSN_BR_1_3_ACTIONS + "NotificationBroker/Notify",
    }
)


class WsNotification13:
    """The codec of `Version.WSN_1_3`."""

    version = Version.WSN_1_3
    namespaces = names.WSN_1_3_SPELLINGS | wsrf.NAMESPACES | onvif.NAMESPACES

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
