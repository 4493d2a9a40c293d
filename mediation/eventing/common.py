"""Parts that the versions of WS-Eventing have in common, with the namespace as a parameter."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from lxml import etree

from filters import Filter, Reason, Topic, dialects
from filters.archive_positions import Position
from mediation import names
from mediation.filtering import topic_expression, write_expression, write_topic_expression
from mediation.model.delivery_modes import PUSH, DeliveryMode
from mediation.model.errors import MediationError
from mediation.model.expiry import Expiry
from mediation.model.messages import End, EndpointReference
from mediation.model.requests import (
    Arrival,
    EndOfSubscription,
    GetStatus,
    Operation,
    Renew,
    Request,
    Unsubscribe,
)
from mediation.model.specification import (
    Code,
    Detail,
    EnvelopeParts,
    Fault,
    Offer,
    RequestParts,
    SubscribeOptions,
    UnwrappedEvent,
    refuse_operation,
)
from mediation.model.versions import Soap, Wsa
from mediation.notification.topics import topic_element
from mediation.order_keys import read_order_key, write_order_key
from mediation.reliable_messaging import (
    Rm,
    read_assurance,
    read_wanted_rm,
    write_assurance,
    write_wanted_rm,
)
from mediation.soap.actions import payload_action
from mediation.soap.addressing import read_epr, write_epr
from mediation.soap.envelopes import elements, local_name, text_of, xml_attribute, xml_text
from mediation.start_positions import read_since, write_since

OPERATIONS = (
    Operation.SUBSCRIBE,
    Operation.RENEW,
    Operation.GET_STATUS,
    Operation.UNSUBSCRIBE,
)


def operations_of(namespace: str) -> Mapping[str, Operation]:
    """The operations by the expanded names of their elements."""
    return {f"{{{namespace}}}{operation.value}": operation for operation in OPERATIONS}


def actions_of(namespace: str) -> Mapping[str, Operation]:
    """The operations by their actions."""
    return {f"{namespace}/{operation.value}": operation for operation in OPERATIONS}


def children(element: etree._Element, namespace: str, name: str) -> list[etree._Element]:
    """The children of *element* with that name."""
    wanted = f"{{{namespace}}}{name}"
    return [child for child in elements(element) if child.tag == wanted]


def child(element: etree._Element, namespace: str, name: str) -> etree._Element | None:
    """The first child of *element* with that name."""
    return next(iter(children(element, namespace, name)), None)


def read_delivery(
    delivery: etree._Element, end_to: etree._Element | None, namespace: str
) -> tuple[EndpointReference, EndpointReference | None]:
    """Read the consumer that a Delivery names, and the reference in *end_to*.

    Raises:
        MediationError: ``MESSAGE_INVALID``, ``EPR_INVALID``.
    """
    notify_to = children(delivery, namespace, "NotifyTo")
    if len(notify_to) != 1:
        raise MediationError(
            Reason.MESSAGE_INVALID, "Delivery has not exactly one NotifyTo.", missing="NotifyTo"
        )
    consumer = read_epr(notify_to[0], forged="drop")
    return consumer, None if end_to is None else read_epr(end_to, forged="drop")


def read_wanted_delivery(
    subscribe: etree._Element, delivery: etree._Element, mode: DeliveryMode = PUSH
) -> DeliveryMode:
    """*mode*, in sequences where Subscribe asks for them, and with the assurance that it asks for.

    Raises:
        MediationError: ``POLICY_UNSUPPORTED``: it asks for another mode, too, or for an assurance
            that this one cannot have.
    """
    parts = (*elements(delivery), *elements(subscribe))
    rm = read_wanted_rm(parts)
    if rm is None:
        return read_assurance(parts, mode)
    if mode != PUSH:
        text = "Sequences go with deliveries that are pushed, and with no option of WS-Management."
        raise MediationError(Reason.POLICY_UNSUPPORTED, text)
    return read_assurance(parts, DeliveryMode(reliable=rm.number))


def read_wanted_since(subscribe: etree._Element, delivery: etree._Element) -> Position | None:
    """The position from which on what was published is wanted; None: from now on.

    Raises:
        MediationError: ``POLICY_UNSUPPORTED``.
    """
    return read_since((*elements(delivery), *elements(subscribe)))


def read_wanted_order_key(
    subscribe: etree._Element, delivery: etree._Element, mode: DeliveryMode
) -> str:
    """The key of which messages are to be sent in order; empty: all are.

    Raises:
        MediationError: ``POLICY_UNSUPPORTED``.
    """
    return read_order_key((*elements(delivery), *elements(subscribe)), mode)


def at_topic(filter_: Filter, arrival: Arrival) -> Filter:
    """*filter_*, with the topic of the URL to which a Subscribe came where it names none."""
    if arrival.url_topic is None or filter_.topics:
        return filter_
    return replace(filter_, topics=(topic_expression(arrival.url_topic, arrival.rules.topics),))


def read_managing(
    operation: Operation,
    element: etree._Element,
    namespace: str,
    read_expires: Callable[[etree._Element | None], Expiry],
) -> Request:
    """Read what is asked of a subscription's manager, or a SubscriptionEnd."""
    match operation:
        case Operation.RENEW:
            return Renew(read_expires(child(element, namespace, "Expires")))
        case Operation.GET_STATUS:
            return GetStatus()
        case Operation.UNSUBSCRIBE:
            return Unsubscribe()
        case Operation.SUBSCRIPTION_END:
            return EndOfSubscription(*read_subscription_end(element))
        case _:  # pragma: no cover - the tables of the versions name no other
            raise AssertionError(operation)


def write_subscription_end(
    namespace: str, end: End, reason: str, manager: str = ""
) -> tuple[str, str]:
    """The action and the body of a SubscriptionEnd; *manager* is what names it, in 2004/08."""
    body = (
        f'<wse:SubscriptionEnd xmlns:wse="{namespace}">{manager}'
        f"<wse:Status>{namespace}/{end.value}</wse:Status>"
        f'<wse:Reason xml:lang="en">{xml_text(reason)}</wse:Reason>'
        "</wse:SubscriptionEnd>"
    )
    return f"{namespace}/SubscriptionEnd", body


def topic_header(
    topic: Topic, producer: EndpointReference, dialect: str | None, wsa: Wsa
) -> EnvelopeParts:
    """The header block that tells the topic of an event, of which WS-Eventing knows nothing."""
    declared = f' xmlns:wsnt="{names.WSN_1_3}"'
    return EnvelopeParts(topic_element("wsnt:Topic", topic, dialect, declared))


def read_subscription_end(element: etree._Element) -> tuple[str, str]:
    """The last word of the status of a SubscriptionEnd, and its reason.

    Peers write the status as a URI, as a QName in ``Code`` (the example of the specification), or
    as the bare word.
    """
    texts = {local_name(one): text_of(one) for one in elements(element)}
    status = texts.get("Status") or texts.get("Code", "")
    return status.replace(":", "/").rpartition("/")[2], texts.get("Reason", "")


def eventing_fault(
    namespace: str,
    name: str,
    text: str = "",
    inner: str = "",
    *,
    action: str = "",
    in_soap_1_1: bool = False,
    always: tuple[str, ...] = (),
) -> Fault:
    """Make a fault of WS-Eventing, of the sender. Its detail lists *inner*; that of 2004/08 is for
    SOAP 1.2 alone."""
    return Fault(
        Code.SENDER,
        f"{{{namespace}}}{name}",
        text=text,
        detail=Detail.URIS if inner else Detail.NONE,
        inner=inner,
        always=always,
        in_soap_1_1=in_soap_1_1,
        prefix="wse",
        action=action,
    )


def eventing_offers(
    namespace: str,
    faults: Mapping[Operation, tuple[str, ...]],
    *,
    empty: Iterable[Operation] = (),
    suffix: str = "",
    headers: tuple[str, ...] = (),
    identified: bool = False,
) -> tuple[Offer, ...]:
    """The operations as the specification declares them.

    Args:
        faults: The expanded names of the details of an operation's faults.
        empty: Operations whose answer has an empty body.
        suffix: What tells the port types from those of another version, in one document.
        headers: The expanded names of the header blocks of all requests.
        identified: Where they do not subscribe, they have one with ``wse:Identifier``, too.
    """
    return tuple(
        Offer(
            ("EventSource" if operation is Operation.SUBSCRIBE else "EventSubscriptionManager")
            + suffix,
            operation,
            namespace,
            f"{namespace}/{operation.value}",
            f"{namespace}/{operation.value}Response",
            operation in empty,
            faults.get(operation, ()),
            (*headers, f"{{{namespace}}}Identifier")
            if identified and operation is not Operation.SUBSCRIBE
            else headers,
        )
        for operation in OPERATIONS
    )


_ACTION_DIALECTS: Mapping[Wsa | None, str] = {
    Wsa.V2004_08: dialects.ACTION_DPWS_1_0,
    Wsa.V2005_08: dialects.ACTION_DPWS_1_1,
}
"""The filter of actions of the DPWS that goes with a version of WS-Addressing."""


class EventingClient:
    """Requests of WS-Eventing as a client writes them; notifications are bare events."""

    notify = frozenset[str]()
    xpath = dialects.XPATH_1_0
    """The dialect of a content filter."""

    def __init__(self, namespace: str, soap: Soap, wsa: Wsa) -> None:
        self.soap: Final = soap
        self.wsa: Final = wsa
        self._namespace = namespace

    def subscribe(self, wanted: SubscribeOptions) -> RequestParts:
        # No blank between the elements: CXF, SDCri and .NET Micro Framework take one for content.
        parts = []
        if wanted.end_to is not None:
            parts.append(f"<wse:EndTo>{write_epr(wanted.end_to)}</wse:EndTo>")
        consumer = write_epr(wanted.consumer)
        mode = f" Mode={xml_attribute(wanted.mode)}" if wanted.mode else ""
        notify_to = f"<wse:NotifyTo>{consumer}</wse:NotifyTo>"
        if wanted.mode == names.WSMAN_PULL:
            notify_to = ""  # Nobody sends.
        if wanted.reliable:
            notify_to += write_wanted_rm(Rm.of(wanted.reliable))
        if wanted.assurance is not None:
            notify_to += write_assurance(wanted.assurance)
        if wanted.since is not None:
            notify_to += write_since(wanted.since)
        if wanted.order_key is not None:
            notify_to += write_order_key(wanted.order_key)
        notify_to += self._delivery_options(wanted)
        parts.append(f"<wse:Delivery{mode}>{notify_to}</wse:Delivery>")
        parts.append(self._format(wanted))
        parts.append(self._expires(wanted.expires))
        parts.append(self._filter(wanted))
        parts.append(self._ending(wanted))
        return self._request(Operation.SUBSCRIBE, "".join(parts))

    def _delivery_options(self, wanted: SubscribeOptions) -> str:
        """Return the delivery that is asked for, where a profile of the version has more to say."""
        return ""

    def _ending(self, wanted: SubscribeOptions) -> str:
        """Return what such a profile says at the end of Subscribe."""
        return ""

    def _format(self, wanted: SubscribeOptions) -> str:
        """The delivery format, where the version has them."""
        return ""

    def _expires(self, expires: str | None) -> str:
        return f"<wse:Expires>{xml_text(expires)}</wse:Expires>" if expires else ""

    def _filter(self, wanted: SubscribeOptions) -> str:
        topic, scope = wanted.topic, wanted.namespaces
        if wanted.actions:
            if topic or wanted.xpath or wanted.content:
                raise MediationError(
                    Reason.FILTER_DIALECT, "A filter of actions goes with no topic and no XPath."
                )
            actions = xml_text(" ".join(wanted.actions))
            dialect = xml_attribute(_ACTION_DIALECTS.get(wanted.wsa, dialects.ACTION_DPWS_1_1))
            return f"<wse:Filter Dialect={dialect}>{actions}</wse:Filter>"
        combined = dialects.XPATH_1_0 if topic else self.xpath
        content = wanted.content_filter(combined)
        if topic and content:
            inner = write_topic_expression(names.WSN_1_3, "wsnt:TopicExpression", topic, scope)
            inner += write_expression(names.WSN_1_3, "wsnt:MessageContent", *content, scope)
            return f'<wse:Filter Dialect="{names.WSE_FILTER_COMBINED}">{inner}</wse:Filter>'
        if topic:
            return write_topic_expression(
                self._namespace, "wse:Filter", topic, scope, dialect=wanted.topic_dialect
            )
        if content:
            return write_expression(self._namespace, "wse:Filter", *content, scope)
        return ""

    def manage(self, operation: Operation, expires: str | None = None) -> RequestParts:
        if operation not in OPERATIONS:
            refuse_operation(operation)
        return self._request(operation, self._expires(expires))

    def _request(self, operation: Operation, inner: str) -> RequestParts:
        name = f"wse:{operation.value}"
        body = f'<{name} xmlns:wse="{self._namespace}">{inner}</{name}>'
        return RequestParts(f"{self._namespace}/{operation.value}", body)

    def get_property(self, name: str) -> RequestParts:
        refuse_operation(Operation.GET_RESOURCE_PROPERTY)

    def get_current_message(self, topic: str) -> RequestParts:
        refuse_operation(Operation.GET_CURRENT_MESSAGE)

    def publish(
        self,
        payload: str,
        topic: str | None,
        action: str | None,
        producer: EndpointReference | None,
    ) -> RequestParts:
        """The bare payload, with a topic header."""
        return RequestParts(
            action or payload_action(payload.encode()), payload, self._topic_header(topic)
        )

    @staticmethod
    def _topic_header(topic: str | None) -> str:
        return write_topic_expression(names.WSN_1_3, "wsnt:Topic", topic) if topic else ""

    def unwrap(self, notify: etree._Element, *, in_ours: bool) -> Iterable[UnwrappedEvent]:
        return ()
