"""WS-ResourceProperties 1.2 and WS-ResourceLifetime 1.2, as far as subscriptions and the producer
are resources: reading properties, scheduled and immediate termination."""

from collections.abc import Collection, Mapping
from datetime import datetime

from lxml import etree

from filters import Expression, Reason, Step, Topic, dialects, topic_text
from mediation import names
from mediation.codec import Answer
from mediation.filtering import CHANGED_ONLY
from mediation.model.errors import MediationError
from mediation.model.expiry import NEVER, Expiry, format_seconds, parse_expiry
from mediation.model.messages import Subscription
from mediation.requests import (
    Destroy,
    GetProperties,
    Operation,
    Properties,
    Request,
    Response,
    SetTerminationTime,
    TerminationTime,
)
from mediation.soap.addressing import write_epr
from mediation.soap.envelopes import (
    elements,
    local_name,
    namespace_of,
    text_of,
    xml_attribute,
    xml_text,
)

RP, RL, WSNT = names.WSRF_RP, names.WSRF_RL, names.WSN_1_3
NAMESPACES = frozenset({RP, RL})

SUBSCRIPTION_DOCUMENT = f"{{{WSNT}}}SubscriptionManagerRP"
PRODUCER_DOCUMENT = f"{{{names.WSN_BR_1_3}}}NotificationBrokerRP"

OPERATIONS = {
    f"{{{RP}}}GetResourceProperty": Operation.GET_RESOURCE_PROPERTY,
    f"{{{RP}}}GetMultipleResourceProperties": Operation.GET_MULTIPLE_RESOURCE_PROPERTIES,
    f"{{{RP}}}GetResourcePropertyDocument": Operation.GET_RESOURCE_PROPERTY_DOCUMENT,
    f"{{{RL}}}SetTerminationTime": Operation.SET_TERMINATION_TIME,
    f"{{{RL}}}Destroy": Operation.DESTROY,
}
ACTION_OF = {
    Operation.GET_RESOURCE_PROPERTY: names.WSRF_RP_ACTIONS + "GetResourceProperty/",
    Operation.GET_MULTIPLE_RESOURCE_PROPERTIES: names.WSRF_RP_ACTIONS
    + "GetMultipleResourceProperties/",
    Operation.GET_RESOURCE_PROPERTY_DOCUMENT: names.WSRF_RP_ACTIONS
    + "GetResourcePropertyDocument/",
    Operation.SET_TERMINATION_TIME: names.WSRF_RL_ACTIONS + "ScheduledResourceTermination/",
    Operation.DESTROY: names.WSRF_RL_ACTIONS + "ImmediateResourceTermination/",
}
ACTIONS = {f"{base}{operation.value}Request": operation for operation, base in ACTION_OF.items()}


def read(operation: Operation, element: etree._Element) -> Request:
    """Read a request.

    Raises:
        MediationError: as the specifications say.
    """
    match operation:
        case Operation.GET_RESOURCE_PROPERTY:
            return GetProperties((_qname(element),))
        case Operation.GET_MULTIPLE_RESOURCE_PROPERTIES:
            asked = [
                child for child in elements(element) if local_name(child) == "ResourceProperty"
            ]
            if not asked or len(asked) > 64:
                raise MediationError(
                    Reason.MESSAGE_INVALID, "The request names no resource property, or too many."
                )
            return GetProperties(tuple(map(_qname, asked)))
        case Operation.GET_RESOURCE_PROPERTY_DOCUMENT:
            return GetProperties(None)
        case Operation.SET_TERMINATION_TIME:
            return SetTerminationTime(_termination(element))
        case _:
            return Destroy()


def _qname(element: etree._Element) -> str:
    """The QName in an element's text, expanded by the namespaces in scope there."""
    text = text_of(element)
    prefix, colon, local = text.rpartition(":")
    uri = element.nsmap.get(prefix if colon else None)
    if not local or (colon and uri is None):
        raise MediationError(
            Reason.PROPERTY_UNKNOWN, "The name of the resource property is not a QName in scope."
        )
    return f"{{{uri}}}{local}" if uri else local


def _termination(element: etree._Element) -> Expiry:
    for child in elements(element):
        if namespace_of(child) != RL:
            continue
        if local_name(child) in ("RequestedTerminationTime", "RequestedLifetimeDuration"):
            if (child.get(f"{{{names.XSI}}}nil") or "").strip() in ("1", "true"):
                return NEVER
            return parse_expiry(text_of(child))
    raise MediationError(Reason.MESSAGE_INVALID, "SetTerminationTime requests no time.")


def write(response: Response, operation: Operation) -> Answer:
    """The answer to one of these operations."""
    action = f"{ACTION_OF[operation]}{operation.value}Response"
    namespace = RL if operation in (Operation.SET_TERMINATION_TIME, Operation.DESTROY) else RP
    match response:
        case Properties():
            inner = _write_properties(response)
        case TerminationTime(new, now):
            inner = _time("rf:NewTerminationTime", new) + _time("rf:CurrentTime", now)
        case _:
            inner = ""
    name = f"rf:{operation.value}Response"
    return Answer(action, f'<{name} xmlns:rf="{namespace}">{inner}</{name}>')


def _time(name: str, moment: datetime | None, declaration: str = "") -> str:
    if moment is None:
        return f'<{name}{declaration} xmlns:xsi="{names.XSI}" xsi:nil="true"/>'
    return f"<{name}{declaration}>{format_seconds(moment)}</{name}>"


def _write_properties(response: Properties) -> str:
    if response.names is None:
        root = etree.QName(response.document)
        inner = b"".join(response.values.values()).decode()
        return f'<d:{root.localname} xmlns:d="{root.namespace}">{inner}</d:{root.localname}>'
    unknown = [name for name in response.names if name not in response.values]
    if unknown:
        raise MediationError(
            Reason.PROPERTY_UNKNOWN, "The resource has no such property.", names=tuple(unknown)
        )
    return b"".join(response.values[name] for name in response.names).decode()


def subscription_properties(subscription: Subscription, now: datetime) -> Mapping[str, bytes]:
    """The resource properties of a subscription, by expanded name, in the schema's order
    (WS-BaseNotification 1.3, SubscriptionManagerRP; WS-ResourceLifetime 1.2)."""
    wsnt, rl = f' xmlns:wsnt="{WSNT}"', f' xmlns:rl="{RL}"'
    consumer = write_epr(subscription.consumer)
    values = {
        "ConsumerReference": f"<wsnt:ConsumerReference{wsnt}>{consumer}</wsnt:ConsumerReference>",
        "Filter": _filter(subscription, wsnt),
        "SubscriptionPolicy": _policy(subscription, wsnt),
        "CreationTime": _time("wsnt:CreationTime", subscription.lease.created, wsnt),
    }
    properties = {f"{{{WSNT}}}{name}": text.encode() for name, text in values.items()}
    properties[f"{{{RL}}}CurrentTime"] = _time("rl:CurrentTime", now, rl).encode()
    properties[f"{{{RL}}}TerminationTime"] = _time(
        "rl:TerminationTime", subscription.lease.expires, rl
    ).encode()
    return properties


def _filter(subscription: Subscription, wsnt: str) -> str:
    filter_ = subscription.filter
    inner = [_expression("TopicExpression", expression) for expression in filter_.topics]
    inner += [
        _expression("MessageContent", expression)
        for expression in (*filter_.contents, *filter_.others)
        if expression != CHANGED_ONLY
    ]
    return f"<wsnt:Filter{wsnt}>{''.join(inner)}</wsnt:Filter>" if inner else ""


def _expression(name: str, expression: Expression) -> str:
    """An expression with the namespaces that its prefixes mean; ``wsnt`` is written on each, for
    an expression may bind that prefix to something else."""
    scope = "".join(
        f" xmlns{':' + prefix if prefix else ''}={xml_attribute(uri)}"
        for prefix, uri in expression.namespaces
        if prefix not in ("xml", "n-")
    )
    return (
        f'<n-:{name} xmlns:n-="{WSNT}"{scope} Dialect={xml_attribute(expression.dialect)}>'
        f"{xml_text(expression.text)}</n-:{name}>"
    )


def _policy(subscription: Subscription, wsnt: str) -> str:
    inner = "<wsnt:UseRaw/>" if subscription.policy.raw else ""
    if CHANGED_ONLY in subscription.filter.contents:
        inner += f'<tev:ChangedOnly xmlns:tev="{names.ONVIF_EVENTS}">true</tev:ChangedOnly>'
    return f"<wsnt:SubscriptionPolicy{wsnt}>{inner}</wsnt:SubscriptionPolicy>" if inner else ""


def producer_properties(
    topics: Collection[Topic], topic_dialects: Collection[str]
) -> Mapping[str, bytes]:
    """The resource properties of the gateway as a producer and broker
    (WS-BrokeredNotification 1.3, NotificationBrokerRP); *topics* are those seen so far."""
    wsnt = f' xmlns:wsnt="{WSNT}"'
    expressions = "".join(_topic_element("wsnt:TopicExpression", topic, wsnt) for topic in topics)
    offered = "".join(
        f"<wsnt:TopicExpressionDialect{wsnt}>{xml_text(uri)}</wsnt:TopicExpressionDialect>"
        for uri in topic_dialects
    )
    fixed = f"<wsnt:FixedTopicSet{wsnt}>false</wsnt:FixedTopicSet>"
    br = f' xmlns:br="{names.WSN_BR_1_3}"'
    registration = f"<br:RequiresRegistration{br}>false</br:RequiresRegistration>"
    return {
        f"{{{WSNT}}}TopicExpression": expressions.encode(),
        f"{{{WSNT}}}FixedTopicSet": fixed.encode(),
        f"{{{WSNT}}}TopicExpressionDialect": offered.encode(),
        f"{{{names.WSTOP_1_3}}}TopicSet": _topic_set(topics),
        f"{{{names.WSN_BR_1_3}}}RequiresRegistration": registration.encode(),
    }


def _topic_element(name: str, topic: Topic, declarations: str) -> str:
    text, scope = written_topic(topic)
    return f'<{name}{declarations}{scope} Dialect="{dialects.TOPIC_CONCRETE}">{text}</{name}>'


def written_topic(topic: Topic) -> tuple[str, str]:
    """A topic as a concrete path, escaped, and the declarations of the prefixes in it."""
    prefixes: dict[str, str] = {}
    for step in topic.steps:
        if step.namespace and step.namespace not in prefixes:
            preferred = names.PREFERRED_PREFIXES.get(step.namespace)
            prefixes[step.namespace] = preferred or f"t{len(prefixes)}"
    scope = "".join(f" xmlns:{prefix}={xml_attribute(uri)}" for uri, prefix in prefixes.items())
    return xml_text(topic_text(topic, prefixes)), scope


def _topic_set(topics: Collection[Topic]) -> bytes:
    """WS-Topics 1.3, TopicSet: elements named after the topics, nested, ``wstop:topic`` on those
    that are one. A topic whose name is no NCName cannot stand there and is left out. A root of the
    ad hoc namespace has no namespace here either, for which the schema alone has no place."""
    root = etree.Element(f"{{{names.WSTOP_1_3}}}TopicSet", nsmap={"wstop": names.WSTOP_1_3})
    nodes: dict[tuple[Step, ...], etree._Element] = {(): root}
    for topic in topics:
        try:
            for depth, step in enumerate(topic.steps, 1):
                if topic.steps[:depth] not in nodes:
                    parent = nodes[topic.steps[: depth - 1]]
                    nodes[topic.steps[:depth]] = etree.SubElement(parent, str(step))
        except ValueError:
            continue
        nodes[topic.steps].set(f"{{{names.WSTOP_1_3}}}topic", "true")
    return etree.tostring(root)
