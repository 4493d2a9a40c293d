"""The requests of WS-BaseNotification 1.3, and their answers."""

from collections.abc import Mapping

from lxml import etree

from filters import EVERYTHING, Filter, Reason, Topic
from mediation import names, profiles
from mediation.filtering import CHANGED_ONLY, read_wsn_filter
from mediation.mailboxes.kept import kept_signatures, notification_messages, read_most
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
from mediation.model.specification import Answer
from mediation.model.versions import Wsa
from mediation.notification.brokered import BROKER_ACTIONS
from mediation.notification.reading_notify import read_notify
from mediation.notification.subscribing import child_of, read_policy, read_time
from mediation.notification.topics import read_one_topic
from mediation.notification.v1_3.actions import NAMESPACE, PORT_TYPES, action_of
from mediation.soap.addressing import key_parameter, read_epr, write_epr


class BaseRequests:
    """The requests of WS-BaseNotification, and their answers."""

    namespaces = profiles.WSN_1_3_SPELLINGS
    elements: Mapping[str, Operation] = {
        f"{{{namespace}}}{operation.value}": operation
        for namespace in profiles.WSN_1_3_SPELLINGS
        for operation in (*PORT_TYPES, Operation.PUBLISH)
    }
    # A pausable manager has the operations of a plain one, with actions of its own.
    actions: Mapping[str, Operation] = {
        action_of(f"{prefix}{port_type}", operation): operation
        for operation, port_type in PORT_TYPES.items()
        for prefix in ("", "Pausable")
    }

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        match operation:
            case Operation.PUBLISH:
                return read_notify(element, context, arrival)
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
            case _:  # pragma: no cover - `elements` names no other
                raise AssertionError(operation)

    def write(self, response: Response, context: Context) -> Answer:
        operation = context.operation or Operation.UNSUBSCRIBE
        name, headers = f"wsnt:{operation.value}Response", ""
        match response:
            case Subscribed():
                inner = _write_times(response, operation)
            case CurrentMessage(notification):
                inner = notification.payload.decode()
            case MailboxMade():
                inner = _write_pull_point(response, context.wsa or Wsa.V2005_08)
            case Taken(envelopes):
                headers = kept_signatures(envelopes)
                inner = b"".join(
                    message for kept in envelopes for message in notification_messages(kept)
                ).decode()
            case _:
                inner = ""
        body = f'<{name} xmlns:wsnt="{NAMESPACE}">{inner}</{name}>'
        action = _response_action(operation, context.headers.action)
        return Answer(action, body, headers=headers)


def _response_action(operation: Operation, request: str | None) -> str:
    """The response action of the request's own port type, where that is one of the table's."""
    port_type = PORT_TYPES[operation]
    if request == f"{BROKER_ACTIONS}{operation.value}Request":
        return f"{BROKER_ACTIONS}{operation.value}Response"
    if port_type == "SubscriptionManager" and request == action_of(
        f"Pausable{port_type}", operation
    ):
        port_type = f"Pausable{port_type}"
    return action_of(port_type, operation, "Response")


def _read_subscribe(element: etree._Element) -> Subscribe:
    reference = child_of(element, "ConsumerReference")
    if reference is None:
        raise MediationError(Reason.MESSAGE_INVALID, "Subscribe has no ConsumerReference.")
    filter_element = child_of(element, "Filter")
    filter_ = EVERYTHING if filter_element is None else read_wsn_filter(filter_element)
    policy = read_policy(child_of(element, "SubscriptionPolicy"))
    if policy.changed_only:
        filter_ = Filter(filter_.topics, (*filter_.contents, CHANGED_ONLY))
    return Subscribe(
        read_epr(reference, forged="refuse"),
        filter_,
        read_time(child_of(element, "InitialTerminationTime")),
        raw=policy.raw,
        dialect=filter_.topics[0].dialect if filter_.topics else None,
        delivery=policy.delivery,
        since=policy.since,
        order_key=policy.order_key,
    )


def _read_one_topic(element: etree._Element) -> Topic:
    topic = child_of(element, "Topic")
    if topic is None:
        raise MediationError(Reason.MESSAGE_INVALID, "GetCurrentMessage has no Topic.")
    return read_one_topic(topic)


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
