"""WS-Eventing of August 2004: its requests, its answers and SubscriptionEnd."""

from datetime import datetime
from enum import Enum

from lxml import etree

from filters import EVERYTHING, Filter, Reason, dialects, quoted
from mediation import names
from mediation.codec import Answer
from mediation.eventing.management import check_subscribe
from mediation.filtering import read_wse_filter, topic_expression
from mediation.model.errors import MediationError
from mediation.model.expiry import (
    UNSPECIFIED,
    Expiry,
    format_duration,
    format_milliseconds,
    is_milliseconds,
    parse_expiry,
)
from mediation.model.messages import EndpointReference, Subscription
from mediation.model.requests import (
    Arrival,
    Context,
    GetStatus,
    Operation,
    Renew,
    Request,
    Response,
    Subscribe,
    Subscribed,
    Unsubscribe,
)
from mediation.model.versions import Soap, Version, Wsa
from mediation.notification.messenger import is_messenger
from mediation.soap.addressing import (
    key_parameter,
    read_epr,
    reference_headers,
    write_epr,
    write_headers,
)
from mediation.soap.envelopes import (
    elements,
    local_name,
    namespace_of,
    text_of,
    write_envelope,
    xml_text,
)

NAMESPACE = names.WSE_2004_08

_OPERATIONS = {
    f"{{{NAMESPACE}}}{name}": operation
    for name, operation in (
        ("Subscribe", Operation.SUBSCRIBE),
        ("Renew", Operation.RENEW),
        ("GetStatus", Operation.GET_STATUS),
        ("Unsubscribe", Operation.UNSUBSCRIBE),
    )
}
_ACTIONS = {f"{NAMESPACE}/{operation.value}": operation for operation in _OPERATIONS.values()} | {
    f"{NAMESPACE}/GetStaus": Operation.GET_STATUS
}  # openwsman's constant


class End(Enum):
    """Why a subscription ends before its time; the value is the status on the wire."""

    DELIVERY_FAILURE = names.WSE_ENDED_DELIVERY_FAILURE
    SHUTTING_DOWN = names.WSE_ENDED_SHUTTING_DOWN
    CANCELLING = names.WSE_ENDED_CANCELLING


class WsEventing200408:
    """The codec of `Version.WSE_2004_08`."""

    version = Version.WSE_2004_08
    namespaces = frozenset({NAMESPACE})

    def operation(self, name: str) -> Operation | None:
        return _OPERATIONS.get(name)

    def action(self, action: str) -> Operation | None:
        return _ACTIONS.get(action)

    def read(
        self, operation: Operation, element: etree._Element, context: Context, arrival: Arrival
    ) -> Request:
        match operation:
            case Operation.SUBSCRIBE:
                return _read_subscribe(element, context, arrival)
            case Operation.RENEW:
                return Renew(_read_expires(_child(element, "Expires")))
            case Operation.GET_STATUS:
                return GetStatus()
            case Operation.UNSUBSCRIBE:
                return Unsubscribe()
            case _:  # pragma: no cover - `operation` names no other
                raise AssertionError(operation)

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
        name = f"wse:{operation.value}Response"
        return Answer(action, f'<{name} xmlns:wse="{NAMESPACE}">{manager}{expires}</{name}>')


def manager_reference(subscription: Subscription) -> EndpointReference:
    """The manager's endpoint reference, in the version of the subscriber's own references.

    WS-Messenger's clients take nothing but ``wse:Identifier``, which they echo without a mark.
    """
    wsa, spec = subscription.consumer.wsa, subscription.spec
    named = is_messenger(spec.version, spec.soap, subscription.policy.dialect)
    parameter = key_parameter(subscription.key, wsa, named=named)
    return EndpointReference(subscription.manager, wsa, parameters=(parameter,))


def write_subscription_end(
    subscription: Subscription, end: End, *, message_id: str, reason: str
) -> tuple[str, bytes]:
    """SubscriptionEnd for the subscription's ``EndTo``: the action and the envelope.

    Raises:
        ValueError: It has no ``EndTo``.
    """
    if subscription.end_to is None:
        raise ValueError("the subscriber asked for no SubscriptionEnd")
    wsa = subscription.spec.wsa or subscription.end_to.wsa
    action = f"{NAMESPACE}/SubscriptionEnd"
    headers = write_headers(
        wsa, action=action, to=subscription.end_to.address, message_id=message_id
    )
    epr = manager_reference(subscription)
    body = (
        f'<wse:SubscriptionEnd xmlns:wse="{NAMESPACE}">'
        f"<wse:SubscriptionManager>{write_epr(epr)}</wse:SubscriptionManager>"
        f"<wse:Status>{end.value}</wse:Status>"
        f'<wse:Reason xml:lang="en">{xml_text(reason)}</wse:Reason>'
        "</wse:SubscriptionEnd>"
    )
    headers += reference_headers(subscription.end_to, wsa).decode()
    return action, write_envelope(subscription.spec.soap, wsa, headers, body)


def _children(element: etree._Element, name: str) -> list[etree._Element]:
    wanted = f"{{{NAMESPACE}}}{name}"
    return [child for child in elements(element) if child.tag == wanted]


def _child(element: etree._Element, name: str) -> etree._Element | None:
    return next(iter(_children(element, name)), None)


def _read_subscribe(element: etree._Element, context: Context, arrival: Arrival) -> Subscribe:
    delivery = _child(element, "Delivery")
    if delivery is None:
        raise MediationError(Reason.MESSAGE_INVALID, "Subscribe has no Delivery.")
    mode = (delivery.get("Mode") or "").strip()
    if mode not in ("", names.WSE_PUSH):
        raise MediationError(
            Reason.DELIVERY_MODE,
            f"The mode {quoted(mode)} is not offered",
            names=(names.WSE_PUSH,),
            value=mode[:200],
        )
    check_subscribe(element, delivery)
    notify_to = _children(delivery, "NotifyTo")
    if len(notify_to) != 1:
        raise MediationError(Reason.MESSAGE_INVALID, "Delivery has not exactly one NotifyTo.")
    consumer = read_epr(notify_to[0], forged="drop")
    end_to = _child(element, "EndTo")
    filter_ = _read_filter(element, context, context.wsa or consumer.wsa)
    if arrival.url_topic is not None and not filter_.topics:
        filter_ = Filter((topic_expression(arrival.url_topic),), filter_.contents, filter_.others)
    expires = _child(element, "Expires")
    dialect = filter_.topics[0].dialect if filter_.topics else None
    if context.soap is Soap.V1_1 and expires is not None and is_milliseconds(text_of(expires)):
        dialect = dialects.TOPIC_IBM_SIMPLE
    return Subscribe(
        consumer,
        filter_,
        _read_expires(expires),
        None if end_to is None else read_epr(end_to, forged="drop"),
        raw=True,
        dialect=dialect,
    )


def _read_filter(element: etree._Element, context: Context, wsa: Wsa) -> Filter:
    found = [
        child
        for child in elements(element)
        if local_name(child) == "Filter" and namespace_of(child) in (NAMESPACE, names.WSMAN)
    ]
    if not found:
        return EVERYTHING
    if len(found) > 1:
        raise MediationError(Reason.MESSAGE_INVALID, "Subscribe has more than one Filter.")
    managed = namespace_of(found[0]) == names.WSMAN or names.WSMAN in context.header_namespaces
    return read_wse_filter(found[0], context.soap, wsa, payload=managed)


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
