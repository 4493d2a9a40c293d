"""The event service of ONVIF (Core Specification, "Event handling"; event.wsdl): pull points whose
subscription is made with them, and what the service can do."""

from collections.abc import Mapping
from datetime import datetime

from lxml import etree

from filters import EVERYTHING, Filter, Reason, dialects
from mediation import names, profiles
from mediation.filtering import CHANGED_ONLY, dialect_of, read_wsn_filter
from mediation.mailboxes.kept import kept_signatures, notification_messages, read_most
from mediation.model.errors import MediationError
from mediation.model.expiry import format_seconds, parse_duration
from mediation.model.requests import (
    Arrival,
    Context,
    DescribeEvents,
    Events,
    Operation,
    Request,
    Response,
    Subscribed,
    SubscribePulling,
    Synchronize,
    Take,
    Taken,
)
from mediation.model.specification import Answer, Code, Fault, Faults, Offer
from mediation.model.versions import Wsa
from mediation.notification.properties import producer_properties
from mediation.notification.subscribing import USE_RAW, child_of, read_policy, read_time
from mediation.order_keys import ORDER_KEY
from mediation.reliable_messaging import ASSURANCE, Rm
from mediation.soap.envelopes import elements, local_name, text_of, xml_text

TEV, WSNT = names.ONVIF_EVENTS, names.WSN_1_3
MAX_WAIT = 300.0
"""The most seconds that a pull waits. ONVIF wants 60 of every device; Reolink's clients ask for
300."""

_PORT_TYPES = {
    Operation.CREATE_PULL_POINT_SUBSCRIPTION: "EventPortType",
    Operation.GET_EVENT_PROPERTIES: "EventPortType",
    Operation.GET_SERVICE_CAPABILITIES: "EventPortType",
    Operation.PULL_MESSAGES: "PullPointSubscription",
    Operation.SEEK: "PullPointSubscription",
    Operation.SET_SYNCHRONIZATION_POINT: "PullPointSubscription",
}
_CHILDREN = profiles.WSN_1_3_SPELLINGS | {TEV}
_NEVER = "9999-12-31T23:59:59Z"
"""The time for "never": the element must have one, for it is not nillable."""
_TOPICS_AT = "http://www.onvif.org/onvif/ver10/topics/topicns.xml"
_SCHEMA_AT = "http://www.onvif.org/onvif/ver10/schema/onvif.xsd"


def _action(operation: Operation, message: str) -> str:
    return f"{TEV}/{_PORT_TYPES[operation]}/{operation.value}{message}"


class EventRequests:
    """The requests of the event service, and their answers."""

    namespaces = frozenset({TEV})
    elements: Mapping[str, Operation] = {
        **{f"{{{TEV}}}{operation.value}": operation for operation in _PORT_TYPES},
        # openHAB asks in this namespace.
        f"{{{names.WSN_1_3_SLASH}}}GetServiceCapabilities": Operation.GET_SERVICE_CAPABILITIES,
    }
    actions: Mapping[str, Operation] = {
        _action(operation, "Request"): operation for operation in _PORT_TYPES
    }

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        match operation:
            case Operation.CREATE_PULL_POINT_SUBSCRIPTION:
                return _read_subscribe(element)
            case Operation.PULL_MESSAGES:
                most = read_most(child_of(element, "MessageLimit", _CHILDREN))
                return Take(most, _read_wait(child_of(element, "Timeout", _CHILDREN)))
            case Operation.SET_SYNCHRONIZATION_POINT:
                return Synchronize()
            case Operation.SEEK:
                raise MediationError(
                    Reason.ACTION_UNSUPPORTED,
                    "Messages that were pulled are not kept: Seek cannot be.",
                )
            case _:
                return DescribeEvents()

    def write(self, response: Response, context: Context) -> Answer:
        """Write an answer. Clients search its text, so start tags that they look for have no
        attributes."""
        operation = context.operation or Operation.SET_SYNCHRONIZATION_POINT
        match response:
            case Subscribed():
                inner = _write_subscribed(response)
            case Taken():
                inner = _write_taken(response)
            case Events() if operation is Operation.GET_EVENT_PROPERTIES:
                inner = _write_properties(response)
            case Events():
                inner = write_event_capabilities(response)
            case _:
                inner = ""
        name = f"tev:{operation.value}Response"
        declared = f'xmlns:tev="{TEV}" xmlns:wsnt="{WSNT}" xmlns:wsa="{Wsa.V2005_08.value}"'
        headers = kept_signatures(response.envelopes) if isinstance(response, Taken) else ""
        body = f"<{name} {declared}>{inner}</{name}>"
        return Answer(_action(operation, "Response"), body, headers=headers)


def _read_subscribe(element: etree._Element) -> SubscribePulling:
    policy = read_policy(child_of(element, "SubscriptionPolicy", _CHILDREN))
    delivery = policy.delivery
    if policy.raw:  # PullMessagesResponse has a place for wrapped messages alone.
        raise MediationError(
            Reason.POLICY_UNSUPPORTED, "Messages are not pulled raw.", names=(USE_RAW,)
        )
    if delivery.at_most_once:
        raise MediationError(
            Reason.POLICY_UNSUPPORTED, "What is pulled is stored until then.", names=(ASSURANCE,)
        )
    if policy.order_key:
        raise MediationError(
            Reason.POLICY_UNSUPPORTED, "What is pulled is in order.", names=(ORDER_KEY,)
        )
    if delivery.reliable:
        assertion = f"{{{Rm.of(delivery.reliable).rules.policy}}}RMAssertion"
        raise MediationError(
            Reason.POLICY_UNSUPPORTED, "Messages are not pulled in sequences.", names=(assertion,)
        )
    inner = child_of(element, "Filter", _CHILDREN)
    filter_ = EVERYTHING if inner is None else read_wsn_filter(inner)
    if policy.changed_only:
        filter_ = Filter(filter_.topics, (*filter_.contents, CHANGED_ONLY))
    time = read_time(child_of(element, "InitialTerminationTime", _CHILDREN))
    return SubscribePulling(filter_, time, _topic_dialect(inner), since=policy.since)


def _topic_dialect(filter_: etree._Element | None) -> str:
    """The dialect in which topics are written: the one of the filter, else ONVIF's own, by which
    Reolink's clients recognise a notification."""
    for child in elements(filter_) if filter_ is not None else ():
        if local_name(child) == "TopicExpression" and (dialect := dialect_of(child)):
            return dialect
    return dialects.TOPIC_CONCRETE_SET


def _read_wait(element: etree._Element | None) -> float:
    """Read the seconds to wait for a message; without the element a pull does not wait."""
    text = text_of(element) if element is not None else ""
    if not text:
        return 0.0
    try:
        duration = parse_duration(text)
    except ValueError as error:
        raise MediationError(
            Reason.MESSAGE_INVALID, "The timeout is not a duration.", value=text[:100]
        ) from error
    return MAX_WAIT if duration.months else min(duration.seconds.total_seconds(), MAX_WAIT)


def _time(name: str, moment: datetime | None) -> str:
    return f"<{name}>{_NEVER if moment is None else format_seconds(moment)}</{name}>"


def _write_subscribed(response: Subscribed) -> str:
    address = f"<wsa:Address>{xml_text(response.subscription.manager)}</wsa:Address>"
    return (
        f"<tev:SubscriptionReference>{address}</tev:SubscriptionReference>"
        + _time("wsnt:CurrentTime", response.now)
        + _time("wsnt:TerminationTime", response.subscription.lease.expires)
    )


def _write_taken(response: Taken) -> str:
    messages = (message for kept in response.envelopes for message in notification_messages(kept))
    return (
        _time("tev:CurrentTime", response.now)
        + _time("tev:TerminationTime", response.expires)
        + b"".join(messages).decode()
    )


def _write_properties(response: Events) -> str:
    properties = producer_properties(response.topics, response.dialects, fixed=response.fixed)
    said = (
        properties[f"{{{WSNT}}}FixedTopicSet"],
        properties[f"{{{names.WSTOP_1_3}}}TopicSet"],
        properties[f"{{{WSNT}}}TopicExpressionDialect"],
    )
    return (
        f"<tev:TopicNamespaceLocation>{_TOPICS_AT}</tev:TopicNamespaceLocation>"
        + b"".join(said).decode()
        + "".join(
            f"<tev:MessageContentFilterDialect>{uri}</tev:MessageContentFilterDialect>"
            for uri in (dialects.ITEM_FILTER, dialects.XPATH_1_0)
        )
        + f"<tev:ProducerPropertiesFilterDialect>{dialects.XPATH_1_0}"
        "</tev:ProducerPropertiesFilterDialect>"
        + f"<tev:MessageContentSchemaLocation>{_SCHEMA_AT}</tev:MessageContentSchemaLocation>"
    )


def write_event_capabilities(response: Events) -> str:
    """The element ``Capabilities`` of the event service, on which its namespace is declared."""
    return (
        f'<tev:Capabilities xmlns:tev="{TEV}" WSSubscriptionPolicySupport="true"'
        ' WSPausableSubscriptionManagerInterfaceSupport="true"'
        f' MaxPullPoints="{response.most_mailboxes}" PersistentNotificationStorage="false"/>'
    )


FAULTS: Faults = {
    # An optional operation that is not offered (ONVIF Core, "Generic faults").
    (Reason.ACTION_UNSUPPORTED, Operation.SEEK): Fault(
        Code.RECEIVER,
        f"{{{names.ONVIF_ERRORS}}}ActionNotSupported",
        text="The action is not offered.",
        soap_action=True,
    )
}


def offers(faults: Mapping[Operation, tuple[str, ...]]) -> tuple[Offer, ...]:
    """The operations as event.wsdl declares them, with the *faults* of each."""
    return tuple(
        Offer(
            port_type,
            operation,
            TEV,
            _action(operation, "Request"),
            _action(operation, "Response"),
            faults=faults.get(operation, ()),
        )
        for operation, port_type in _PORT_TYPES.items()
    )
