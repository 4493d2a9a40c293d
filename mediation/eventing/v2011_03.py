"""WS-Eventing of March 2011 (W3C Recommendation), `SPECIFICATION`.

What it does otherwise than August 2004: a delivery format instead of a mode, with wrapped
notifications; leases that are granted as asked or refused; filters over the event's root element;
and faults of its own, of which EndToNotSupported is never sent.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from lxml import etree

from filters import EVERYTHING, Filter, Reason, Topic, dialects, is_false, quoted, topic_dialects
from mediation import names
from mediation.eventing.common import (
    EventingClient,
    actions_of,
    at_topic,
    child,
    children,
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
from mediation.filtering import read_wse_filter
from mediation.model.errors import MediationError
from mediation.model.expiry import (
    NO_TIME,
    UNSPECIFIED,
    Expiry,
    format_duration,
    parse_expiry,
    write_instant,
    write_length,
)
from mediation.model.facts import BARE
from mediation.model.messages import End, EndpointReference, Subscription
from mediation.model.requests import (
    Arrival,
    Context,
    Operation,
    Publish,
    Request,
    Response,
    Subscribe,
    Subscribed,
)
from mediation.model.specification import (
    Answer,
    Code,
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
)
from mediation.model.versions import Family, Soap, Version, Wsa
from mediation.notification.reading_notify import check_number, numbered, read_payload
from mediation.soap.actions import payload_action
from mediation.soap.addressing import MAX_URI, key_parameter, write_epr
from mediation.soap.contents import check_nothing_else
from mediation.soap.envelopes import elements, text_of, xml_attribute, xml_text
from mediation.soap.payloads import payload_of

NAMESPACE = names.WSE_2011_03
NOTIFY = f"{{{NAMESPACE}}}Notify"
FORMATS = (names.WSE_2011_03_UNWRAP, names.WSE_2011_03_WRAP)
FAULT_ACTION = f"{NAMESPACE}/fault"

_TRUE = frozenset({"true", "1"})
_BOOLEANS = _TRUE | {"false", "0"}
_SHORTEST = timedelta(seconds=1)


class Requests201103:
    """The requests, their answers, and wrapped notifications as publications."""

    namespaces = frozenset({NAMESPACE, names.CXF_EVENTING})
    elements: Mapping[str, Operation] = {
        **operations_of(NAMESPACE),
        NOTIFY: Operation.PUBLISH,
        f"{{{NAMESPACE}}}SubscriptionEnd": Operation.SUBSCRIPTION_END,
        f"{{{names.CXF_EVENTING}}}subscriptionEnd": Operation.SUBSCRIPTION_END,
    }
    actions = actions_of(NAMESPACE)

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        match operation:
            case Operation.SUBSCRIBE:
                return _read_subscribe(element, context, arrival)
            case Operation.PUBLISH:
                return _read_notify(element, context, arrival)
            case _:
                return read_managing(operation, element, NAMESPACE, _read_expires)

    def write(self, response: Response, context: Context) -> Answer:
        operation = context.operation or Operation.UNSUBSCRIBE
        name = f"wse:{operation.value}Response"
        inner = ""
        if isinstance(response, Subscribed):
            if operation is Operation.SUBSCRIBE:
                epr = write_epr(manager_reference(response.subscription))
                inner = f"<wse:SubscriptionManager>{epr}</wse:SubscriptionManager>"
            asked = operation is not Operation.GET_STATUS
            inner += _write_granted(response.subscription, response.now, exactly=asked)
        body = f'<{name} xmlns:wse="{NAMESPACE}">{inner}</{name}>'
        return Answer(f"{NAMESPACE}/{operation.value}Response", body)


def manager_reference(subscription: Subscription) -> EndpointReference:
    """The manager's endpoint reference: this version has those of WS-Addressing 1.0 alone."""
    parameter = key_parameter(subscription.key, Wsa.V2005_08)
    return EndpointReference(subscription.manager, Wsa.V2005_08, parameters=(parameter,))


# Subscribe.


def _read_subscribe(element: etree._Element, context: Context, arrival: Arrival) -> Subscribe:
    delivery = child(element, NAMESPACE, "Delivery")
    if delivery is None:
        raise MediationError(Reason.MESSAGE_INVALID, "Subscribe has no Delivery.")
    if child(delivery, NAMESPACE, "NotifyTo") is None:
        raise MediationError(Reason.DELIVERY_MISSING, "Delivery has no NotifyTo.")
    consumer, end_to = read_delivery(delivery, child(element, NAMESPACE, "EndTo"), NAMESPACE)
    raw = _read_format(child(element, NAMESPACE, "Format")) == names.WSE_2011_03_UNWRAP
    filter_ = at_topic(_read_filter(element, context), arrival)
    mode = read_wanted_delivery(element, delivery)
    return Subscribe(
        consumer,
        filter_,
        _read_expires(child(element, NAMESPACE, "Expires")),
        end_to,
        raw=raw,
        dialect=filter_.topics[0].dialect if filter_.topics else None,
        delivery=mode,
        since=read_wanted_since(element, delivery),
        order_key=read_wanted_order_key(element, delivery, mode),
    )


def _read_format(element: etree._Element | None) -> str:
    name = "" if element is None else (element.get("Name") or "").strip()
    if not name:
        return names.WSE_2011_03_UNWRAP
    if name not in FORMATS:
        raise MediationError(
            Reason.DELIVERY_MODE,
            f"The delivery format {quoted(name)} is not offered",
            names=FORMATS,
            value=name[:200],
        )
    return name


def _read_filter(element: etree._Element, context: Context) -> Filter:
    found = children(element, NAMESPACE, "Filter")
    if not found:
        return EVERYTHING
    if len(found) > 1:
        raise MediationError(Reason.MESSAGE_INVALID, "Subscribe has more than one Filter.")
    wsa = context.wsa or Wsa.V2005_08
    filter_ = read_wse_filter(found[0], context.soap, wsa, payload=True)
    for expression in filter_.contents:
        if expression.dialect == dialects.XPATH_1_0 and is_false(
            expression.text, expression.namespaces
        ):
            raise MediationError(Reason.FILTER_EMPTY, "No event can pass the filter.")
    return filter_


def _read_expires(element: etree._Element | None) -> Expiry:
    """Read Expires. A duration of zero asks for a subscription that never ends, and so does none
    at all: but there, as where BestEffort says so, the gateway may grant less."""
    if element is None:
        return UNSPECIFIED
    best_effort = (element.get("BestEffort") or "false").strip()
    if best_effort not in _BOOLEANS:
        raise MediationError(Reason.MESSAGE_INVALID, "BestEffort is not an xsd:boolean.")
    text = text_of(element)
    if not text:
        return UNSPECIFIED
    if text.startswith("-P"):
        raise MediationError(Reason.EXPIRY_IN_THE_PAST, "The duration is negative.")
    asked = parse_expiry(text)
    never = asked.duration == NO_TIME
    return Expiry(
        asked.instant,
        None if never else asked.duration,
        never,
        asked.as_duration,
        best_effort in _TRUE,
    )


def _write_granted(subscription: Subscription, now: datetime, *, exactly: bool) -> str:
    """Write what is granted: *exactly* what was asked for, or what is left in whole seconds."""
    lease = subscription.lease
    if lease.expires is None:
        text = "PT0S"
    elif lease.as_duration:
        # A lease that is nearly over must not be told as one without end, PT0S.
        left = lease.expires - now
        if exactly:
            text = write_length(max(left, timedelta.resolution))
        else:
            text = format_duration(max(left, _SHORTEST))
    else:
        text = write_instant(lease.expires)
    return f"<wse:GrantedExpires>{text}</wse:GrantedExpires>"


# Notifications.


_ACTION_URI = frozenset({"actionURI"})
"""The attributes of Notify that are read."""


def _read_notify(element: etree._Element, context: Context, arrival: Arrival) -> Publish:
    """Read a wrapped notification: each child is an event with the action of ``actionURI``."""
    action = (element.get("actionURI") or "").strip()
    if len(action.encode()) > MAX_URI:
        raise MediationError(Reason.MESSAGE_INVALID, "actionURI is too long.")
    if not action and context.headers.action != names.WSE_2011_03_NOTIFY_ACTION:
        action = context.headers.action or ""
    found = elements(element)
    check_number(len(found))
    if not found and not text_of(element):
        raise MediationError(Reason.MESSAGE_INVALID, "Notify is empty.")
    check_nothing_else(element, _ACTION_URI, text=not found)
    payloads = [payload_of(each) for each in found] or [read_payload(element, _ACTION_URI)]
    events = [(arrival.url_topic, payload, None) for payload in payloads]
    return Publish(numbered(list(events), action or None, context, arrival))


def _opening(action: str) -> str:
    return f'<wse:Notify xmlns:wse="{NAMESPACE}" actionURI={xml_attribute(action)}>'


def _wrapped(
    topic: Topic, producer: EndpointReference, dialect: str | None, wsa: Wsa
) -> EnvelopeParts:
    around = topic_header(topic, producer, dialect, wsa)
    return around._replace(after_payload="</wse:Notify>")


_UNWRAP = Wrapping(topic_header, tells=BARE)
_WRAP = Wrapping(_wrapped, action=names.WSE_2011_03_NOTIFY_ACTION, opening=_opening, tells=BARE)


class Notifications201103:
    """Bare events, or wrapped ones that tell the action of each; the topic is in a header block."""

    actions = frozenset({names.WSE_2011_03_NOTIFY_ACTION})

    def wrapping(self, soap: Soap, *, raw: bool, dialect: str | None) -> Wrapping:
        return _UNWRAP if raw else _WRAP


class SubscriptionEnd201103:
    """SubscriptionEnd, which does not name the manager in this version."""

    element = f"{{{NAMESPACE}}}SubscriptionEnd"

    def write(self, subscription: Subscription, end: End, reason: str) -> tuple[str, str]:
        return write_subscription_end(NAMESPACE, end, reason)


class EventingClient201103(EventingClient):
    """Our side. A lease is asked for with BestEffort; events are wrapped, unless a subscriber
    asks for raw ones."""

    notify = frozenset({NOTIFY})
    xpath = dialects.XPATH_1_0_EVENT

    def _format(self, wanted: SubscribeOptions) -> str:
        return "" if wanted.raw else f'<wse:Format Name="{names.WSE_2011_03_WRAP}"/>'

    def _expires(self, expires: str | None) -> str:
        if not expires:
            return ""
        return f'<wse:Expires BestEffort="true">{xml_text(expires)}</wse:Expires>'

    def publish(
        self,
        payload: str,
        topic: str | None,
        action: str | None,
        producer: EndpointReference | None,
    ) -> RequestParts:
        opening = _opening(action or payload_action(payload.encode()))
        body = f"{opening}{payload}</wse:Notify>"
        return RequestParts(names.WSE_2011_03_NOTIFY_ACTION, body, self._topic_header(topic))

    def unwrap(self, notify: etree._Element, *, in_ours: bool) -> list[UnwrappedEvent]:
        action = (notify.get("actionURI") or "").strip() or None
        payloads = [payload_of(each, in_ours=in_ours) for each in elements(notify)]
        if not payloads:
            payloads = [read_payload(notify)]
        return [UnwrappedEvent(None, payload, action=action) for payload in payloads]


# Faults.


def _fault(name: str, text: str = "", inner: str = "", *, always: tuple[str, ...] = ()) -> Fault:
    return eventing_fault(
        NAMESPACE, name, text, inner, action=FAULT_ACTION, in_soap_1_1=True, always=always
    )


_FILTERING = _fault(
    "FilteringRequestedUnavailable", "", "SupportedDialect", always=(dialects.XPATH_1_0_EVENT,)
)
_FILTER = _fault("CannotProcessFilter")
_VALUE = _fault(
    "UnsupportedExpirationValue",
    "The expiration time requested is not within the min/max range.",
)
_EPR = _fault("UnusableEPR", "An EPR in the Subscribe request message is unusable.")
FAULTS: Faults = {
    (Reason.DELIVERY_MISSING, None): _fault(
        "NoDeliveryMechanismEstablished", "No delivery mechanism specified."
    ),
    (Reason.DELIVERY_MODE, None): _fault(
        "DeliveryFormatRequestedUnavailable", "", "SupportedDeliveryFormat"
    ),
    (Reason.EPR_INVALID, None): _EPR,
    (Reason.CONSUMER_ADDRESS, None): _EPR,
    (Reason.POLICY_UNSUPPORTED, None): _EPR,
    (Reason.SUBSCRIPTION_UNKNOWN, None): _fault(
        "UnknownSubscription", "The subscription is not known."
    ),
    (Reason.EXPIRY_INVALID, None): _fault("UnsupportedExpirationType"),
    (Reason.EXPIRY_IN_THE_PAST, None): _VALUE,
    (Reason.EXPIRY_TOO_LONG, None): _VALUE,
    (Reason.FILTER_UNKNOWN, None): _FILTERING,
    (Reason.FILTER_DIALECT, None): replace(
        _FILTERING, always=(dialects.XPATH_1_0_EVENT, *topic_dialects())
    ),
    (Reason.TOPIC_DIALECT, None): _FILTERING,
    (Reason.FILTER_INVALID, None): _FILTER,
    (Reason.FILTER_COSTLY, None): _FILTER,
    (Reason.TOPIC_INVALID, None): _FILTER,
    (Reason.TOPIC_UNSUPPORTED, None): _FILTER,
    (Reason.FILTER_EMPTY, None): _fault(
        "EmptyFilter", "The wse:Filter would result in zero notifications."
    ),
    (Reason.QUOTA, None): Fault(Code.RECEIVER),
}
"""The faults of section 6. All else is a fault of SOAP or of WS-Addressing: this version has no
InvalidMessage."""

SPECIFICATION = Specification(
    Version.WSE_2011_03,
    Family.WSE,
    "WS-Eventing 2011/03",
    requests=Requests201103(),
    faults=FAULTS,
    notifications=Notifications201103(),
    ending=SubscriptionEnd201103(),
    client=EventingClient201103(NAMESPACE, Soap.V1_1, Wsa.V2005_08),
    sequences=True,
    leases=LeaseRules(shortens=False, endless=True, unasked_endless=True),
    services=(
        Service(
            "wse11",
            "WSEventing2011",
            ("addressing-2005-08", "eventing-2011-03"),
            (
                *eventing_offers(
                    NAMESPACE,
                    {
                        Operation.SUBSCRIBE: (
                            f"{{{NAMESPACE}}}SupportedDeliveryFormat",
                            f"{{{NAMESPACE}}}SupportedDialect",
                        )
                    },
                    suffix="2011",
                ),
                Offer(
                    "WrappedSinkPortType",
                    Operation.PUBLISH,
                    NAMESPACE,
                    names.WSE_2011_03_NOTIFY_ACTION,
                ),
            ),
            {NAMESPACE: FAULT_ACTION},
        ),
    ),
)
