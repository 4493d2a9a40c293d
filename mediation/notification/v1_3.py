"""WS-BaseNotification 1.3 over WSRF 1.2, with ONVIF's event service as a profile: `SPECIFICATION`.

Its own requests are `BaseRequests`; those of WSRF and of ONVIF are codecs of their own, which
another version of WS-Notification may combine in other ways.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from lxml import etree

from filters import (
    EVERYTHING,
    Filter,
    Reason,
    Topic,
    dialects,
)
from mediation import names, profiles
from mediation.filtering import (
    CHANGED_ONLY,
    read_wsn_filter,
    write_expression,
    write_topic_expression,
)
from mediation.mailboxes.kept import notification_messages, read_most
from mediation.model.delivery_modes import PUSH, DeliveryMode
from mediation.model.errors import MediationError
from mediation.model.expiry import format_seconds
from mediation.model.facts import BARE, TOPICS, WRAPPED
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
from mediation.model.specification import (
    Answer,
    Code,
    CombinedRequests,
    Detail,
    EnvelopeParts,
    Fault,
    Faults,
    LeaseRules,
    Offer,
    RequestParts,
    Service,
    Specification,
    SubscribeOptions,
    UnwrappedEvent,
    Wrapping,
    refuse_actions,
    refuse_operation,
)
from mediation.model.versions import Family, Soap, Version, Wsa
from mediation.notification import onvif
from mediation.notification.brokered import (
    BROKER_ACTIONS,
    BROKERED_1_3,
    BrokeredRequests,
    brokered_faults,
    brokered_offers,
)
from mediation.notification.notify import read_notify, unwrapped_events, written_notify
from mediation.notification.properties import Properties13
from mediation.notification.subscribing import child_of, read_policy, read_time
from mediation.notification.topics import read_one_topic, topic_element
from mediation.reliable_messaging import Rm, write_wanted_rm
from mediation.resources.base_faults import base_fault
from mediation.resources.wsrf import (
    WSRF_1_2,
    ResourceClient,
    ResourceRequests,
    resource_faults,
    resource_offers,
)
from mediation.soap.addressing import key_parameter, read_epr, write_epr
from mediation.soap.envelopes import (
    xml_text,
)

NAMESPACE = names.WSN_1_3
NOTIFY_ACTION = names.WSN_1_3_ACTIONS + "NotificationConsumer/Notify"

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


def _action(port_type: str, operation: Operation, message: str = "Request") -> str:
    return f"{names.WSN_1_3_ACTIONS}{port_type}/{operation.value}{message}"


class BaseRequests:
    """The requests of WS-BaseNotification, and their answers."""

    namespaces = profiles.WSN_1_3_SPELLINGS
    elements: Mapping[str, Operation] = {
        f"{{{namespace}}}{operation.value}": operation
        for namespace in profiles.WSN_1_3_SPELLINGS
        for operation in (*_PORT_TYPES, Operation.PUBLISH)
    }
    # A pausable manager has the operations of a plain one, with actions of its own.
    actions: Mapping[str, Operation] = {
        _action(f"{prefix}{port_type}", operation): operation
        for operation, port_type in _PORT_TYPES.items()
        for prefix in ("", "Pausable")
    }

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
            case _:  # pragma: no cover - `elements` names no other
                raise AssertionError(operation)

    def write(self, response: Response, context: Context) -> Answer:
        operation = context.operation or Operation.UNSUBSCRIBE
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
    if request == f"{BROKER_ACTIONS}{operation.value}Request":
        return f"{BROKER_ACTIONS}{operation.value}Response"
    if port_type == "SubscriptionManager" and request == _action(f"Pausable{port_type}", operation):
        port_type = f"Pausable{port_type}"
    return _action(port_type, operation, "Response")


def _read_subscribe(element: etree._Element) -> Subscribe:
    reference = child_of(element, "ConsumerReference")
    if reference is None:
        raise MediationError(Reason.MESSAGE_INVALID, "Subscribe has no ConsumerReference.")
    filter_element = child_of(element, "Filter")
    filter_ = EVERYTHING if filter_element is None else read_wsn_filter(filter_element)
    raw, changed_only, rm = read_policy(child_of(element, "SubscriptionPolicy"))
    if changed_only:
        filter_ = Filter(filter_.topics, (*filter_.contents, CHANGED_ONLY))
    return Subscribe(
        read_epr(reference, forged="refuse"),
        filter_,
        read_time(child_of(element, "InitialTerminationTime")),
        raw=raw,
        dialect=filter_.topics[0].dialect if filter_.topics else None,
        delivery=PUSH if rm is None else DeliveryMode(reliable=rm.number),
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


class Notifications13:
    """Notify (section 3.2), or raw messages for a subscriber that asked for them."""

    actions = frozenset(
        {
            NOTIFY_ACTION,
            names.WSN_1_3_ACTIONS + "PullPoint/Notify",
            BROKER_ACTIONS + "Notify",
        }
    )

    def wrapping(self, soap: Soap, *, raw: bool, dialect: str | None) -> Wrapping:
        return _RAW if raw else _NOTIFY


def _raw(topic: Topic, producer: EndpointReference, dialect: str | None, wsa: Wsa) -> EnvelopeParts:
    return EnvelopeParts()


def _notify(
    topic: Topic, producer: EndpointReference, dialect: str | None, wsa: Wsa
) -> EnvelopeParts:
    reference = write_epr(producer, wsa)
    return EnvelopeParts(
        "",
        f'<wsnt:Notify xmlns:wsnt="{NAMESPACE}"><wsnt:NotificationMessage>',
        f"{topic_element('wsnt:Topic', topic, dialect)}"
        f"<wsnt:ProducerReference>{reference}</wsnt:ProducerReference><wsnt:Message>",
        "</wsnt:Message></wsnt:NotificationMessage></wsnt:Notify>",
    )


def _write_reference(manager: str, wsa: Wsa) -> str:
    epr = write_epr(EndpointReference(manager, wsa))
    return f"<wsnt:SubscriptionReference>{epr}</wsnt:SubscriptionReference>"


_RAW = Wrapping(_raw, default_action=NOTIFY_ACTION, tells=BARE - TOPICS)
_NOTIFY = Wrapping(
    _notify, _write_reference, action=NOTIFY_ACTION, names_producer=True, tells=WRAPPED
)


class Client13:
    """Requests as a client writes them, and Notify as a consumer reads it."""

    soap: Final = Soap.V1_2
    wsa: Final = Wsa.V2005_08
    notify: Final = frozenset(f"{{{namespace}}}Notify" for namespace in profiles.WSN_1_3_SPELLINGS)
    _resources = ResourceClient(WSRF_1_2)

    def subscribe(self, wanted: SubscribeOptions) -> RequestParts:
        refuse_actions(wanted)
        consumer = write_epr(wanted.consumer)
        inner = f"<wsnt:ConsumerReference>{consumer}</wsnt:ConsumerReference>"
        filters = ""
        if wanted.topic:
            filters += write_topic_expression(
                NAMESPACE,
                "wsnt:TopicExpression",
                wanted.topic,
                wanted.namespaces,
                dialect=wanted.topic_dialect,
            )
        if wanted.xpath:
            filters += write_expression(
                NAMESPACE,
                "wsnt:MessageContent",
                wanted.xpath,
                dialects.XPATH_1_0,
                wanted.namespaces,
            )
        if filters:
            inner += f"<wsnt:Filter>{filters}</wsnt:Filter>"
        if wanted.expires:
            name = "wsnt:InitialTerminationTime"
            inner += f"<{name}>{xml_text(wanted.expires)}</{name}>"
        policies = "<wsnt:UseRaw/>" if wanted.raw else ""
        policies += write_wanted_rm(Rm.of(wanted.reliable)) if wanted.reliable else ""
        if policies:
            inner += f"<wsnt:SubscriptionPolicy>{policies}</wsnt:SubscriptionPolicy>"
        return _request(Operation.SUBSCRIBE, inner)

    def manage(self, operation: Operation, expires: str | None = None) -> RequestParts:
        match operation:
            case Operation.RENEW if expires:
                inner = f"<wsnt:TerminationTime>{xml_text(expires)}</wsnt:TerminationTime>"
                return _request(operation, inner)
            case Operation.RENEW:
                nil = f'<wsnt:TerminationTime xmlns:xsi="{names.XSI}" xsi:nil="true"/>'
                return _request(operation, nil)
            case Operation.UNSUBSCRIBE | Operation.PAUSE | Operation.RESUME:
                return _request(operation, "")
            case Operation.GET_STATUS:
                return self._resources.get_termination_time()
            case Operation.SET_TERMINATION_TIME:
                return self._resources.set_termination_time(expires)
            case Operation.DESTROY:
                return self._resources.destroy()
            case _:
                refuse_operation(operation)

    def get_property(self, name: str) -> RequestParts:
        return self._resources.get_property(name)

    def get_current_message(self, topic: str) -> RequestParts:
        element = write_topic_expression(NAMESPACE, "wsnt:Topic", topic)
        return _request(Operation.GET_CURRENT_MESSAGE, element)

    def publish(
        self,
        payload: str,
        topic: str | None,
        action: str | None,
        producer: EndpointReference | None,
    ) -> RequestParts:
        """A wrapped Notify."""
        named = write_topic_expression(NAMESPACE, "wsnt:Topic", topic) if topic else ""
        body = written_notify(f' xmlns:wsnt="{NAMESPACE}"', named, payload, producer)
        return RequestParts(NOTIFY_ACTION, body)

    def unwrap(self, notify: etree._Element, *, in_ours: bool) -> Iterable[UnwrappedEvent]:
        return unwrapped_events(notify, in_ours=in_ours)


def _request(operation: Operation, inner: str) -> RequestParts:
    name = f"wsnt:{operation.value}"
    body = f'<{name} xmlns:wsnt="{NAMESPACE}">{inner}</{name}>'
    return RequestParts(_action(_PORT_TYPES[operation], operation), body)


def _fault(
    name: str,
    detail: Detail = Detail.NONE,
    inner: str = "",
    *,
    code: Code = Code.SENDER,
    otherwise: str = "",
) -> Fault:
    return base_fault(
        NAMESPACE,
        name,
        action=names.WSN_1_3_FAULT_ACTION,
        code=code,
        detail=detail,
        inner=inner,
        otherwise=otherwise,
    )


_INITIAL_TIME = _fault("UnacceptableInitialTerminationTimeFault", Detail.TIMES)
_TIME = _fault("UnacceptableTerminationTimeFault", Detail.TIMES)
_CREATION_FAILED = _fault("SubscribeCreationFailedFault")
_BAD_CONTENT = _fault("InvalidMessageContentExpressionFault")
_BAD_TOPIC = _fault("InvalidTopicExpressionFault")
_PULLING = Operation.CREATE_PULL_POINT_SUBSCRIPTION

FAULTS: Faults = {
    **resource_faults(WSRF_1_2),
    # Sections 3 to 6.
    (Reason.MESSAGE_INVALID, Operation.SUBSCRIBE): _CREATION_FAILED,
    (Reason.EPR_INVALID, Operation.SUBSCRIBE): _CREATION_FAILED,
    (Reason.CONSUMER_ADDRESS, Operation.SUBSCRIBE): _CREATION_FAILED,
    (Reason.QUOTA, Operation.SUBSCRIBE): _CREATION_FAILED,
    (Reason.NOT_ALLOWED, Operation.SUBSCRIBE): _CREATION_FAILED,
    (Reason.EXPIRY_INVALID, Operation.SUBSCRIBE): _INITIAL_TIME,
    (Reason.EXPIRY_IN_THE_PAST, Operation.SUBSCRIBE): _INITIAL_TIME,
    (Reason.EXPIRY_TOO_LONG, Operation.SUBSCRIBE): _INITIAL_TIME,
    (Reason.EXPIRY_INVALID, Operation.RENEW): _TIME,
    (Reason.EXPIRY_IN_THE_PAST, Operation.RENEW): _TIME,
    (Reason.EXPIRY_TOO_LONG, Operation.RENEW): _TIME,
    (Reason.FILTER_UNKNOWN, None): _fault(
        "InvalidFilterFault",
        Detail.QNAMES,
        "UnknownFilter",
        otherwise=f"{{{NAMESPACE}}}Filter",
    ),
    (Reason.FILTER_DIALECT, None): _BAD_CONTENT,
    (Reason.FILTER_INVALID, None): _BAD_CONTENT,
    (Reason.FILTER_COSTLY, None): _BAD_CONTENT,
    (Reason.PRODUCER_PROPERTIES, None): _fault("InvalidProducerPropertiesExpressionFault"),
    (Reason.TOPIC_DIALECT, None): _fault("TopicExpressionDialectUnknownFault"),
    (Reason.TOPIC_INVALID, None): _BAD_TOPIC,
    (Reason.TOPIC_UNSUPPORTED, None): _fault("TopicNotSupportedFault"),
    (Reason.TOPIC_UNREGISTERED, None): _fault("TopicNotSupportedFault"),
    (Reason.TOPICS_SEVERAL, None): _fault("MultipleTopicsSpecifiedFault"),
    (Reason.NO_CURRENT_MESSAGE, None): _fault("NoCurrentMessageOnTopicFault"),
    (Reason.POLICY_UNRECOGNIZED, None): _fault(
        "UnrecognizedPolicyRequestFault", Detail.QNAMES, "UnrecognizedPolicy"
    ),
    (Reason.POLICY_UNSUPPORTED, None): _fault(
        "UnsupportedPolicyRequestFault", Detail.QNAMES, "UnsupportedPolicy"
    ),
    # Pull points: section 5; ONVIF Core, "Event handling".
    (Reason.MESSAGE_INVALID, _PULLING): _CREATION_FAILED,
    (Reason.QUOTA, _PULLING): _CREATION_FAILED,
    (Reason.EXPIRY_INVALID, _PULLING): _INITIAL_TIME,
    (Reason.EXPIRY_IN_THE_PAST, _PULLING): _INITIAL_TIME,
    (Reason.EXPIRY_TOO_LONG, _PULLING): _INITIAL_TIME,
    (Reason.QUOTA, Operation.CREATE_PULL_POINT): _fault("UnableToCreatePullPointFault"),
    (Reason.MAILBOX_BUSY, None): _fault("UnableToGetMessagesFault", code=Code.RECEIVER),
    **onvif.FAULTS,
    **brokered_faults(_INITIAL_TIME, _BAD_TOPIC),
}


def _named(*faults: str, unknown: bool = False) -> tuple[str, ...]:
    own = tuple(f"{{{NAMESPACE}}}{fault}" for fault in faults)
    return (f"{{{names.WSRF_R}}}ResourceUnknownFault", *own) if unknown else own


_FILTERING = _named(
    "InvalidFilterFault",
    "TopicExpressionDialectUnknownFault",
    "InvalidTopicExpressionFault",
    "TopicNotSupportedFault",
    "InvalidProducerPropertiesExpressionFault",
    "InvalidMessageContentExpressionFault",
    "UnacceptableInitialTerminationTimeFault",
    "UnrecognizedPolicyRequestFault",
    "UnsupportedPolicyRequestFault",
    "SubscribeCreationFailedFault",
)
_DECLARED = {
    Operation.SUBSCRIBE: _FILTERING,
    Operation.GET_CURRENT_MESSAGE: _named(
        "TopicExpressionDialectUnknownFault",
        "InvalidTopicExpressionFault",
        "TopicNotSupportedFault",
        "NoCurrentMessageOnTopicFault",
        "MultipleTopicsSpecifiedFault",
    ),
    Operation.RENEW: _named("UnacceptableTerminationTimeFault", unknown=True),
    Operation.UNSUBSCRIBE: _named("UnableToDestroySubscriptionFault", unknown=True),
    Operation.PAUSE: _named("PauseFailedFault", unknown=True),
    Operation.RESUME: _named("ResumeFailedFault", unknown=True),
    Operation.CREATE_PULL_POINT: _named("UnableToCreatePullPointFault"),
    Operation.GET_MESSAGES: _named("UnableToGetMessagesFault", unknown=True),
    Operation.DESTROY_PULL_POINT: _named("UnableToDestroyPullPointFault", unknown=True),
    Operation.CREATE_PULL_POINT_SUBSCRIPTION: _FILTERING,
    Operation.PULL_MESSAGES: _named("UnableToGetMessagesFault", unknown=True),
    Operation.SET_SYNCHRONIZATION_POINT: _named(unknown=True),
}
"""The faults of operations as bw-2 and event.wsdl declare them."""
_FAULT_ACTIONS = {
    NAMESPACE: names.WSN_1_3_FAULT_ACTION,
    names.WSN_BR_1_3: names.WSN_1_3_FAULT_ACTION,
    names.WSRF_R: names.WSRF_FAULT_ACTION,
    names.WSRF_RP: names.WSRF_FAULT_ACTION,
    names.WSRF_RL: names.WSRF_FAULT_ACTION,
}


def _offers(port_type: str, *operations: Operation) -> tuple[Offer, ...]:
    return tuple(
        Offer(
            port_type,
            operation,
            NAMESPACE,
            _action(port_type, operation),
            _action(port_type, operation, "Response"),
            faults=_DECLARED.get(operation, ()),
        )
        for operation in operations
    )


_PRODUCER = _offers("NotificationProducer", Operation.SUBSCRIBE, Operation.GET_CURRENT_MESSAGE)
_MANAGER = _offers(
    "PausableSubscriptionManager",
    Operation.RENEW,
    Operation.UNSUBSCRIBE,
    Operation.PAUSE,
    Operation.RESUME,
)
_CONSUMER = Offer("NotificationConsumer", Operation.PUBLISH, NAMESPACE, NOTIFY_ACTION)
_BROKER = brokered_offers(
    (_CONSUMER, *_PRODUCER),
    _named(
        "InvalidTopicExpressionFault",
        "TopicNotSupportedFault",
        "UnacceptableInitialTerminationTimeFault",
    ),
)
_BROKER_ACTIONS = {
    offer.action: offer.operation
    for offer in _BROKER
    if offer.operation in (Operation.SUBSCRIBE, Operation.GET_CURRENT_MESSAGE)
}
_SCHEMAS = ("addressing-2005-08", "bf-2", "r-2", "t-1", "b-2")

SPECIFICATION = Specification(
    Version.WSN_1_3,
    Family.WSN,
    "WS-BaseNotification 1.3 and ONVIF's event service",
    requests=CombinedRequests(
        BaseRequests(),
        BrokeredRequests(BROKERED_1_3, also=_BROKER_ACTIONS),
        ResourceRequests(WSRF_1_2),
        onvif.EventRequests(),
    ),
    faults=FAULTS,
    notifications=Notifications13(),
    client=Client13(),
    sequences=True,
    termination=names.WSRF_RL,
    properties=Properties13(),
    leases=LeaseRules(grace=True),
    services=(
        Service(
            "wsn",
            "WSNotification",
            (*_SCHEMAS, "rp-2", "rl-2"),
            (
                _CONSUMER,
                *_PRODUCER,
                *_MANAGER,
                *_offers("CreatePullPoint", Operation.CREATE_PULL_POINT),
                *_offers("PullPoint", Operation.GET_MESSAGES, Operation.DESTROY_PULL_POINT),
                *resource_offers(WSRF_1_2),
            ),
            _FAULT_ACTIONS,
        ),
        Service(
            "wsnbr",
            "WSNotificationBroker",
            (*_SCHEMAS, "br-2", "rp-2", "rl-2"),
            (*_BROKER, *resource_offers(WSRF_1_2)),
            _FAULT_ACTIONS,
        ),
        Service(
            "onvif",
            "ONVIFEvents",
            (*_SCHEMAS, "onvif-events"),
            (*onvif.offers(_DECLARED), *_PRODUCER, *_MANAGER),
            _FAULT_ACTIONS,
        ),
    ),
)
