"""The other side of both families: requests as subscribers and publishers write them, and what they
read. Sans-I/O, like all of this floor."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from lxml import etree

from filters import Reason, Refused, Topic, dialects, parse_document
from mediation import names
from mediation.model.errors import MediationError
from mediation.model.messages import EndpointReference
from mediation.model.requests import Operation
from mediation.model.versions import Family, Soap, Spec, Version, Wsa
from mediation.notification.notify import read_payload
from mediation.notification.topics import read_topics
from mediation.notification.v1_3 import NOTIFY_ACTION
from mediation.soap.actions import payload_action
from mediation.soap.addressing import read_epr, reference_headers, write_epr, write_headers
from mediation.soap.answers import PeerFault, fault_in
from mediation.soap.envelopes import (
    Envelope,
    elements,
    local_name,
    namespace_of,
    octets_of,
    read_envelope,
    text_of,
    write_envelope,
    xml_attribute,
    xml_text,
)
from mediation.soap.payloads import is_ours, payload_of

SPECS: Mapping[Version, Spec] = {
    Version.WSE_2004_08: Spec(Version.WSE_2004_08, Soap.V1_2, Wsa.V2004_08),
    Version.WSN_1_3: Spec(Version.WSN_1_3, Soap.V1_2, Wsa.V2005_08),
}
"""How we speak a version where nobody asks for another way."""

_WSE, _WSN = names.WSE_2004_08, names.WSN_1_3


class AnsweredFault(MediationError):
    """The peer answered with a fault."""

    def __init__(self, fault: PeerFault) -> None:
        super().__init__(Reason.MESSAGE_INVALID, fault.reason or fault.subcode or fault.code)
        self.fault = fault


@dataclass(frozen=True, slots=True)
class Granted:
    """What a producer granted; times are its own text."""

    manager: EndpointReference | None
    expires: str | None
    current_time: str | None = None


@dataclass(frozen=True, slots=True)
class Received:
    """One notification as it arrived at a consumer."""

    topic: Topic | None
    payload: bytes
    action: str | None
    message_id: str | None
    subscription: str | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """SubscriptionEnd as it arrived: the status's last word, and the reason."""

    status: str
    reason: str


def _request(
    spec: Spec,
    to: EndpointReference | str,
    action: str,
    body: str,
    message_id: str,
    headers: str = "",
    *,
    reply: bool = True,
) -> tuple[str, bytes]:
    address = to if isinstance(to, str) else to.address
    wsa = spec.wsa
    head = write_headers(wsa, action=action, to=address, message_id=message_id)
    if reply and wsa is not None:
        head += f"<wsa:ReplyTo><wsa:Address>{wsa.anonymous}</wsa:Address></wsa:ReplyTo>"
    if not isinstance(to, str) and wsa is not None:
        head += reference_headers(to, wsa).decode()
    return action, write_envelope(spec.soap, wsa, head + headers, body)


_CLARK = re.compile(r"\{([^{}]*)\}")


def _element(
    uri: str,
    name: str,
    text: str,
    dialect: str,
    namespaces: Mapping[str, str],
) -> str:
    """An element whose text uses the prefixes *namespaces*; its own prefix is none of them."""
    prefix = _fresh("wse" if uri == _WSE else "wsnt", namespaces)
    scope = {**namespaces, prefix: uri}
    declared = "".join(f" xmlns:{key}={xml_attribute(value)}" for key, value in scope.items())
    return (
        f"<{prefix}:{name}{declared} Dialect={xml_attribute(dialect)}>{xml_text(text)}"
        f"</{prefix}:{name}>"
    )


def _fresh(prefix: str, taken: Mapping[str, str]) -> str:
    while prefix in taken:
        prefix += "_"
    return prefix


def _topic_element(
    uri: str, name: str, topic: str, namespaces: Mapping[str, str] | None = None
) -> str:
    """A topic as a person writes it, in the narrowest dialect that has its form. Namespaces in
    braces, as in Clark notation, become prefixes."""
    scope = dict(namespaces or {})

    def prefixed(found: re.Match[str]) -> str:
        for prefix, known in scope.items():
            if known == found[1]:
                return f"{prefix}:"
        prefix = _fresh(f"t{len(scope)}", scope)
        scope[prefix] = found[1]
        return f"{prefix}:"

    text = _CLARK.sub(prefixed, topic)
    if any(mark in text for mark in ("*", "//", "|", "/.")):
        dialect = dialects.TOPIC_FULL
    else:
        dialect = dialects.TOPIC_CONCRETE if "/" in text else dialects.TOPIC_SIMPLE
    return _element(uri, name, text, dialect, scope)


def write_subscribe(
    spec: Spec,
    *,
    to: str,
    consumer: EndpointReference,
    message_id: str,
    topic: str | None = None,
    xpath: str | None = None,
    namespaces: Mapping[str, str] | None = None,
    expires: str | None = None,
    end_to: EndpointReference | None = None,
    raw: bool = False,
) -> tuple[str, bytes]:
    """Subscribe: the action and the envelope.

    Args:
        topic: A name, a path or a Full expression; its namespaces are prefixes or, in braces, URIs
            (``{urn:example}a/b``).
        xpath: A content filter, over the payload in WS-Notification; *namespaces* are its prefixes,
            and the topic's.
        expires: An xsd:duration or xsd:dateTime.
    """
    scope = namespaces or {}
    if spec.version.family is Family.WSE:
        action = f"{_WSE}/Subscribe"
        parts = []
        if end_to is not None:
            parts.append(f"<wse:EndTo>{write_epr(end_to)}</wse:EndTo>")
        parts.append(
            f"<wse:Delivery><wse:NotifyTo>{write_epr(consumer)}</wse:NotifyTo></wse:Delivery>"
        )
        if expires:
            parts.append(f"<wse:Expires>{xml_text(expires)}</wse:Expires>")
        parts.append(_wse_filter(topic, xpath, scope))
        body = f'<wse:Subscribe xmlns:wse="{_WSE}">{"".join(parts)}</wse:Subscribe>'
        return _request(spec, to, action, body, message_id)
    action = f"{names.WSN_1_3_ACTIONS}NotificationProducer/SubscribeRequest"
    inner = f"<wsnt:ConsumerReference>{write_epr(consumer)}</wsnt:ConsumerReference>"
    filters = _wsn_filters(topic, xpath, scope)
    if filters:
        inner += f"<wsnt:Filter>{filters}</wsnt:Filter>"
    if expires:
        inner += f"<wsnt:InitialTerminationTime>{xml_text(expires)}</wsnt:InitialTerminationTime>"
    if raw:
        inner += "<wsnt:SubscriptionPolicy><wsnt:UseRaw/></wsnt:SubscriptionPolicy>"
    body = f'<wsnt:Subscribe xmlns:wsnt="{_WSN}">{inner}</wsnt:Subscribe>'
    return _request(spec, to, action, body, message_id)


def _wsn_filters(topic: str | None, xpath: str | None, scope: Mapping[str, str]) -> str:
    filters = _topic_element(_WSN, "TopicExpression", topic, scope) if topic else ""
    if xpath:
        filters += _element(_WSN, "MessageContent", xpath, dialects.XPATH_1_0, scope)
    return filters


def _wse_filter(topic: str | None, xpath: str | None, scope: Mapping[str, str]) -> str:
    if topic and xpath:
        inner = _wsn_filters(topic, xpath, scope)
        return f'<wse:Filter Dialect="{names.WSE_FILTER_COMBINED}">{inner}</wse:Filter>'
    if topic:
        return _topic_element(_WSE, "Filter", topic, scope)
    if xpath:
        return _element(_WSE, "Filter", xpath, dialects.XPATH_1_0, scope)
    return ""


_WSN_PORT_TYPES = {
    Operation.RENEW: "SubscriptionManager",
    Operation.UNSUBSCRIBE: "SubscriptionManager",
    Operation.PAUSE: "PausableSubscriptionManager",
    Operation.RESUME: "PausableSubscriptionManager",
}


def _manage(
    spec: Spec, operation: Operation, manager: EndpointReference, message_id: str, inner: str = ""
) -> tuple[str, bytes]:
    name = operation.value
    if spec.version.family is Family.WSE:
        body = f'<wse:{name} xmlns:wse="{_WSE}">{inner}</wse:{name}>'
        return _request(spec, manager, f"{_WSE}/{name}", body, message_id)
    action = f"{names.WSN_1_3_ACTIONS}{_WSN_PORT_TYPES[operation]}/{name}Request"
    body = f'<wsnt:{name} xmlns:wsnt="{_WSN}">{inner}</wsnt:{name}>'
    return _request(spec, manager, action, body, message_id)


def write_renew(
    spec: Spec, manager: EndpointReference, expires: str | None, *, message_id: str
) -> tuple[str, bytes]:
    """Renew until *expires*, an xsd:duration or xsd:dateTime; None leaves it to the producer."""
    if spec.version.family is Family.WSE:
        inner = f"<wse:Expires>{xml_text(expires)}</wse:Expires>" if expires else ""
    elif expires:
        inner = f"<wsnt:TerminationTime>{xml_text(expires)}</wsnt:TerminationTime>"
    else:
        inner = f'<wsnt:TerminationTime xmlns:xsi="{names.XSI}" xsi:nil="true"/>'
    return _manage(spec, Operation.RENEW, manager, message_id, inner)


def write_unsubscribe(
    spec: Spec, manager: EndpointReference, *, message_id: str
) -> tuple[str, bytes]:
    return _manage(spec, Operation.UNSUBSCRIBE, manager, message_id)


def write_pause(spec: Spec, manager: EndpointReference, *, message_id: str) -> tuple[str, bytes]:
    """PauseSubscription; WS-Notification alone has it."""
    return _manage(spec, Operation.PAUSE, manager, message_id)


def write_resume(spec: Spec, manager: EndpointReference, *, message_id: str) -> tuple[str, bytes]:
    """ResumeSubscription; WS-Notification alone has it."""
    return _manage(spec, Operation.RESUME, manager, message_id)


def write_get_status(
    spec: Spec, manager: EndpointReference, *, message_id: str
) -> tuple[str, bytes]:
    """GetStatus; in WS-Notification, the termination time as a resource property."""
    if spec.version.family is Family.WSE:
        return _manage(spec, Operation.GET_STATUS, manager, message_id)
    return write_get_resource_property(
        spec, manager, f"{{{names.WSRF_RL}}}TerminationTime", message_id=message_id
    )


def write_get_resource_property(
    spec: Spec, manager: EndpointReference, name: str, *, message_id: str
) -> tuple[str, bytes]:
    """GetResourceProperty of *name*, in Clark notation."""
    uri, _, local = name[1:].partition("}")
    action = f"{names.WSRF_RP_ACTIONS}GetResourceProperty/GetResourcePropertyRequest"
    body = (
        f'<rp:GetResourceProperty xmlns:rp="{names.WSRF_RP}" xmlns:p={xml_attribute(uri)}>'
        f"p:{xml_text(local)}</rp:GetResourceProperty>"
    )
    return _request(spec, manager, action, body, message_id)


def write_set_termination_time(
    spec: Spec, manager: EndpointReference, expires: str | None, *, message_id: str
) -> tuple[str, bytes]:
    """SetTerminationTime to a dateTime, for a duration, or, with None, to never."""
    if expires is None:
        inner = f'<rl:RequestedTerminationTime xmlns:xsi="{names.XSI}" xsi:nil="true"/>'
    elif expires.startswith("P"):
        inner = f"<rl:RequestedLifetimeDuration>{xml_text(expires)}</rl:RequestedLifetimeDuration>"
    else:
        inner = f"<rl:RequestedTerminationTime>{xml_text(expires)}</rl:RequestedTerminationTime>"
    base = names.WSRF_RL_ACTIONS + "ScheduledResourceTermination/"
    body = f'<rl:SetTerminationTime xmlns:rl="{names.WSRF_RL}">{inner}</rl:SetTerminationTime>'
    return _request(spec, manager, f"{base}SetTerminationTimeRequest", body, message_id)


def write_destroy(spec: Spec, manager: EndpointReference, *, message_id: str) -> tuple[str, bytes]:
    action = f"{names.WSRF_RL_ACTIONS}ImmediateResourceTermination/DestroyRequest"
    body = f'<rl:Destroy xmlns:rl="{names.WSRF_RL}"/>'
    return _request(spec, manager, action, body, message_id)


def write_get_current_message(
    spec: Spec, *, to: str, topic: str, message_id: str
) -> tuple[str, bytes]:
    action = f"{names.WSN_1_3_ACTIONS}NotificationProducer/GetCurrentMessageRequest"
    element = _topic_element(_WSN, "Topic", topic)
    body = f'<wsnt:GetCurrentMessage xmlns:wsnt="{_WSN}">{element}</wsnt:GetCurrentMessage>'
    return _request(spec, to, action, body, message_id)


def write_publish(
    spec: Spec,
    *,
    to: str,
    payload: bytes,
    message_id: str,
    topic: str | None = None,
    action: str | None = None,
    producer: EndpointReference | None = None,
) -> tuple[str, bytes]:
    """An event: a wrapped Notify, or, in WS-Eventing, the bare payload with a topic header.

    Raises:
        FilterError: *payload* is not one acceptable XML element.
    """
    root = parse_document(payload)
    body = octets_of(root).decode()
    element = _topic_element(_WSN, "Topic", topic) if topic else ""
    if spec.version.family is Family.WSE:
        action = action or payload_action(body.encode())
        return _request(spec, to, action, body, message_id, element, reply=False)
    if producer is not None:
        element += f"<wsnt:ProducerReference>{write_epr(producer)}</wsnt:ProducerReference>"
    notify = (
        f'<wsnt:Notify xmlns:wsnt="{_WSN}"><wsnt:NotificationMessage>{element}'
        f"<wsnt:Message>{body}</wsnt:Message></wsnt:NotificationMessage></wsnt:Notify>"
    )
    return _request(spec, to, NOTIFY_ACTION, notify, message_id, reply=False)


def _read(octets: bytes) -> Envelope:
    fault = fault_in(octets)
    if fault is not None:
        raise AnsweredFault(fault)
    return read_envelope(parse_document(octets))


def read_granted(octets: bytes) -> Granted:
    """Read the answer to Subscribe, Renew, GetStatus or SetTerminationTime.

    Raises:
        AnsweredFault: It is a fault.
        Refused: It cannot be read.
    """
    envelope = _read(octets)
    manager, expires, current = None, None, None
    for response in envelope.body[:1]:
        for child in elements(response):
            match local_name(child):
                case "SubscriptionManager" | "SubscriptionReference":
                    manager = read_epr(child, forged="drop")
                case "Expires" | "GrantedExpires" | "TerminationTime" | "NewTerminationTime":
                    expires = text_of(child) or None
                case "CurrentTime":
                    current = text_of(child) or None
    return Granted(manager, expires, current)


def read_answer(octets: bytes) -> None:
    """Read an answer of which nothing is wanted; empty is fine.

    Raises:
        AnsweredFault: It is a fault.
    """
    fault = fault_in(octets)
    if fault is not None:
        raise AnsweredFault(fault)


def read_received(octets: bytes, *, room: int | None = None) -> tuple[Received, ...] | Ended:
    """Read what arrives at a consumer: notifications, wrapped or bare, or SubscriptionEnd.

    Args:
        room: Octets that the payloads may have together, the first in any case: each repeats the
            namespaces of the envelope.

    Raises:
        Refused: It is no envelope, or a fault.
    """
    envelope = _read(octets)
    headers = {local_name(block): block for block in reversed(envelope.headers)}
    action = text_of(headers["Action"]) if "Action" in headers else None
    message_id = text_of(headers["MessageID"]) if "MessageID" in headers else None
    if not envelope.body:
        return ()
    first = envelope.body[0]
    if local_name(first) == "SubscriptionEnd" and namespace_of(first) == _WSE:
        texts = {local_name(child): text_of(child) for child in elements(first)}
        status = texts.get("Status") or texts.get("Code", "")
        word = status.replace(":", "/").rpartition("/")[2]
        return Ended(word, texts.get("Reason", ""))
    ours = is_ours(octets)
    if local_name(first) == "Notify" and namespace_of(first) in names.TOPIC_HEADERS:
        wrapped = (_wrapped(message, action, message_id, ours) for message in elements(first))
        return _within(room, chain.from_iterable(wrapped))
    topic = None
    for block in envelope.headers:
        if local_name(block) == "Topic" and namespace_of(block) in names.TOPIC_HEADERS:
            topic = _received_topic(block)
    bare = (
        Received(topic, payload_of(child, in_ours=ours), action, message_id)
        for child in envelope.body
    )
    return _within(room, bare)


def _within(room: int | None, events: Iterable[Received]) -> tuple[Received, ...]:
    if room is None:
        return tuple(events)
    read: list[Received] = []
    for event in events:
        room -= len(event.payload)
        if read and room < 0:
            break
        read.append(event)
    return tuple(read)


def _received_topic(element: etree._Element) -> Topic | None:
    """The topic as far as it can be read: no reason to lose a notification."""
    try:
        return read_topics(element)[0]
    except Refused:
        return None


def _wrapped(
    message: etree._Element, action: str | None, message_id: str | None, ours: bool
) -> list[Received]:
    topic, reference, payload = None, None, None
    for child in elements(message):
        match local_name(child):
            case "Topic":
                topic = _received_topic(child)
            case "SubscriptionReference":
                try:
                    reference = read_epr(child, forged="drop").address
                except Refused:
                    reference = None
            case "Message":
                payload = read_payload(child, in_ours=ours)
    if payload is None:
        return []
    return [Received(topic, payload, action, message_id, reference)]
