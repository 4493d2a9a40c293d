"""WS-Eventing of August 2004, `SPECIFICATION`; also WS-Messenger's subscribers, which speak it."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from lxml import etree

from filters import EVERYTHING, Filter, Reason, Topic, dialects, topic_dialects
from mediation import names
from mediation.eventing.common import (
    EventingClient,
    actions_of,
    at_topic,
    child,
    eventing_fault,
    eventing_offers,
    operations_of,
    read_delivery,
    read_managing,
    read_wanted_delivery,
    read_wanted_order_key,
    read_wanted_since,
    topic_header,
    write_subscription_end,
)
from mediation.eventing.management import (
    enumeration_context,
    read_delivery_mode,
    write_bookmarks,
    write_delivery_options,
)
from mediation.filtering import by_rules, read_wse_filter, reference_by_rules
from mediation.model.delivery_modes import Mode
from mediation.model.errors import MediationError
from mediation.model.expiry import (
    FOR_EVER,
    UNSPECIFIED,
    Expiry,
    format_duration,
    format_milliseconds,
    is_milliseconds,
    parse_expiry,
)
from mediation.model.facts import BARE, Fact
from mediation.model.messages import End, EndpointReference, Subscription
from mediation.model.requests import (
    Arrival,
    Context,
    Operation,
    Request,
    Response,
    Subscribe,
    Subscribed,
    SubscribePulling,
)
from mediation.model.specification import (
    Answer,
    Code,
    Detail,
    EnvelopeParts,
    Faults,
    LeaseRules,
    Service,
    Specification,
    SubscribeOptions,
    Wrapping,
)
from mediation.model.versions import Family, Soap, Version, Wsa
from mediation.notification.topics import messenger_topic_element
from mediation.profiles import is_messenger, spellings_of
from mediation.soap.addressing import key_parameter, write_epr
from mediation.soap.envelopes import (
    elements,
    local_name,
    namespace_of,
    text_of,
)

NAMESPACE = names.WSE_2004_08


class Requests200408:
    """The requests, and their answers."""

    namespaces = frozenset({NAMESPACE})
    elements: Mapping[str, Operation] = {
        **operations_of(NAMESPACE),
        f"{{{NAMESPACE}}}SubscriptionEnd": Operation.SUBSCRIPTION_END,
    }
    actions: Mapping[str, Operation] = {
        **actions_of(NAMESPACE),
        **dict.fromkeys(spellings_of(f"{NAMESPACE}/GetStatus"), Operation.GET_STATUS),
    }

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        match operation:
            case Operation.SUBSCRIBE:
                return _read_subscribe(element, context, arrival)
            case _:
                return read_managing(operation, element, NAMESPACE, _read_expires)

    def write(self, response: Response, context: Context) -> Answer:
        operation = context.operation or Operation.UNSUBSCRIBE
        action = f"{NAMESPACE}/{operation.value}Response"
        if not isinstance(response, Subscribed):
            return Answer(action, "")  # UnsubscribeResponse has an empty body.
        expires = _write_expires(response.subscription, response.now)
        manager = ""
        if operation is Operation.SUBSCRIBE:
            epr = manager_reference(response.subscription)
            manager = f"<wse:SubscriptionManager>{write_epr(epr)}</wse:SubscriptionManager>"
            delivery = response.subscription.policy.delivery
            if delivery.mode is Mode.PULL:
                # Who wants bookmarks wants to lose nothing: contexts follow each other.
                after = "" if delivery.bookmarks else None
                expires += enumeration_context(response.subscription.key, after)
        name = f"wse:{operation.value}Response"
        return Answer(action, f'<{name} xmlns:wse="{NAMESPACE}">{manager}{expires}</{name}>')


def manager_reference(subscription: Subscription) -> EndpointReference:
    """The manager's endpoint reference, in the version of the subscriber's own references.

    WS-Messenger's clients take nothing but ``wse:Identifier``, which they echo without a mark.
    """
    wsa = subscription.consumer.wsa
    named = is_messenger(subscription.policy.dialect)
    parameter = key_parameter(subscription.key, wsa, named=named)
    return EndpointReference(subscription.manager, wsa, parameters=(parameter,))


def _read_subscribe(
    element: etree._Element, context: Context, arrival: Arrival
) -> Subscribe | SubscribePulling:
    delivery = child(element, NAMESPACE, "Delivery")
    if delivery is None:
        text = "Subscribe has no Delivery."
        raise MediationError(Reason.MESSAGE_INVALID, text, missing="Delivery")
    rules = arrival.rules
    mode, bookmark = read_delivery_mode(element, delivery, rules.modes)
    mode = read_wanted_delivery(element, delivery, mode)
    since = read_wanted_since(element, delivery)
    order_key = read_wanted_order_key(element, delivery, mode)
    consumer = end_to = None
    wsa = Wsa.V2004_08
    if mode.mode is not Mode.PULL:
        consumer, end_to = read_delivery(delivery, child(element, NAMESPACE, "EndTo"), NAMESPACE)
        consumer = reference_by_rules(consumer, context.wsa, rules)
        wsa = consumer.wsa
    expires = child(element, NAMESPACE, "Expires")
    counted = (
        context.soap is Soap.V1_1 and expires is not None and is_milliseconds(text_of(expires))
    )
    rooted = counted or rules.event_is_root
    filter_ = _read_filter(element, context, context.wsa or wsa, rooted=rooted)
    filter_ = at_topic(by_rules(filter_, rules), arrival)
    dialect = filter_.topics[0].dialect if filter_.topics else None
    if counted:
        dialect = dialects.TOPIC_IBM_SIMPLE
    elif dialect is None:
        dialect = rules.topics
    asked = _read_expires(expires)
    if asked is UNSPECIFIED and is_messenger(dialect):
        asked = FOR_EVER
    if consumer is None:
        return SubscribePulling(filter_, asked, dialect, mode, since)
    return Subscribe(
        consumer,
        filter_,
        asked,
        end_to,
        raw=True,
        dialect=dialect,
        delivery=mode,
        bookmark=bookmark,
        since=since,
        order_key=order_key,
    )


def _read_filter(element: etree._Element, context: Context, wsa: Wsa, *, rooted: bool) -> Filter:
    """Read the filter; *rooted*: what XPath sees is the event, as WS-Messenger's clients and those
    of WS-Management expect."""
    found = [
        each
        for each in elements(element)
        if local_name(each) == "Filter" and namespace_of(each) in (NAMESPACE, names.WSMAN)
    ]
    if not found:
        return EVERYTHING
    if len(found) > 1:
        raise MediationError(Reason.MESSAGE_INVALID, "Subscribe has more than one Filter.")
    managed = namespace_of(found[0]) == names.WSMAN or names.WSMAN in context.header_namespaces
    return read_wse_filter(found[0], context.soap, wsa, payload=managed or rooted)


def _read_expires(element: etree._Element | None) -> Expiry:
    text = "" if element is None else text_of(element)
    return parse_expiry(text, milliseconds=True) if text else UNSPECIFIED


def _write_expires(subscription: Subscription, now: datetime) -> str:
    lease = subscription.lease
    if lease.expires is None:
        return ""  # Absent means that it never expires.
    if lease.as_duration:
        text = format_duration(lease.expires - now)
    else:
        text = format_milliseconds(lease.expires)
    return f"<wse:Expires>{text}</wse:Expires>"


class Notifications200408:
    """Bare events (section 3, Notification Messages), with the topic in a header block."""

    actions = frozenset[str]()

    def wrapping(self, soap: Soap, *, raw: bool, dialect: str | None) -> Wrapping:
        return _MESSENGER if is_messenger(dialect) else _BARE


def _messenger(
    topic: Topic, producer: EndpointReference, dialect: str | None, wsa: Wsa
) -> EnvelopeParts:
    """The header block in which consumers of WS-Messenger look for a topic."""
    declared = f' xmlns:wsnt="{names.WSN_IBM}"'
    return EnvelopeParts(messenger_topic_element("wsnt:Topic", topic, declared))


_BARE = Wrapping(topic_header, tells=BARE)
_MESSENGER = Wrapping(
    _messenger,
    default_action=f"{names.WSN_IBM}/Notify",
    keeps_topic_header=True,
    # Its clients read what follows the first colon: no namespace, no levels.
    tells=(BARE | {Fact.TOPIC_ELEMENT}) - {Fact.LEVELS, Fact.NAMESPACES},
)


class SubscriptionEnd200408:
    """SubscriptionEnd (section 3.5)."""

    element = f"{{{NAMESPACE}}}SubscriptionEnd"

    def write(self, subscription: Subscription, end: End, reason: str) -> tuple[str, str]:
        epr = write_epr(manager_reference(subscription))
        manager = f"<wse:SubscriptionManager>{epr}</wse:SubscriptionManager>"
        return write_subscription_end(NAMESPACE, end, reason, manager)


_FILTERING = eventing_fault(NAMESPACE, "FilteringRequestedUnavailable", inner="SupportedDialect")
_INVALID = eventing_fault(
    NAMESPACE, "InvalidMessage", "The message is not valid and cannot be processed."
)
_EXPIRATION = eventing_fault(
    NAMESPACE, "InvalidExpirationTime", "The expiration time requested is invalid."
)
_UNABLE = eventing_fault(NAMESPACE, "EventSourceUnableToProcess")
_UNABLE_TO_RENEW = eventing_fault(NAMESPACE, "UnableToRenew")
FAULTS: Faults = {
    (Reason.MESSAGE_INVALID, None): _INVALID,
    (Reason.EPR_INVALID, None): _INVALID,
    (Reason.CONSUMER_ADDRESS, None): _INVALID,
    (Reason.SUBSCRIPTION_UNKNOWN, None): _INVALID,
    (Reason.EXPIRY_INVALID, None): _INVALID,
    (Reason.EXPIRY_IN_THE_PAST, None): _EXPIRATION,
    (Reason.EXPIRY_TOO_LONG, None): _EXPIRATION,
    (Reason.DELIVERY_MODE, None): eventing_fault(
        NAMESPACE, "DeliveryModeRequestedUnavailable", inner="SupportedDeliveryMode"
    ),
    (Reason.POLICY_UNSUPPORTED, None): eventing_fault(
        NAMESPACE, "DeliveryModeRequestedUnavailable"
    ),
    (Reason.FILTER_UNKNOWN, None): _FILTERING,
    (Reason.FILTER_DIALECT, None): replace(
        _FILTERING, always=(*topic_dialects(), names.WSE_FILTER_COMBINED)
    ),
    (Reason.FILTER_INVALID, None): _FILTERING,
    (Reason.FILTER_COSTLY, None): _FILTERING,
    (Reason.TOPIC_DIALECT, None): _FILTERING,
    (Reason.TOPIC_INVALID, None): _FILTERING,
    (Reason.TOPIC_UNSUPPORTED, None): _FILTERING,
    (Reason.QUOTA, None): replace(_UNABLE, code=Code.RECEIVER),
    (Reason.QUOTA, Operation.RENEW): replace(_UNABLE_TO_RENEW, code=Code.RECEIVER),
}
"""The faults of section 6."""

MANAGED_FAULTS: Faults = {
    (Reason.QUOTA, None): _UNABLE,
    (Reason.QUOTA, Operation.RENEW): _UNABLE_TO_RENEW,
    (Reason.CONSUMER_ADDRESS, Operation.SUBSCRIBE): replace(
        _UNABLE,
        detail=Detail.TEXTS,
        inner=f"{{{names.WSMAN}}}FaultDetail",
        always=(f"{names.WSMAN_FAULT_DETAIL}UnusableAddress",),
        most=1,
    ),
}
"""Faults that WS-Management has otherwise (DSP0226 1.2, sections 10.2 and 14.6): what the source is
unable to do is the sender's fault."""


class EventingClient200408(EventingClient):
    """Speaks to sources of WS-Management, too."""

    def _delivery_options(self, wanted: SubscribeOptions) -> str:
        return write_delivery_options(wanted.source)

    def _ending(self, wanted: SubscribeOptions) -> str:
        return write_bookmarks(wanted.source)


_SUBSCRIBE_FAULTS = {
    # WSDL declares elements, which two faults have in their details.
    Operation.SUBSCRIBE: (
        f"{{{NAMESPACE}}}SupportedDeliveryMode",
        f"{{{NAMESPACE}}}SupportedDialect",
    )
}
MANAGED = Service(
    "wsman",
    "WSManagement",
    ("addressing-2004-08", "eventing-2004-08", "ws-management"),
    eventing_offers(
        NAMESPACE,
        _SUBSCRIBE_FAULTS,
        empty=(Operation.UNSUBSCRIBE,),
        suffix="Managed",
        headers=tuple(
            f"{{{names.WSMAN}}}{name}"
            for name in ("ResourceURI", "OperationTimeout", "MaxEnvelopeSize")
        ),
        identified=True,
    ),
    {NAMESPACE: names.WSA_FAULT_2004_08},
)
"""What clients of WS-Management ask for: WS-Eventing with header blocks of theirs."""

SPECIFICATION = Specification(
    Version.WSE_2004_08,
    Family.WSE,
    "WS-Eventing 2004/08",
    requests=Requests200408(),
    faults=FAULTS,
    managed=MANAGED_FAULTS,
    notifications=Notifications200408(),
    ending=SubscriptionEnd200408(),
    client=EventingClient200408(NAMESPACE, Soap.V1_2, Wsa.V2004_08),
    sequences=True,
    leases=LeaseRules(shortens=True, endless=False),
    services=(
        Service(
            "wse",
            "WSEventing",
            ("addressing-2004-08", "eventing-2004-08"),
            eventing_offers(
                NAMESPACE,
                _SUBSCRIBE_FAULTS,
                empty=(Operation.UNSUBSCRIBE,),
            ),
            {NAMESPACE: names.WSA_FAULT_2004_08},
        ),
    ),
    identifiers=frozenset({f"{{{NAMESPACE}}}Identifier"}),
    repeats=lambda one: is_messenger(one.policy.dialect),
)
